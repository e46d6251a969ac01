//! Quantisation: from values to blocks, the inverse of [`Format::dequantize`].

use crate::fit::Unit;
use crate::*;

/// A block that values can be turned into.
pub(crate) trait Encode<const N: usize>: Block<N> {
    /// How much the squared error of each value counts.
    const EMPHASIS: Emphasis;

    /// The block of least weighted squared error that the search finds. `x` are in `unit`s.
    fn encode(x: &[f32; N], weights: &[f32; N], unit: Unit) -> Self;
}

/// How much the squared error of a value counts. Large values count for more in most formats: they are
/// fewer, and multiply what they meet. The weights are llama.cpp's, but for [`Alone::Square`].
#[derive(Clone, Copy)]
pub(crate) struct Emphasis {
    /// Where nothing is known of importance.
    pub(crate) alone: Alone,
    /// With importance.
    pub(crate) important: Important,
}

/// Weights without importance.
#[derive(Clone, Copy)]
pub(crate) enum Alone {
    /// 1.
    Even,
    /// `|x|`.
    Magnitude,
    /// `|x|` and the root mean square of the group of 32.
    Raised,
    /// `x²` and half the mean of the squares of the block: with `x²` alone, small values would bear more
    /// error than they need to, for next to nothing.
    Square,
}

/// What importance is multiplied by.
#[derive(Clone, Copy)]
pub(crate) enum Important {
    /// 1.
    Even,
    /// `sqrt(x² + mean)`, the mean that of the squares of the row.
    Row,
    /// The same with so many times the mean of the squares of the block.
    Block(f32),
}

/// What every weight has at least, of the largest: a group whose weights are 0 has levels, too.
const LEAST: f32 = 1e-6;

/// What every weight has at least where importance is known, of their mean. It costs next to nothing of what
/// importance gains, and columns that met little on a calibration text are not given up to it.
const LEAST_IMPORTANCE: f32 = 0.1;

impl Emphasis {
    /// For values `x` and the mean `row` of the squares of their row, both in units. The largest is about 1,
    /// none is 0.
    fn weights<const N: usize>(self, x: &[f32; N], importance: Option<&[f32; N]>, row: f32) -> [f32; N] {
        let mut weights = [1.0; N];
        match importance {
            None => self.alone.weights(x, &mut weights),
            Some(importance) => {
                let most = largest(importance);
                if most > 0.0 {
                    self.important.weights(x, row, &mut weights);
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
        let least = if importance.is_some() { LEAST_IMPORTANCE * mean(&weights) } else { LEAST * most };
        weights.map(|weight| (weight + least) / most)
    }
}

fn largest(of: &[f32]) -> f32 {
    of.iter().fold(0.0, |most, &x| if x > most { x } else { most })
}

fn mean(of: &[f32]) -> f32 {
    of.iter().sum::<f32>() / of.len() as f32
}

fn mean_square(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32
}

impl Alone {
    fn weights<const N: usize>(self, x: &[f32; N], weights: &mut [f32; N]) {
        match self {
            Alone::Even => {}
            Alone::Magnitude => *weights = x.map(f32::abs),
            Alone::Raised => {
                for (x, weights) in x.as_chunks::<32>().0.iter().zip(weights.as_chunks_mut().0) {
                    let rms = mean_square(x).sqrt();
                    *weights = x.map(|x| rms + x.abs());
                }
            }
            Alone::Square => {
                let half = 0.5 * mean_square(x);
                *weights = x.map(|x| x * x + half);
            }
        }
    }
}

impl Important {
    fn weights<const N: usize>(self, x: &[f32; N], row: f32, weights: &mut [f32; N]) {
        let mean = match self {
            Important::Even => return,
            Important::Row => row,
            Important::Block(factor) => factor * mean_square(x),
        };
        *weights = x.map(|x| (x * x + mean).sqrt());
    }
}

impl Format {
    /// Writes `x` in blocks of this format to `out`; the inverse of [`Format::dequantize`].
    ///
    /// Every block is the one of least weighted squared error that a search finds. Without `importance`
    /// the weights depend on the values alone, as is usual for the format. With it, the weights of column
    /// `i` of every row are also multiplied by `importance[i]`, which is the mean square of the
    /// activations that the column meets: `importance` is as long as a row, not negative and finite, and
    /// `x` is whole rows. A tenth of the block's mean is added to weights that importance made; where it is 0
    /// throughout a block, all values of the block count the same.
    /// F32, F16, BF16 and Q8_0 only round, whatever the importance.
    ///
    /// Values must be finite; of others, the block's values mean nothing. Scales are F16: beyond what they
    /// reach, values come out as large as scales allow, and never infinite.
    ///
    /// # Panics
    /// When `out.len()` is not [`bytes_for(x.len())`](Format::bytes_for), or `importance` is not whole
    /// blocks or does not divide `x`.
    pub fn quantize(self, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        assert_eq!(
            Some(out.len() as u64),
            self.bytes_for(x.len() as u64),
            "bytes given for {} values of {self}",
            x.len()
        );
        if let Some(importance) = importance {
            assert!(
                importance.len().is_multiple_of(self.block_len())
                    && (x.is_empty() || !importance.is_empty() && x.len().is_multiple_of(importance.len())),
                "importance of {} columns given for {} values of {self}",
                importance.len(),
                x.len()
            );
        }
        match self {
            Format::F32 => copy(x, out, f32::to_le_bytes),
            Format::F16 => copy(x, out, |x| F16Le::nearest(x).0),
            Format::BF16 => copy(x, out, |x| Bf16Le::nearest(x).0),
            Format::Q4_0 => quantize::<BlockQ4_0, _>(x, importance, out),
            Format::Q4_1 => quantize::<BlockQ4_1, _>(x, importance, out),
            Format::Q5_0 => quantize::<BlockQ5_0, _>(x, importance, out),
            Format::Q5_1 => quantize::<BlockQ5_1, _>(x, importance, out),
            Format::Q8_0 => quantize::<BlockQ8_0, _>(x, importance, out),
            Format::Q2_K => quantize::<BlockQ2_K, _>(x, importance, out),
            Format::Q3_K => quantize::<BlockQ3_K, _>(x, importance, out),
            Format::Q4_K => quantize::<BlockQ4_K, _>(x, importance, out),
            Format::Q5_K => quantize::<BlockQ5_K, _>(x, importance, out),
            Format::Q6_K => quantize::<BlockQ6_K, _>(x, importance, out),
            Format::IQ4_NL => quantize::<BlockIQ4_NL, _>(x, importance, out),
            Format::IQ4_XS => quantize::<BlockIQ4_XS, _>(x, importance, out),
        }
    }
}

fn copy<const B: usize>(x: &[f32], out: &mut [u8], store: impl Fn(f32) -> [u8; B]) {
    for (&x, out) in x.iter().zip(out.as_chunks_mut().0) {
        *out = store(x);
    }
}

fn quantize<B: Encode<N>, const N: usize>(x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
    let row_len = importance.map_or(N, <[f32]>::len).max(1);
    let importance = importance.map(|importance| importance.as_chunks().0);
    for (x, out) in x.chunks(row_len).zip(out.chunks_mut(row_len / N * size_of::<B>())) {
        let row = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / x.len() as f64;
        let blocks = x.as_chunks::<N>().0.iter().zip(out.chunks_mut(size_of::<B>()));
        for (i, (x, out)) in blocks.enumerate() {
            let (unit, x) = Unit::of(x);
            let row = unit.square_of(row);
            let weights = B::EMPHASIS.weights(&x, importance.and_then(|all| all.get(i)), row);
            out.copy_from_slice(B::encode(&x, &weights, unit).as_bytes());
        }
    }
}
