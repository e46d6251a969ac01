//! The kernels of a matmul, by the number of activation rows.

use passes::may_fit_f16;
use quant::Format;

/// Activation rows from which tensor cores pay off.
const GEMM_MIN_ROWS: usize = 9;
const WGMMA_MIN_ROWS: usize = 5;

/// Rows of `gemm_q8`.
const Q8_TILES: [usize; 2] = [8, 16];

/// Rows of tiles of `wgmma`, and limits of rows of the variants of its largest tile: the fewer rows, the more blocks may have
/// to divide the columns of weights of few outputs.
const WGMMA_TILES: [usize; 5] = [8, 16, 32, 64, 128];
const WGMMA_ROWS: [usize; 4] = [128, 256, 512, usize::MAX];

fn is_float(format: Format) -> bool {
    matches!(format, Format::F32 | Format::F16 | Format::BF16)
}

/// The kernel of a matmul.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// `gemv_q8`: up to this many activation rows at a time, quantised to 8 bits.
    Q8(usize),
    /// `gemv_f32`.
    F32(usize),
    /// `gemm`: tiles of this many rows on tensor cores; all weight values must be finite in f16.
    Gemm(usize),
    /// `wgmma`, with tiles of this many rows, under the same condition.
    Wgmma(usize),
    /// `gemm_q8`: up to this many rows of activations, quantised to 8 bits, on tensor cores.
    GemmQ8(usize),
    /// `gemm_f32`.
    GemmF32,
}

/// What activations are converted to for a kernel, before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// f16, in tiles of this many rows.
    F16(usize),
    Q8,
}

impl Algorithm {
    pub(crate) fn conversion(self) -> Option<Conversion> {
        match self {
            Algorithm::Gemm(_) => Some(Conversion::F16(0)),
            Algorithm::Wgmma(tile) => Some(Conversion::F16(tile)),
            Algorithm::GemmQ8(_) => Some(Conversion::Q8),
            Algorithm::Q8(_) | Algorithm::F32(_) | Algorithm::GemmF32 => None,
        }
    }
}

/// The kernels on tensor cores that a matmul can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorCores {
    None,
    /// `gemm`, with tiles of up to this many rows.
    Tiles(usize),
    /// `wgmma`, and `gemm_q8` for up to this many rows.
    Wgmma {
        q8_rows: usize,
    },
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
    let has_wgmma = matches!(tensor_cores, TensorCores::Wgmma { .. });
    let min_rows = if is_f16 && has_wgmma { WGMMA_MIN_ROWS } else { GEMM_MIN_ROWS };
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
        TensorCores::Wgmma { q8_rows } => {
            let q8_rows = if is_float(format) { 0 } else { q8_rows };
            let of_q8 = Q8_TILES.into_iter().filter(|&rows| rows <= q8_rows);
            chosen.extend(of_q8.map(|rows| (Algorithm::GemmQ8(rows), rows)));
            let (&last, tiles) = WGMMA_TILES.split_last().expect("tiles");
            let tiles = tiles.iter().filter(|&&tile| tile > q8_rows);
            chosen.extend(tiles.map(|&tile| (Algorithm::Wgmma(tile), tile)));
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
        use Algorithm::{F32, Gemm, GemmF32, GemmQ8, Q8, Wgmma};
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
        let wgmma = |format, f32_activations, q8_rows| {
            algorithms(format, f32_activations, TensorCores::Wgmma { q8_rows }, |n| n <= 8)
        };
        let tiles = [8, 16, 32, 64].map(|rows| (Wgmma(rows), rows));
        let large = [128, 256, 512, ALL].map(|rows| (Wgmma(128), rows));
        let all = [&[(Q8(1), 1), (Q8(2), 2), (Q8(4), 4)], &tiles[..], &large, &[(GemmF32, ALL)]].concat();
        assert_eq!(wgmma(Format::Q4_K, false, 0), all);
        let few = [(GemmQ8(8), 8), (GemmQ8(16), 16), (Wgmma(32), 32), (Wgmma(64), 64)];
        assert_eq!(wgmma(Format::Q4_K, false, 16)[3..7], few);
        assert_eq!(wgmma(Format::F16, false, 16)[2], (Wgmma(8), 8));
        assert_eq!(wgmma(Format::Q4_K, true, 16), exact);
        assert_eq!(wgmma(Format::F32, false, 16), exact);
    }
}
