//! Chooses kernels for matmuls and attention from shapes and device capabilities.

use gpu::{FLASH_ROWS, GROUP_ROWS};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    /// Subgroup sizes, if kernels may use subgroup operations.
    pub(crate) subgroups: Option<Subgroups>,
    /// Tile size (8 or 16) of its cooperative matrices.
    pub(crate) coop_matrix: Option<usize>,
    /// Workgroup memory in bytes.
    pub(crate) workgroup_memory: u32,
    /// Maximum threads per workgroup.
    pub(crate) threads: u32,
}

impl Caps {
    /// Whether subgroups always have 32 threads.
    fn subgroup_32(self) -> bool {
        self.subgroups == Some(Subgroups { min: 32, max: 32 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subgroups {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// The kernel of a matmul pass, with its tile sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// `gemv.wgsl`: up to `columns` rows of activations at a time.
    Gemv(GemvTiles),
    /// `gemm.wgsl`: f32 arithmetic in workgroup memory.
    Gemm,
    /// `gemm_coop.wgsl`: cooperative matrices; all weight values must be finite in f16.
    GemmCoop { tile: usize, size: usize },
}

/// Tile sizes of `gemv.wgsl`, which documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GemvTiles {
    pub(crate) columns: usize,
    pub(crate) outputs: usize,
    pub(crate) lanes: usize,
    pub(crate) threads: usize,
    pub(crate) subgroups: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatmulShape {
    pub(crate) rows: usize,
    /// Input columns; `gemm_coop.wgsl` needs a multiple of 64.
    pub(crate) cols: usize,
    /// Output columns of all weights.
    pub(crate) outputs: usize,
    /// Weights per output: 2 for a GLU, otherwise 1.
    pub(crate) gates: usize,
    /// Whether all weight values may be finite in f16.
    pub(crate) fits_f16: bool,
}

/// Activation chunks that a workgroup of `gemv.wgsl` loads per iteration: its rows times the threads of a group.
const LANES: usize = 32;

/// Activation rows from which staging weights in workgroup memory pays off.
const GEMM_MIN_ROWS: usize = 9;

/// Workgroups that keep a large GPU busy: with fewer, tiles are smaller.
const MIN_WORKGROUPS: usize = 100;

/// Whether the workgroup memory of `route.wgsl` suffices, and with it that of `groups.wgsl`.
pub(crate) fn fits_route(experts: usize, used: usize, groups: usize) -> bool {
    // Besides: one per thread, and the largest logit.
    experts + 2 * used + groups + 65 <= WORKGROUP_WORDS
}

/// The kernel for a matmul pass.
pub(crate) fn matmul(shapes: MatmulShape, caps: Caps) -> Algorithm {
    let MatmulShape { rows, cols, outputs, gates, fits_f16 } = shapes;
    let subgroup_32 = caps.subgroup_32();
    if rows >= GEMM_MIN_ROWS {
        let fits = |tile: usize, size: usize| {
            tile_bytes(tile, size) <= caps.workgroup_memory as usize && 2 * tile <= caps.threads as usize
        };
        let groups = |tile: usize| rows.div_ceil(tile) * (gates * outputs).div_ceil(tile);
        return match caps.coop_matrix {
            Some(size) if subgroup_32 && fits_f16 && cols.is_multiple_of(64) && fits(64, size) => {
                let tile = if fits(128, size) && groups(128) >= MIN_WORKGROUPS { 128 } else { 64 };
                Algorithm::GemmCoop { tile, size }
            }
            _ => Algorithm::Gemm,
        };
    }
    let columns = rows.max(1).next_power_of_two();
    let lanes = LANES / columns;
    let subgroups = subgroup_32 && lanes == 32;
    // A single row uses large workgroups, whose threads share the loads of activations.
    let threads = if columns == 1 { 256 } else { 64 };
    Algorithm::Gemv(GemvTiles { columns, outputs: 2 / gates, lanes, threads, subgroups })
}

/// The kernel for attention that is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attention {
    /// `attention.wgsl`: one row at a time.
    Rows,
    /// `flash.wgsl`: tiles of rows.
    Flash,
    /// `flash_coop.wgsl`: tiles of rows, cooperative matrices.
    FlashCoop,
}

/// Teams of 128 threads per workgroup of `attention.wgsl`. Teams split the columns of the keys: more threads have
/// more loads in flight, but each needs at least 16 pairs of columns.
pub(crate) fn teams(k_dim: usize) -> usize {
    if k_dim.is_multiple_of(64) { 2 } else { 1 }
}

/// Query heads per workgroup of `attention.wgsl`, all of one K/V head. The number is limited so that a row occupies
/// several workgroups, and so that queries, softmax weights, results and the new key fit the workgroup memory that
/// every device has.
pub(crate) fn heads_per_workgroup(share: usize, k_dim: usize) -> usize {
    const MAX_HEADS: usize = 4;
    let [per_head, fixed] = head_words(k_dim);
    share.min(MAX_HEADS).min(WORKGROUP_WORDS.saturating_sub(fixed) / per_head).max(1)
}

/// Words of workgroup memory that every device has.
const WORKGROUP_WORDS: usize = (16 << 10) / size_of::<f32>();

/// Words of workgroup memory of `attention.wgsl`: per query head, and fixed.
fn head_words(k_dim: usize) -> [usize; 2] {
    let (k_dim, threads) = (k_dim.next_multiple_of(2), 128 * teams(k_dim));
    [k_dim + threads + 2 * threads + 1, threads + k_dim + 4]
}

/// Whether `attention.wgsl` supports these head dimensions: one head must fit in workgroup memory, and code size
/// grows with `v_dim`.
pub(crate) fn fits_attention(k_dim: usize, v_dim: usize) -> bool {
    const MAX_V_DIM: usize = 2048;
    let [per_head, fixed] = head_words(k_dim.min(WORKGROUP_WORDS));
    per_head + fixed <= WORKGROUP_WORDS && v_dim <= MAX_V_DIM
}

/// The kernel for heads of these dimensions, with an f32 or an f16 KV cache.
pub(crate) fn attention(k_dim: usize, v_dim: usize, kv_f32: bool, caps: Caps) -> Attention {
    let all = |most: usize, multiple: usize| {
        [k_dim, v_dim].iter().all(|&dim| dim <= most && dim.is_multiple_of(multiple))
    };
    let fits = flash_coop_bytes(k_dim, v_dim) <= caps.workgroup_memory as usize;
    if caps.coop_matrix == Some(16) && caps.subgroup_32() && !kv_f32 && all(128, 16) && fits {
        return Attention::FlashCoop;
    }
    if all(256, 4) { Attention::Flash } else { Attention::Rows }
}

/// Workgroup memory of `flash_coop.wgsl` in bytes, for a store with a window, which needs more than one without.
pub(crate) fn flash_coop_bytes(k_dim: usize, v_dim: usize) -> usize {
    let halves = FLASH_ROWS * (k_dim.max(v_dim) + 8 + 72);
    halves * size_of::<u16>() + (FLASH_ROWS * 68 + 2 * v_dim + 4) * size_of::<f32>()
}

/// Kernels for passes of up to `shapes.rows` rows, each with its maximum number of rows. The last kernel is the
/// fallback for weights with values that packing finds not to be finite in f16.
pub(crate) fn matmul_variants(shapes: MatmulShape, caps: Caps) -> Vec<(Algorithm, usize)> {
    let of = |rows| matmul(MatmulShape { rows, ..shapes }, caps);
    let mut chosen = Vec::new();
    let mut max_rows = 0;
    while max_rows < shapes.rows {
        let next = of(max_rows + 1);
        max_rows = (max_rows + 1..shapes.rows).find(|rows| of(rows + 1) != next).unwrap_or(shapes.rows);
        chosen.push((next, max_rows));
    }
    if let Some((Algorithm::GemmCoop { .. }, _)) = chosen.last() {
        chosen.push((Algorithm::Gemm, shapes.rows));
    }
    chosen
}

/// Workgroup memory of `gemm_coop.wgsl` in bytes.
pub(crate) fn tile_bytes(tile: usize, size: usize) -> usize {
    2 * tile * 72 * size_of::<u16>() + tile / 16 * size * size * size_of::<f32>()
}

impl Algorithm {
    /// Outputs and activation rows per workgroup.
    pub(crate) fn tile(self, gates: usize) -> (usize, usize) {
        match self {
            Algorithm::Gemv(tiles) => (tiles.outputs * (tiles.threads / tiles.lanes), tiles.columns),
            Algorithm::Gemm => (64 / gates, GROUP_ROWS),
            Algorithm::GemmCoop { tile, .. } => (tile / gates, tile),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matmul_algorithm_depends_on_shape() {
        let base = Caps { subgroups: None, coop_matrix: None, workgroup_memory: 16 << 10, threads: 256 };
        let subgroups = |min, max| Caps { subgroups: Some(Subgroups { min, max }), ..base };
        let coop = Caps { coop_matrix: Some(16), workgroup_memory: 48 << 10, ..subgroups(32, 32) };
        let metal = Caps { coop_matrix: Some(8), workgroup_memory: 32 << 10, ..subgroups(32, 32) };
        let shapes = |rows, cols, outputs, gates| MatmulShape { rows, cols, outputs, gates, fits_f16: true };
        let not_f16 = |rows, cols, outputs, gates| MatmulShape {
            fits_f16: false,
            ..shapes(rows, cols, outputs, gates)
        };
        let gemv = |columns, outputs, subgroups| {
            let threads = if columns == 1 { 256 } else { 64 };
            Algorithm::Gemv(GemvTiles { columns, outputs, lanes: 32 / columns, threads, subgroups })
        };
        let gemm_coop = |tile, size| Algorithm::GemmCoop { tile, size };
        let table = [
            (shapes(1, 2048, 2048, 1), coop, gemv(1, 2, true)),
            (shapes(1, 2048, 5632, 2), coop, gemv(1, 1, true)),
            (shapes(1, 2048, 2048, 1), base, gemv(1, 2, false)),
            (shapes(1, 2048, 2048, 1), subgroups(128, 128), gemv(1, 2, false)),
            (shapes(1, 1, 3, 1), coop, gemv(1, 2, true)),
            (shapes(3, 5632, 2048, 1), coop, gemv(4, 2, false)),
            (shapes(8, 1024, 64, 2), coop, gemv(8, 1, false)),
            (shapes(9, 2048, 2048, 1), coop, gemm_coop(64, 16)),
            (shapes(512, 2048, 2048, 1), coop, gemm_coop(64, 16)),
            (shapes(512, 2048, 5632, 2), coop, gemm_coop(128, 16)),
            (shapes(512, 2048, 5632, 2), metal, gemm_coop(64, 8)),
            (shapes(512, 288, 288, 1), coop, Algorithm::Gemm),
            (not_f16(512, 2048, 2048, 1), coop, Algorithm::Gemm),
            (shapes(512, 2048, 5632, 2), base, Algorithm::Gemm),
            (
                shapes(512, 2048, 5632, 2),
                Caps { coop_matrix: Some(16), ..subgroups(32, 64) },
                Algorithm::Gemm,
            ),
            (shapes(512, 2048, 5632, 2), Caps { workgroup_memory: 16 << 10, ..coop }, Algorithm::Gemm),
            (shapes(512, 2048, 5632, 2), Caps { threads: 128, ..coop }, gemm_coop(64, 16)),
        ];
        for (shapes, caps, expected) in table {
            assert_eq!(matmul(shapes, caps), expected, "{shapes:?} {caps:?}");
        }
        assert_eq!(gemv(1, 2, false).tile(1), (16, 1));
        assert_eq!(gemv(4, 2, false).tile(1), (16, 4));
        assert_eq!(Algorithm::Gemm.tile(2), (32, 32));
        assert_eq!(gemm_coop(128, 16).tile(2), (64, 128));
    }

    #[test]
    fn attention_kernel_depends_on_head_dim() {
        let subgroups = Some(Subgroups { min: 32, max: 32 });
        let base = Caps { subgroups, coop_matrix: None, workgroup_memory: 16 << 10, threads: 256 };
        let coop = Caps { coop_matrix: Some(16), workgroup_memory: 48 << 10, ..base };
        let metal = Caps { coop_matrix: Some(8), workgroup_memory: 32 << 10, ..base };
        for (k_dim, v_dim, kv_f32, caps, expected) in [
            (64, 64, false, coop, Attention::FlashCoop),
            (128, 112, false, coop, Attention::FlashCoop),
            (128, 128, true, coop, Attention::Flash),
            (128, 128, false, Caps { workgroup_memory: 32 << 10, ..coop }, Attention::Flash),
            (128, 128, false, Caps { subgroups: None, ..coop }, Attention::Flash),
            (128, 128, false, metal, Attention::Flash),
            (128, 128, false, base, Attention::Flash),
            (100, 64, false, coop, Attention::Flash),
            (256, 256, false, coop, Attention::Flash),
            (10, 64, false, coop, Attention::Rows),
            (64, 33, false, base, Attention::Rows),
            (512, 64, false, base, Attention::Rows),
        ] {
            let found = attention(k_dim, v_dim, kv_f32, caps);
            assert_eq!(found, expected, "{k_dim} and {v_dim} columns, kv_f32: {kv_f32}, {caps:?}");
        }
    }
}
