//! Quantisation of f32 values to blocks, the inverse of [`Format::dequantize`].

use crate::fit::Unit;
use crate::{Block, Format};

pub(crate) trait Encode<const N: usize>: Block<N> {
    /// Searches the block with the least weighted squared error. `x` is in multiples of `unit`.
    fn encode(x: &[f32; N], weights: &[f32; N], unit: Unit) -> Self;
}

/// Weights of the squared error of each value, without and with an importance matrix.
#[derive(Clone, Copy)]
struct ErrorWeights {
    unweighted: Unweighted,
    weighted: Weighted,
}

/// Weights without an importance matrix; `Uniform` is 1, `Abs` is `|x|`.
#[derive(Clone, Copy)]
enum Unweighted {
    Uniform,
    Abs,
    /// `|x|` plus the RMS of the group of 32.
    AbsPlusRms,
    /// `x²` plus half the mean square of the block. With `x²` alone, small values would lose precision without a
    /// measurable gain for large ones.
    SquarePlusHalfMean,
}

/// The factor that multiplies importance; `Uniform` is 1.
#[derive(Clone, Copy)]
enum Weighted {
    Uniform,
    /// `sqrt(x² + m)`, `m` the mean square of the row.
    RowMeanSquare,
    /// `sqrt(x² + c m)`, `m` the mean square of the block and `c` this constant.
    BlockMeanSquare(f32),
}

/// Lower bound of a weight relative to the largest, so that groups with zero weights still get levels.
const MIN_WEIGHT: f32 = 1e-6;

/// Lower bound of a weight relative to the mean when an importance matrix is given. Columns that were hardly active in
/// the calibration text keep some precision; the cost is negligible compared with the gain.
const MIN_IMPORTANCE: f32 = 0.1;

impl ErrorWeights {
    /// The weights of `x`; `row` is the mean square of its row. Both are in multiples of the block's [`Unit`]. The
    /// largest weight is about 1, none is 0.
    fn weights<const N: usize>(self, x: &[f32; N], importance: Option<&[f32; N]>, row: f32) -> [f32; N] {
        let mut weights = [1.0; N];
        match importance {
            None => self.unweighted.weights(x, &mut weights),
            Some(importance) => {
                let most = largest(importance);
                if most > 0.0 {
                    self.weighted.weights(x, row, &mut weights);
                    for (weight, importance) in weights.iter_mut().zip(importance) {
                        *weight *= importance / most;
                    }
                }
            }
        }
        let most = largest(&weights);
        if most == 0.0 {
            return [1.0; N];
        }
        let floor = if importance.is_some() { MIN_IMPORTANCE * mean(&weights) } else { MIN_WEIGHT * most };
        weights.map(|weight| (weight + floor) / most)
    }
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |most, &x| if x > most { x } else { most })
}

fn mean(x: &[f32]) -> f32 {
    x.iter().sum::<f32>() / x.len() as f32
}

fn mean_square(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32
}

impl Unweighted {
    fn weights<const N: usize>(self, x: &[f32; N], weights: &mut [f32; N]) {
        match self {
            Unweighted::Uniform => {}
            Unweighted::Abs => *weights = x.map(f32::abs),
            Unweighted::AbsPlusRms => {
                for (x, weights) in x.as_chunks::<32>().0.iter().zip(weights.as_chunks_mut().0) {
                    let rms = mean_square(x).sqrt();
                    *weights = x.map(|x| rms + x.abs());
                }
            }
            Unweighted::SquarePlusHalfMean => {
                let half = 0.5 * mean_square(x);
                *weights = x.map(|x| x * x + half);
            }
        }
    }
}

impl Weighted {
    fn weights<const N: usize>(self, x: &[f32; N], row: f32, weights: &mut [f32; N]) {
        let mean = match self {
            Weighted::Uniform => return,
            Weighted::RowMeanSquare => row,
            Weighted::BlockMeanSquare(factor) => factor * mean_square(x),
        };
        *weights = x.map(|x| (x * x + mean).sqrt());
    }
}

impl Format {
    /// Most formats weight large values more: they are fewer and contribute more to a dot product. The weights are
    /// llama.cpp's, except for [`Unweighted::SquarePlusHalfMean`].
    fn error_weights(self) -> ErrorWeights {
        let (unweighted, weighted) = match self {
            Format::F32 | Format::F16 | Format::BF16 => (Unweighted::Uniform, Weighted::Uniform),
            Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q5_1 | Format::Q8_0 => {
                (Unweighted::Uniform, Weighted::RowMeanSquare)
            }
            Format::Q2_K => (Unweighted::Abs, Weighted::BlockMeanSquare(1.0)),
            Format::Q4_K | Format::Q5_K => (Unweighted::AbsPlusRms, Weighted::BlockMeanSquare(2.0)),
            Format::Q3_K | Format::IQ4_NL | Format::IQ4_XS => {
                (Unweighted::SquarePlusHalfMean, Weighted::BlockMeanSquare(2.0))
            }
            Format::Q6_K => (Unweighted::SquarePlusHalfMean, Weighted::Uniform),
            Format::IQ3_XXS | Format::IQ3_S | Format::IQ2_S | Format::IQ1_S | Format::IQ1_M => {
                (Unweighted::SquarePlusHalfMean, Weighted::BlockMeanSquare(2.0))
            }
            Format::IQ2_XXS | Format::IQ2_XS => {
                (Unweighted::SquarePlusHalfMean, Weighted::BlockMeanSquare(1.0))
            }
            Format::MXFP4 | Format::NVFP4 | Format::TQ1_0 | Format::TQ2_0 => {
                (Unweighted::Uniform, Weighted::Uniform)
            }
        };
        ErrorWeights { unweighted, weighted }
    }

    /// Quantises `x` to `out`; the inverse of [`Format::dequantize`].
    ///
    /// Each block minimises a weighted squared error. Without `importance` the weights depend on the values alone, by
    /// the format's usual rule. With `importance`, the weight of column `i` of every row is also multiplied by
    /// `importance[i]`, the mean square of the activations of that column. `importance` has one entry per column,
    /// finite and non-negative, and `x` consists of whole rows. A tenth of the block's mean weight is added to each
    /// weight; a block whose importance is 0 throughout is weighted uniformly. F32, F16, BF16 and Q8_0 only round and
    /// ignore `importance`.
    ///
    /// Values must be finite; a block with NaN or infinity gets unspecified values. Scales are F16 and saturate: values
    /// out of their range become the largest representable ones, never infinite.
    ///
    /// # Panics
    /// If `out.len()` is not [`bytes_for(x.len())`](Format::bytes_for), or if the length of `importance` is not a
    /// multiple of the block length or does not divide that of `x`.
    pub fn quantize(self, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        self.check_len(out, x);
        if let Some(importance) = importance {
            assert!(
                importance.len().is_multiple_of(self.block_len())
                    && (x.is_empty() || !importance.is_empty() && x.len().is_multiple_of(importance.len())),
                "importance of {} columns given for {} values of {self}",
                importance.len(),
                x.len()
            );
        }
        self.encode(x, importance, out);
    }
}

pub(crate) fn round<const B: usize>(x: &[f32], out: &mut [u8], store: impl Fn(f32) -> [u8; B]) {
    for (&x, out) in x.iter().zip(out.as_chunks_mut().0) {
        *out = store(x);
    }
}

pub(crate) fn quantize<B: Encode<N>, const N: usize>(x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
    let error_weights = B::FORMAT.error_weights();
    let row_len = importance.map_or(N, <[f32]>::len).max(1);
    let importance = importance.map(|importance| importance.as_chunks().0);
    for (x, out) in x.chunks(row_len).zip(out.chunks_mut(row_len / N * size_of::<B>())) {
        let row = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / x.len() as f64;
        let blocks = x.as_chunks::<N>().0.iter().zip(out.chunks_mut(size_of::<B>()));
        for (i, (x, out)) in blocks.enumerate() {
            let (unit, x) = Unit::normalise(x);
            let row = unit.normalise_square(row);
            let weights = error_weights.weights(&x, importance.and_then(|all| all.get(i)), row);
            out.copy_from_slice(B::encode(&x, &weights, unit).as_bytes());
        }
    }
}
