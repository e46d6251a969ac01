//! Which kernel computes a product, or attention: a function of shapes and of what the device can do.

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Whether kernels may add across subgroups, and how many threads these have.
    pub(crate) subgroups: Option<Subgroups>,
    /// Rows and columns of the matrices that it multiplies at once.
    pub(crate) matrices: Option<usize>,
    /// Bytes.
    pub(crate) workgroup_memory: u32,
    /// Of a workgroup.
    pub(crate) threads: u32,
}

impl Abilities {
    /// Whether subgroups have 32 threads, always.
    fn subgroup_32(self) -> bool {
        self.subgroups == Some(Subgroups { least: 32, most: 32 })
    }
}

/// Threads of a subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subgroups {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// How a pass of products is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// `linear.wgsl`: up to `columns` rows of activations at a time.
    Few { columns: usize, outputs: usize, lanes: usize, threads: usize, subgroups: bool },
    /// `matmul.wgsl`.
    Many,
    /// `tiles.wgsl`, when all weights are numbers of f16.
    Tiles { tile: usize, size: usize },
}

/// A pass of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shapes {
    /// Rows of activations.
    pub(crate) rows: usize,
    /// Inputs, and whether rows of weights end with a whole chunk.
    pub(crate) cols: usize,
    /// Of all weights.
    pub(crate) outputs: usize,
    /// Weights that make an output.
    pub(crate) gates: usize,
    /// Whether weights may have values that are all exact in f16.
    pub(crate) fits_f16: bool,
}

/// Chunks of all rows that `linear.wgsl` takes at a time.
const LANES: usize = 32;

/// Rows of activations from which weights are worth to be taken to workgroup memory.
const MANY: usize = 9;

/// Workgroups with large tiles that keep a large device busy.
const BUSY: usize = 100;

/// Whether `route.wgsl` has room for so many experts, of which a row uses so many.
pub(crate) fn fits_route(experts: usize, used: usize) -> bool {
    const WORDS: usize = (16 << 10) / size_of::<u32>();
    experts + 2 * used < WORDS
}

/// Chooses for a pass of products.
pub(crate) fn product(shapes: Shapes, abilities: Abilities) -> Product {
    let Shapes { rows, cols, outputs, gates, fits_f16 } = shapes;
    let subgroup_32 = abilities.subgroup_32();
    if rows >= MANY {
        let fits = |tile: usize, size: usize| {
            tile_bytes(tile, size) <= abilities.workgroup_memory as usize
                && 2 * tile <= abilities.threads as usize
        };
        let groups = |tile: usize| rows.div_ceil(tile) * (gates * outputs).div_ceil(tile);
        return match abilities.matrices {
            Some(size) if subgroup_32 && fits_f16 && cols.is_multiple_of(64) && fits(64, size) => {
                let tile = if fits(128, size) && groups(128) >= BUSY { 128 } else { 64 };
                Product::Tiles { tile, size }
            }
            _ => Product::Many,
        };
    }
    let columns = rows.max(1).next_power_of_two();
    let lanes = LANES / columns;
    let subgroups = subgroup_32 && lanes == 32;
    // Threads of many groups, since all of a workgroup share the activations that it brings.
    let threads = if columns == 1 { 256 } else { 64 };
    let outputs = 2 / gates;
    Product::Few { columns, outputs, lanes, threads, subgroups }
}

/// How attention is computed that is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// `attention.wgsl`: row by row.
    Rows,
    /// `flash.wgsl`: tiles of rows.
    Flash,
    /// `flash_units.wgsl`.
    FlashUnits,
}

/// Times 128 threads that share the keys of `k_dim` numbers in `attention.wgsl`: more threads have more loads on their way,
/// but each has to have 16 elements of two at a time.
pub(crate) fn teams(k_dim: usize) -> usize {
    if k_dim.is_multiple_of(64) { 2 } else { 1 }
}

/// Query heads of one K/V head that a workgroup of `attention.wgsl` takes: few enough that a row keeps several
/// workgroups busy, and that their queries, weights and results, with the row's own keys, are in the memory that every
/// device has.
pub(crate) fn heads_together(share: usize, k_dim: usize) -> usize {
    const HEADS: usize = 4;
    let [of_head, fixed] = words_of_heads(k_dim);
    share.min(HEADS).min(WORKGROUP_WORDS.saturating_sub(fixed) / of_head).max(1)
}

/// Words of memory that every device has for a workgroup.
const WORKGROUP_WORDS: usize = (16 << 10) / size_of::<f32>();

/// Words of memory that a workgroup of `attention.wgsl` takes for each query head, and besides.
fn words_of_heads(k_dim: usize) -> [usize; 2] {
    let (k_dim, threads) = (k_dim.next_multiple_of(2), 128 * teams(k_dim));
    [k_dim + threads + 2 * threads + 1, threads + k_dim + 4]
}

/// Whether `attention.wgsl` computes heads of keys and values so wide: one head has to be in the memory that every device
/// has, and the kernel's text grows with the values.
pub(crate) fn fits_attention(k_dim: usize, v_dim: usize) -> bool {
    const V_DIM: usize = 2048;
    let [of_head, fixed] = words_of_heads(k_dim.min(WORKGROUP_WORDS));
    of_head + fixed <= WORKGROUP_WORDS && v_dim <= V_DIM
}

/// Rows of a tile of flash attention, at most.
pub(crate) const FLASH_ROWS: usize = 64;

/// Rows that tiles have on average when they are worth it: fewer keep most of a workgroup waiting.
const FILLED: usize = 16;

/// Chooses for heads of `k_dim` and `v_dim` numbers, with a store of f32 (`kv_f32`) or of f16.
pub(crate) fn attention(k_dim: usize, v_dim: usize, kv_f32: bool, abilities: Abilities) -> Attention {
    let all = |most: usize, multiple: usize| {
        [k_dim, v_dim].iter().all(|&dim| dim <= most && dim.is_multiple_of(multiple))
    };
    let fits = flash_units_bytes(k_dim, v_dim) <= abilities.workgroup_memory as usize;
    if abilities.matrices == Some(16) && abilities.subgroup_32() && !kv_f32 && all(128, 16) && fits {
        return Attention::FlashUnits;
    }
    if all(256, 4) { Attention::Flash } else { Attention::Rows }
}

/// Tiles for sequences with so many rows each; none when these would be filled too little.
pub(crate) fn tiles(rows: impl Iterator<Item = usize>) -> usize {
    let (rows, tiles) =
        rows.fold((0, 0), |(all, tiles), rows| (all + rows, tiles + rows.div_ceil(FLASH_ROWS)));
    if rows >= FILLED * tiles { tiles } else { 0 }
}

/// Tiles of a step of up to `rows` rows, at most.
pub(crate) fn most_tiles(rows: usize) -> usize {
    rows / FILLED
}

/// Workgroup memory of `flash_units.wgsl`, with a window, which takes more.
pub(crate) fn flash_units_bytes(k_dim: usize, v_dim: usize) -> usize {
    let halves = FLASH_ROWS * (k_dim.max(v_dim) + 8 + 72);
    halves * size_of::<u16>() + (FLASH_ROWS * 68 + 2 * v_dim + 4) * size_of::<f32>()
}

/// The kernels for passes of up to as many rows, each with the most rows that it is for. Where weights could turn out
/// to be no numbers of f16, the last one is for them.
pub(crate) fn products(shapes: Shapes, abilities: Abilities) -> Vec<(Product, usize)> {
    let of = |rows| product(Shapes { rows, ..shapes }, abilities);
    let mut chosen = Vec::new();
    let mut up_to = 0;
    while up_to < shapes.rows {
        let next = of(up_to + 1);
        up_to = (up_to + 1..shapes.rows).find(|rows| of(rows + 1) != next).unwrap_or(shapes.rows);
        chosen.push((next, up_to));
    }
    if let Some((Product::Tiles { .. }, _)) = chosen.last() {
        chosen.push((Product::Many, shapes.rows));
    }
    chosen
}

/// Workgroup memory of `tiles.wgsl`.
pub(crate) fn tile_bytes(tile: usize, size: usize) -> usize {
    2 * tile * 72 * size_of::<u16>() + tile / 16 * size * size * size_of::<f32>()
}

impl Product {
    /// Outputs and rows of activations of a workgroup.
    pub(crate) fn tile(self, gates: usize) -> (usize, usize) {
        match self {
            Product::Few { columns, outputs, lanes, threads, .. } => (outputs * (threads / lanes), columns),
            Product::Many => (64 / gates, 32),
            Product::Tiles { tile, .. } => (tile / gates, tile),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_chosen_by_shape() {
        let plain = Abilities { subgroups: None, matrices: None, workgroup_memory: 16 << 10, threads: 256 };
        let subgroups = |least, most| Abilities { subgroups: Some(Subgroups { least, most }), ..plain };
        let units = Abilities { matrices: Some(16), workgroup_memory: 48 << 10, ..subgroups(32, 32) };
        let metal = Abilities { matrices: Some(8), workgroup_memory: 32 << 10, ..subgroups(32, 32) };
        let shapes = |rows, cols, outputs, gates| Shapes { rows, cols, outputs, gates, fits_f16: true };
        let not_f16 =
            |rows, cols, outputs, gates| Shapes { fits_f16: false, ..shapes(rows, cols, outputs, gates) };
        let few = |columns, outputs, subgroups| {
            let threads = if columns == 1 { 256 } else { 64 };
            Product::Few { columns, outputs, lanes: 32 / columns, threads, subgroups }
        };
        let tiles = |tile, size| Product::Tiles { tile, size };
        let table = [
            (shapes(1, 2048, 2048, 1), units, few(1, 2, true)),
            (shapes(1, 2048, 5632, 2), units, few(1, 1, true)),
            (shapes(1, 2048, 2048, 1), plain, few(1, 2, false)),
            (shapes(1, 2048, 2048, 1), subgroups(128, 128), few(1, 2, false)),
            (shapes(1, 1, 3, 1), units, few(1, 2, true)),
            (shapes(3, 5632, 2048, 1), units, few(4, 2, false)),
            (shapes(8, 1024, 64, 2), units, few(8, 1, false)),
            (shapes(9, 2048, 2048, 1), units, tiles(64, 16)),
            (shapes(512, 2048, 2048, 1), units, tiles(64, 16)),
            (shapes(512, 2048, 5632, 2), units, tiles(128, 16)),
            (shapes(512, 2048, 5632, 2), metal, tiles(64, 8)),
            (shapes(512, 288, 288, 1), units, Product::Many),
            (not_f16(512, 2048, 2048, 1), units, Product::Many),
            (shapes(512, 2048, 5632, 2), plain, Product::Many),
            (
                shapes(512, 2048, 5632, 2),
                Abilities { matrices: Some(16), ..subgroups(32, 64) },
                Product::Many,
            ),
            (shapes(512, 2048, 5632, 2), Abilities { workgroup_memory: 16 << 10, ..units }, Product::Many),
            (shapes(512, 2048, 5632, 2), Abilities { threads: 128, ..units }, tiles(64, 16)),
        ];
        for (shapes, abilities, expected) in table {
            assert_eq!(product(shapes, abilities), expected, "{shapes:?} {abilities:?}");
        }
        assert_eq!(few(1, 2, false).tile(1), (16, 1));
        assert_eq!(few(4, 2, false).tile(1), (16, 4));
        assert_eq!(Product::Many.tile(2), (32, 32));
        assert_eq!(tiles(128, 16).tile(2), (64, 128));
    }

    #[test]
    fn attention_is_chosen_by_the_width_of_heads() {
        let subgroups = Some(Subgroups { least: 32, most: 32 });
        let plain = Abilities { subgroups, matrices: None, workgroup_memory: 16 << 10, threads: 256 };
        let units = Abilities { matrices: Some(16), workgroup_memory: 48 << 10, ..plain };
        let metal = Abilities { matrices: Some(8), workgroup_memory: 32 << 10, ..plain };
        for (k_dim, v_dim, kv_f32, abilities, expected) in [
            (64, 64, false, units, Attention::FlashUnits),
            (128, 112, false, units, Attention::FlashUnits),
            (128, 128, true, units, Attention::Flash),
            (128, 128, false, Abilities { workgroup_memory: 32 << 10, ..units }, Attention::Flash),
            (128, 128, false, Abilities { subgroups: None, ..units }, Attention::Flash),
            (128, 128, false, metal, Attention::Flash),
            (128, 128, false, plain, Attention::Flash),
            (100, 64, false, units, Attention::Flash),
            (256, 256, false, units, Attention::Flash),
            (10, 64, false, units, Attention::Rows),
            (64, 33, false, plain, Attention::Rows),
            (512, 64, false, plain, Attention::Rows),
        ] {
            let found = attention(k_dim, v_dim, kv_f32, abilities);
            assert_eq!(found, expected, "{k_dim} and {v_dim} columns, kv_f32: {kv_f32}, {abilities:?}");
        }
    }

    #[test]
    fn rows_are_cut_into_tiles_that_are_filled() {
        let tiles_of = |rows: &[usize]| tiles(rows.iter().copied());
        assert_eq!(tiles_of(&[512]), 8);
        assert_eq!(tiles_of(&[65, 64]), 3);
        assert_eq!(tiles_of(&[16]), 1);
        assert_eq!(tiles_of(&[15]), 0);
        assert_eq!(tiles_of(&[1; 200]), 0);
        assert_eq!(tiles_of(&[512, 1, 1]), 10);
        assert!((1..2000).all(|rows| tiles_of(&[rows]) <= most_tiles(rows)));
    }
}
