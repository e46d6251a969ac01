//! The kernels of a matmul, by the number of activation rows.

use gpu::may_fit_f16;
use quant::Format;

/// Activation rows from which tensor cores pay off.
const GEMM_MIN_ROWS: usize = 9;
const WGMMA_MIN_ROWS: usize = 5;

/// Rows of tiles of `wgmma`, and limits of rows of the variants of its largest tile: the fewer rows, the more blocks may have
/// to divide the columns of weights of few outputs.
const WGMMA_TILES: [usize; 5] = [8, 16, 32, 64, 128];
const WGMMA_ROWS: [usize; 4] = [128, 256, 512, usize::MAX];

pub(crate) fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::BF16)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// `gemv_q8`: up to this many activation rows at a time, quantised to 8 bits.
    Q8(usize),
    F32(usize),
    /// `gemm`: tiles of this many rows on tensor cores; all weight values must be finite in f16.
    Gemm(usize),
    /// `wgmma`, with tiles of this many rows, under the same condition.
    Wgmma(usize),
    GemmF32,
}

/// The kernels on tensor cores that a matmul can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorCores {
    None,
    /// `gemm`, with tiles of up to this many rows.
    Tiles(usize),
    Wgmma,
}

/// The kernels for up to `max_rows` rows, each with its maximum number of rows. `fits_q8`: whether this many activation rows,
/// quantised to 8 bits, fit in shared memory. The last kernel is the fallback for weights with values that packing finds not to be
/// finite in f16.
pub(crate) fn algorithms(
    format: Format,
    f32_activations: bool,
    tensor_cores: TensorCores,
    fits_q8: impl Fn(usize) -> bool,
) -> Vec<(Algorithm, usize)> {
    let mut chosen = Vec::new();
    let is_f16 = !f32_activations && may_fit_f16(format);
    let min_rows = if is_f16 && tensor_cores == TensorCores::Wgmma { WGMMA_MIN_ROWS } else { GEMM_MIN_ROWS };
    if !f32_activations && !is_float(format) {
        let columns = [1, 2, 4, 8].into_iter().filter(|&n| n < min_rows && fits_q8(n));
        chosen.extend(columns.map(|n| (Algorithm::Q8(n), n)));
    }
    let reached = chosen.last().map_or(0, |&(_, rows)| rows);
    let rest = [(Algorithm::F32(1), 1), (Algorithm::F32(4), min_rows - 1)];
    chosen.extend(rest.into_iter().filter(|&(_, rows)| rows > reached));
    match tensor_cores {
        _ if !is_f16 => {}
        TensorCores::None => {}
        TensorCores::Tiles(largest) => {
            let tiles = [32, 64, 128, 256].into_iter().filter(|&tile| tile <= largest);
            let rows = |tile| if tile == largest { usize::MAX } else { tile };
            chosen.extend(tiles.map(|tile| (Algorithm::Gemm(tile), rows(tile))));
        }
        TensorCores::Wgmma => {
            let (&last, tiles) = WGMMA_TILES.split_last().expect("tiles");
            chosen.extend(tiles.iter().map(|&tile| (Algorithm::Wgmma(tile), tile)));
            chosen.extend(WGMMA_ROWS.map(|rows| (Algorithm::Wgmma(last), rows)));
        }
    }
    chosen.push((Algorithm::GemmF32, usize::MAX));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_cover_all_rows() {
        use Algorithm::{F32, Gemm, GemmF32, Q8, Wgmma};
        const ALL: usize = usize::MAX;
        let of = |format, f32_activations, tile, q8: usize| {
            algorithms(format, f32_activations, TensorCores::Tiles(tile), |n| n <= q8)
        };
        let gemms = [(Gemm(32), 32), (Gemm(64), 64), (Gemm(128), 128), (Gemm(256), ALL), (GemmF32, ALL)];
        let q8 = [(Q8(1), 1), (Q8(2), 2), (Q8(4), 4), (Q8(8), 8)];
        assert_eq!(of(Format::Q4_K, false, 256, 8), [&q8[..], &gemms].concat());
        // What does not fit in shared memory is read from global memory.
        let rows =
            [(Q8(1), 1), (F32(4), 8), (Gemm(32), 32), (Gemm(64), 64), (Gemm(128), ALL), (GemmF32, ALL)];
        assert_eq!(of(Format::Q8_0, false, 128, 1), rows);
        let exact = [(F32(1), 1), (F32(4), 8), (GemmF32, ALL)];
        assert_eq!(of(Format::Q6_K, true, 256, 8), exact);
        assert_eq!(of(Format::BF16, false, 256, 8), exact);
        assert_eq!(of(Format::F16, false, 128, 8)[2], (Gemm(32), 32));
        let wgmma =
            |format, f32_activations| algorithms(format, f32_activations, TensorCores::Wgmma, |n| n <= 8);
        let tiles = [8, 16, 32, 64].map(|rows| (Wgmma(rows), rows));
        let large = [128, 256, 512, ALL].map(|rows| (Wgmma(128), rows));
        let all = [&[(Q8(1), 1), (Q8(2), 2), (Q8(4), 4)], &tiles[..], &large, &[(GemmF32, ALL)]].concat();
        assert_eq!(wgmma(Format::Q4_K, false), all);
        assert_eq!(wgmma(Format::Q4_K, true), exact);
        assert_eq!(wgmma(Format::F32, false), exact);
    }
}
