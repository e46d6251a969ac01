//! Keys and values as a KV cache stores them.
//!
//! Q8_0 and Q4_0 have an F16 scale for each 32 columns of a head, or for fewer in the last block, as in ggml's
//! `quantize_row_q8_0_ref` and `quantize_row_q4_0_ref`. Engines compute the quants in f32, some with a reciprocal, so that a
//! number next to the boundary of two quants may become either ([`Choice`]).

use backend::{KvFormat, KvType};
use half::{bf16, f16};
use quant::E4M3;

use crate::Matrix;

const BLOCK: usize = 32;

/// Relative error of a quant before it is rounded: a few operations in f32, each with up to 2^-24.
const QUANT_ERROR: f64 = 1.0 / 2_097_152.0;

/// Which quant a number next to a boundary becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Exact,
    Other,
}

/// The rows of `x`, heads of `dim` columns, after they were stored in a cache of this type.
pub(crate) fn stored(x: &Matrix, dim: usize, kind: KvType, choice: Choice) -> Matrix {
    match kind {
        KvType::F32 => x.clone(),
        KvType::F16 => x.map(|x| f16::from_f32(x).to_f32()),
        KvType::BF16 => x.map(|x| bf16::from_f32(x).to_f32()),
        KvType::FP8 => x.map(|x| E4M3::nearest(x).to_f32()),
        KvType::Q8_0 => blocks(x, dim, |block| q8_0(block, choice)),
        KvType::Q4_0 => blocks(x, dim, |block| q4_0(block, choice)),
    }
}

fn blocks(x: &Matrix, dim: usize, round: impl Fn(&[f32]) -> Vec<f32>) -> Matrix {
    Matrix::new(x.cols, x.data.chunks(dim).flat_map(|head| head.chunks(BLOCK)).flat_map(round).collect())
}

/// Quants from -127 to 127; the scale is a 127th of the largest magnitude.
fn q8_0(block: &[f32], choice: Choice) -> Vec<f32> {
    let largest = block.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    dequantized(block, largest / 127.0, |steps| quant(steps, 0.5, choice).clamp(-127.0, 127.0))
}

/// Quants from -8 to 7; the number of the largest magnitude, the first of these, has -8.
fn q4_0(block: &[f32], choice: Choice) -> Vec<f32> {
    let extreme = block.iter().fold(0.0f32, |most, &x| if x.abs() > most.abs() { x } else { most });
    dequantized(block, extreme / -8.0, |steps| (quant(steps, 8.5, choice) - 8.0).clamp(-8.0, 7.0))
}

/// The numbers in steps of `scale`, rounded and multiplied by the scale in F16. A block with a number that is not finite is NaN.
fn dequantized(block: &[f32], scale: f32, round: impl Fn(f64) -> f64) -> Vec<f32> {
    if block.iter().any(|x| !x.is_finite()) {
        return vec![f32::NAN; block.len()];
    }
    let stored = f16::from_f32(scale).to_f32();
    let quant = |x: f32| if scale == 0.0 { 0.0 } else { round(f64::from(x) / f64::from(scale)) as f32 };
    block.iter().map(|&x| quant(x) * stored).collect()
}

fn quant(steps: f64, offset: f64, choice: Choice) -> f64 {
    let sum = steps + offset;
    let boundary = sum.round();
    let is_near = (sum - boundary).abs() <= (steps.abs() + offset) * QUANT_ERROR;
    match choice {
        Choice::Other if is_near && sum >= boundary => boundary - 1.0,
        Choice::Other if is_near => boundary,
        _ => sum.floor(),
    }
}

/// The usual NMSE of keys or values in a cache of this type. Quants are steps of 3/127 or 3/8 of a block's RMS, whose largest
/// number is about three times that; the mean squared error is a twelfth of the square of a step.
pub(crate) fn nmse(kind: KvType) -> f64 {
    match kind {
        KvType::F32 => 0.0,
        KvType::F16 => 1e-7,
        KvType::BF16 => 5e-6,
        KvType::FP8 => 1e-3,
        KvType::Q8_0 => 5e-5,
        KvType::Q4_0 => 1.2e-2,
    }
}

pub(crate) fn largest_nmse(KvFormat { k, v }: KvFormat) -> f64 {
    nmse(k).max(nmse(v))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(x: &[f32], kind: KvType, choice: Choice) -> Vec<f32> {
        stored(&Matrix::new(x.len(), x.to_vec()), x.len(), kind, choice).data
    }

    /// By hand: 127 makes the scale 1, and 0.3 becomes 0, -2.6 becomes -3. -16 makes the scale of Q4_0 2, with -16 = 2 * -8;
    /// 16 is beyond 2 * 7, and 3.1 is nearest to 4.
    #[test]
    fn blocks_have_steps_of_their_largest() {
        assert_eq!(row(&[0.3, 127.0, -2.6], KvType::Q8_0, Choice::Exact), [0.0, 127.0, -3.0]);
        assert_eq!(row(&[-16.0, 16.0, 3.1, -0.9], KvType::Q4_0, Choice::Exact), [-16.0, 14.0, 4.0, 0.0]);
        assert_eq!(row(&[0.0; 3], KvType::Q4_0, Choice::Exact), [0.0; 3]);
    }

    /// The scale 1/3 is not in F16: 1365 / 2^12 is the nearest.
    #[test]
    fn scales_are_rounded_to_f16() {
        let third = 1365.0 / 4096.0;
        assert_eq!(row(&[127.0 / 3.0, 1.0], KvType::Q8_0, Choice::Exact), [127.0 * third, 3.0 * third]);
    }

    /// Two heads of 40 columns have blocks of 32 and 8: an outlier changes its own block only.
    #[test]
    fn blocks_end_with_their_head() {
        let x = Matrix::from_fn(1, 80, |_, c| if c == 39 { 127.0 } else { 0.3 });
        let y = stored(&x, 40, KvType::Q8_0, Choice::Exact);
        let is_lost = |c: &usize| y.at(0, *c) == 0.0;
        assert_eq!((0..80).filter(is_lost).collect::<Vec<_>>(), (32..39).collect::<Vec<_>>());
        let kept = (0..32).chain(40..80).all(|c| (y.at(0, c) - 0.3).abs() < 0.3 / 254.0 + 1e-4);
        assert!(kept, "{y:?}");
    }

    /// 2.5 steps may become 2 or 3, also if it is off by an error of f32; 2.501 may not.
    #[test]
    fn a_boundary_has_two_sides() {
        let near = 2.5 + 4.0 * f32::EPSILON;
        let both = |x| [Choice::Exact, Choice::Other].map(|choice| row(&[127.0, x], KvType::Q8_0, choice)[1]);
        assert_eq!((both(2.5), both(near), both(2.501)), ([3.0, 2.0], [3.0, 2.0], [3.0, 3.0]));
        assert_eq!(both(-near), [-3.0, -2.0]);
        let both = |x| [Choice::Exact, Choice::Other].map(|choice| row(&[-8.0, x], KvType::Q4_0, choice)[1]);
        assert_eq!((both(2.5), both(2.4999998), both(2.499)), ([3.0, 2.0], [2.0, 3.0], [2.0, 2.0]));
    }

    /// What is stored again stays as it is, also on the other side of a boundary.
    #[test]
    fn stored_numbers_are_fixed_points() {
        let random = |r: usize, c: usize| ((r * 71 + c) as f32 * 12.9898).sin() * 43758.547 % 1.0;
        let of = |r: usize, c: usize| match c {
            0 => 127.0,
            // Boundaries of Q8_0, with steps of 1, and of Q4_0, with steps of 127/8.
            1 => 2.5,
            2 => 2.5 * 127.0 / 8.0,
            _ => 100.0 * random(r, c),
        };
        let x = Matrix::from_fn(40, 71, of);
        for kind in KvType::ALL {
            for choice in [Choice::Exact, Choice::Other] {
                let once = stored(&x, 71, kind, choice);
                assert_eq!(stored(&once, 71, kind, Choice::Exact), once, "{kind:?}, {choice:?}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_makes_its_block_nan() {
        for kind in [KvType::Q8_0, KvType::Q4_0] {
            let x = Matrix::from_fn(1, 64, |_, c| if c == 40 { f32::INFINITY } else { 1.0 });
            let y = stored(&x, 64, kind, Choice::Exact);
            assert!((0..64).all(|c| y.at(0, c).is_nan() == (c >= 32)), "{y:?}");
        }
    }
}
