//! Shared memory of the kernels of matmuls, and of flash attention.

use gpu::{F32, FLASH_ROWS, TiledLayout, tile_bytes};
use quant::Format;

use crate::algorithm::is_float;

/// Columns that `wgmma` reads at a time.
pub(crate) const WINDOW: usize = 128;

/// Outputs of a block of `gemm` and `wgmma`.
pub(crate) const GEMM_OUTPUTS: usize = 128;

/// Bytes of a warp's ring in a GEMV kernel, as in `kernels/weight_stream.cuh`.
pub(crate) fn ring_bytes(format: Format, is_bulk: bool) -> usize {
    let stage = 2 * tile_bytes(format);
    // With bulk copies, the 16 bytes after a stage hold its barrier.
    if is_bulk {
        let stages = if stage > 1200 { 2 } else { 3 };
        return stages * (stage + 16);
    }
    let stages = match stage {
        ..=1200 => 4,
        1201..=4096 => 3,
        _ => 2,
    };
    stages * stage
}

/// Warps that a GEMV kernel has at least, if its activations are to be in shared memory.
pub(crate) const MIN_WARPS: usize = 8;

/// Tiles of `wgmma` of up to this many rows have quantised weights in shared memory (`Staged` in `kernels/wgmma.cuh`).
const STAGED_ROWS: usize = 32;

/// Dynamic shared memory of `wgmma` in bytes, as in `kernels/wgmma.cuh`: stages of one window, or of two windows and their
/// weights, aligned to 1 KiB.
pub(crate) fn wgmma_bytes(format: Format, tile: usize, is_grouped: bool) -> usize {
    let window = tile * WINDOW * 2;
    let stages = if is_grouped || tile > STAGED_ROWS || is_float(format) {
        (if tile > 64 { 3 } else { 4 }) * window
    } else {
        // Bytes of a row in each plane, in whole units.
        let row = TiledLayout { format, rows: 1, cols: 2 * WINDOW }.pitch();
        let stage = 2 * window + GEMM_OUTPUTS * row;
        if 3 * stage <= 110 << 10 { 3 * stage } else { 2 * stage }
    };
    stages + 1024
}

/// Sums of pairs of outputs that a block of a GEMV kernel has at most, over all columns.
pub(crate) const MAX_SUMS: usize = 1024;

/// Bytes of the sums of `pairs` pairs of outputs in a GEMV kernel (`PairSums` in `kernels/gemv.cuh`).
pub(crate) fn sums_bytes(columns: usize, pairs: usize) -> usize {
    (pairs * (2 * columns * F32 + 4)).next_multiple_of(16)
}

/// Static shared memory of a GEMV kernel in bytes, at most, and its sums.
pub(crate) const STATIC_SHARED: usize = MAX_SUMS * F32 + 4096;

/// Dynamic shared memory of `gemm` in bytes: two stages of weights, three of activations, in rows of 64 f16 values.
pub(crate) fn gemm_bytes(tile: usize) -> usize {
    (2 * GEMM_OUTPUTS + 3 * tile) * 128
}

/// Dynamic shared memory of `flash` in bytes, for heads of up to `dim` columns: queries, and two stages of 64 keys and values.
pub(crate) fn flash_bytes(dim: usize) -> usize {
    (FLASH_ROWS + 4 * 64) * dim * 2
}

/// Dynamic shared memory of `flash_wgmma` in bytes: queries of `heads` heads, and two stages of keys and values, which start at
/// multiples of 1 KiB.
pub(crate) fn flash_wgmma_bytes(dim: usize, heads: usize) -> usize {
    let positions = match (dim, heads) {
        (256, _) | (128, 1) => 64,
        _ => 128,
    };
    (heads * FLASH_ROWS + 4 * positions) * dim * 2 + 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Static shared memory of `wgmma` in bytes at most, and what a block takes besides its own.
    const STATIC_OF_WGMMA: usize = 256 + (1 << 10);

    /// Sizes as in `kernels/flash_wgmma.cu`: queries, then two stages of keys and of values in f16.
    #[test]
    fn tiles_of_flash_attention_fit() {
        let of =
            |dim: usize, heads: usize, positions: usize| (heads * 64 + 2 * 2 * positions) * dim * 2 + 1024;
        for (dim, heads, positions) in
            [(64, 1, 128), (64, 2, 128), (128, 1, 64), (128, 2, 128), (256, 1, 64), (256, 2, 64)]
        {
            assert_eq!(flash_wgmma_bytes(dim, heads), of(dim, heads, positions), "{heads} heads of {dim}");
            assert!(flash_wgmma_bytes(dim, heads) + 4096 <= 227 << 10, "a block of compute capability 9.0");
        }
        assert!(2 * (flash_wgmma_bytes(128, 1) + 2048) <= 227 << 10, "two blocks of one head");
    }

    /// Sizes as in `kernels/weight_stream.cuh`.
    #[test]
    fn rings_have_whole_stages() {
        assert_eq!(ring_bytes(Format::Q4_K, false), 4 * 2 * (512 + 64));
        assert_eq!(ring_bytes(Format::Q6_K, false), 3 * 2 * (512 + 256 + 64 + 16));
        assert_eq!(ring_bytes(Format::Q2_K, false), 4 * 2 * (256 + 64 + 16));
        assert_eq!(ring_bytes(Format::Q8_0, false), 3 * 2 * (1024 + 64));
        assert_eq!(ring_bytes(Format::F32, false), 2 * 2 * 4096);
        assert_eq!(ring_bytes(Format::Q4_K, true), 3 * (2 * (512 + 64) + 16));
        assert_eq!(ring_bytes(Format::Q6_K, true), 2 * (2 * (512 + 256 + 64 + 16) + 16));
        assert_eq!(ring_bytes(Format::Q8_0, true), 2 * (2 * (1024 + 64) + 16));
    }

    /// Sizes as in `kernels/wgmma.cuh`: activations of two windows, then 128 rows of weights, whose planes have whole units.
    #[test]
    fn stages_of_wgmma_fit_twice() {
        let of = |format, tile| wgmma_bytes(format, tile, false) - 1024;
        assert_eq!(of(Format::Q4_K, 8), 3 * (512 * 8 + 128 * (128 + 16)));
        assert_eq!(of(Format::Q6_K, 16), 3 * (512 * 16 + 128 * (128 + 64 + 16 + 16)));
        assert_eq!(of(Format::Q6_K, 32), 2 * (512 * 32 + 128 * (128 + 64 + 16 + 16)));
        assert_eq!(of(Format::Q8_0, 8), 2 * (512 * 8 + 128 * (256 + 16)));
        assert_eq!(of(Format::MXFP4, 32), 3 * (512 * 32 + 128 * (128 + 16)));
        assert_eq!(of(Format::TQ1_0, 8), 3 * (512 * 8 + 128 * (64 + 16)));
        assert_eq!(of(Format::F16, 8), 4 * 256 * 8, "floats come without shared memory");
        assert_eq!(of(Format::Q4_K, 64), 4 * 256 * 64);
        for format in Format::ALL {
            for tile in [8, 16, 32] {
                assert!(
                    wgmma_bytes(format, tile, false) + STATIC_OF_WGMMA <= (228 << 10) / 2,
                    "{format}, {tile} rows"
                );
            }
        }
    }
}
