//! Tiles of rows: of one sequence for flash attention, and of one expert for a GEMM.

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

/// Rows per tile of one expert.
pub const GROUP_ROWS: usize = 32;

/// Average rows per expert from which a GEMM over each expert's rows pays off.
const MIN_ROWS_PER_EXPERT: usize = 4;

/// Rows of a step from which a GEMM pays off.
const GEMM_MIN_ROWS: usize = 9;

/// Minimum rows of a step whose experts are computed by a GEMM over each expert's rows, not by a GEMV per row.
pub fn min_grouped_rows(experts: usize, used: usize) -> usize {
    (MIN_ROWS_PER_EXPERT * experts).div_ceil(used).max(GEMM_MIN_ROWS)
}

/// Maximum number of tiles for the experts of `rows` rows, each with `used` of `experts`.
pub fn max_groups(rows: usize, experts: usize, used: usize) -> usize {
    let entries = rows * used;
    entries / GROUP_ROWS + entries.min(experts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows per expert that need as many tiles as possible: one more than whole tiles for all but one expert.
    #[test]
    fn groups_of_rows_fit_the_grid() {
        for (rows, experts, used) in [(1, 8, 2), (16, 5, 2), (64, 128, 8), (300, 8, 2), (512, 3, 3)] {
            let (mut left, mut tiles) = (rows * used, 0usize);
            for _ in 1..experts {
                let own = left.min(1);
                (left, tiles) = (left - own, tiles + own);
            }
            tiles += left.div_ceil(GROUP_ROWS);
            let most = max_groups(rows, experts, used);
            assert!(tiles <= most, "{rows} rows, {used} of {experts} experts: {tiles} tiles in {most}");
        }
        assert_eq!((min_grouped_rows(8, 2), min_grouped_rows(128, 8), min_grouped_rows(2, 2)), (16, 64, 9));
    }

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
