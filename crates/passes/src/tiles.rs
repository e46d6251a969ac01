//! Tiles of flash attention: up to 64 rows of one sequence.

/// Maximum rows of a flash attention tile.
pub const FLASH_ROWS: usize = 64;

/// Average rows per tile from which tiles pay off: with fewer, most threads idle.
const MIN_ROWS_PER_TILE: usize = 16;

/// Number of tiles for sequences of these lengths; 0 if the tiles would be too empty.
pub fn tiles(rows: impl Iterator<Item = usize>) -> usize {
    let (rows, tiles) =
        rows.fold((0, 0), |(all, tiles), rows| (all + rows, tiles + rows.div_ceil(FLASH_ROWS)));
    if rows >= MIN_ROWS_PER_TILE * tiles { tiles } else { 0 }
}

/// Maximum number of tiles in a step of up to `rows` rows.
pub fn max_tiles(rows: usize) -> usize {
    rows / MIN_ROWS_PER_TILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_filled_tiles_are_used() {
        let tiles_of = |rows: &[usize]| tiles(rows.iter().copied());
        assert_eq!(tiles_of(&[512]), 8);
        assert_eq!(tiles_of(&[65, 64]), 3);
        assert_eq!(tiles_of(&[16]), 1);
        assert_eq!(tiles_of(&[15]), 0);
        assert_eq!(tiles_of(&[1; 200]), 0);
        assert_eq!(tiles_of(&[512, 1, 1]), 10);
        assert!((1..2000).all(|rows| tiles_of(&[rows]) <= max_tiles(rows)));
    }
}
