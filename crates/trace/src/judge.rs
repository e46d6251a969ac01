//! Whether an operation's own error is within its limit, and where it stands when it is not.
//!
//! The limit holds for the value as a whole and for each row and column of it, since one wrong row among
//! many, or one wrong output of a matrix, hardly shows in the whole. Rows count alike in a column, whatever
//! their size, since that of one token may be a thousand times that of the others. The mean of few squares strays
//! further from its expectation than that of many, so a slice of `n` numbers is allowed
//! `1 + 6 sqrt(2/n) + 20/n` times the limit: six standard deviations of a chi-square mean and its
//! exponential tail.
//!
//! What rounding the inputs of a product must cost is known ([`Rounding`]). It is more than the limit where
//! a block has an outlier, or where a product nearly cancels, as those of a trained model's first token do.
//! Up to twice as much is no fault. What is less than the limit, but always to one side, is one ([`Drift`]).
//!
//! A value is looked at some rows at a time, two or three times: what is kept is a few sums a row and column.

mod blocks;
mod closely;
mod drift;
mod products;
mod region;
mod rounding;
mod sums;
mod tally;

use backend::KvFormat;
use graph::{Op, Role};

use crate::metrics::Metrics;
use crate::{Matrix, Oracle};

pub(crate) use blocks::{Block, Blocks, Rows, rows_at_once};
pub(crate) use products::Products;
pub use region::Region;
pub(crate) use rounding::Rounding;

use blocks::Pair;
use closely::closely;
use tally::Tally;

/// The largest error of one operation on f32.
const FLOAT: f64 = 1e-6;

/// The largest error of a product with a quantised weight, where activations are rounded to 8 bits.
const QUANTIZED: f64 = 5e-4;

/// The largest error of attention over K and V in F16. Keys and values are rounded before the replay as
/// the store rounds them; engines round queries, probabilities or sums to the same 11 bits, too, each
/// with an NMSE of up to 2^-22 = 2.4e-7, and the error of a score grows with its size in the softmax.
const ATTENTION_F16: f64 = 1e-5;

/// The largest error of a whole model with weights of F32 or F16.
pub(crate) const WHOLE_FLOAT: f64 = 1e-5;

/// The one-operation limit of `op`.
pub(crate) fn limit(oracle: &Oracle<'_>, op: &Op, kv: KvFormat) -> f64 {
    let is_quantized = op.weights().any(|(id, role)| {
        matches!(role, Role::Matrix | Role::Experts)
            && oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1)
    });
    match () {
        () if is_quantized => QUANTIZED,
        () if op.store().is_some() && kv == KvFormat::F16 => ATTENTION_F16,
        () => FLOAT,
    }
}

/// What a replay says about a value.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) metrics: Metrics,
    /// Where it is wrong; `None` when it is right.
    pub(crate) region: Option<Region>,
}

/// Judges a value by what its operation must give.
///
/// # Errors
/// When its rows cannot be had.
pub(crate) fn judge<R: Rows>(value: &R, limit: f64) -> Result<Judgement, R::Error> {
    let tally = Tally::of(value)?;
    let metrics = tally.measure.metrics();
    let region = if tally.is_suspicious(limit) { closely(value, &tally, limit)? } else { None };
    Ok(Judgement { metrics, region })
}

/// Judges a value that is in memory, whose inputs are rounded as `rounding` says.
pub(crate) fn judge_pair(expected: &Matrix, found: &Matrix, limit: f64, rounding: &Rounding) -> Judgement {
    let pair = Pair { expected, found, rounding };
    let Ok(judgement) = judge(&pair, limit);
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of size 1 that look random.
    fn noise(rows: usize, cols: usize, size: f32, seed: f32) -> Matrix {
        Matrix::from_fn(rows, cols, |r, c| {
            ((r * cols + c) as f32 * 12.9898 + seed).sin() * 43758.547 % 1.0 * size
        })
    }

    fn region(a: &Matrix, b: &Matrix, limit: f64) -> Option<Region> {
        judge_pair(a, b, limit, &Rounding::default()).region
    }

    fn judged(change: impl Fn(usize, usize, f32) -> f32, limit: f64) -> Option<Region> {
        let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
        region(&a, &Matrix::from_fn(32, 64, |r, c| change(r, c, a.at(r, c) + e.at(r, c))), limit)
    }

    #[test]
    fn noise_below_the_limit_is_right() {
        assert_eq!(judged(|_, _, x| x, QUANTIZED), None);
        assert!(judged(|_, _, x| x, FLOAT).is_some());
    }

    #[test]
    fn one_row_one_column_or_one_number_is_found() {
        let all = |n: usize| (0..n).collect::<Vec<_>>();
        let row = judged(|r, _, x| if r == 7 { x * 1.1 } else { x }, QUANTIZED).expect("a wrong row");
        assert_eq!(row.rows, [7]);
        let col = judged(|_, c, x| if c == 9 { x * 1.1 } else { x }, QUANTIZED).expect("a wrong column");
        assert_eq!(col.cols, [9]);
        let one = judged(|r, c, x| if (r, c) == (3, 5) { x + 1.0 } else { x }, QUANTIZED);
        assert_eq!(one, Some(Region { rows: vec![3], cols: vec![5] }));
        let nan = judged(|r, c, x| if (r, c) == (3, 5) { f32::NAN } else { x }, QUANTIZED);
        assert_eq!(nan, Some(Region { rows: vec![3], cols: vec![5] }));
        let every = judged(|_, _, x| -x, QUANTIZED);
        assert_eq!(every, Some(Region { rows: all(32), cols: all(64) }));
    }

    /// Right rows between wrong ones are right; those of a value that is wrong throughout are so by chance.
    #[test]
    fn rows_are_those_that_are_wrong() {
        let odd = judged(|r, _, x| if r % 2 == 1 { x * 1.1 } else { x }, QUANTIZED).expect("wrong rows");
        assert_eq!(odd.rows, (0..16).map(|i| 2 * i + 1).collect::<Vec<_>>());
        let thirds = judged(|r, _, x| if r % 3 == 0 { x } else { x * 1.1 }, QUANTIZED).expect("wrong rows");
        assert_eq!(thirds.rows, (0..32).filter(|r| r % 3 != 0).collect::<Vec<_>>());
        let some = |r: usize| if r % 5 == 2 { 1.02 } else { 1.1 };
        let weak = judged(|r, _, x| if r > 3 { x * some(r) } else { x }, QUANTIZED).expect("wrong rows");
        assert_eq!(weak.rows, (4..32).collect::<Vec<_>>());
    }

    /// Some numbers of the lost column are next to nothing, in rows that are wrong all the same.
    #[test]
    fn a_column_that_is_lost_later_is_wrong_later() {
        let lost =
            judged(|r, c, x| if r >= 20 && c == 9 { 0.0 } else { x }, QUANTIZED).expect("a wrong column");
        assert_eq!(lost, Region { rows: (20..32).collect(), cols: vec![9] });
    }

    /// The first token of a trained model is such a row.
    #[test]
    fn a_large_row_hides_no_other() {
        let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
        let size = |r: usize| if r == 0 { 100.0 } else { 1.0 };
        let a = Matrix::from_fn(32, 64, |r, c| size(r) * a.at(r, c));
        let b = Matrix::from_fn(32, 64, |r, c| a.at(r, c) + size(r) * e.at(r, c));
        assert_eq!(region(&a, &b, QUANTIZED), None);
        let lost = |r: usize, c: usize| if (1..4).contains(&r) && c == 9 { 0.0 } else { b.at(r, c) };
        let wrong = region(&a, &Matrix::from_fn(32, 64, lost), QUANTIZED);
        assert_eq!(wrong, Some(Region { rows: vec![1, 2, 3], cols: vec![9] }));
        let one = |r: usize, c: usize| if (r, c) == (5, 9) { b.at(r, c) + 1.0 } else { b.at(r, c) };
        let wrong = region(&a, &Matrix::from_fn(32, 64, one), QUANTIZED);
        assert_eq!(wrong, Some(Region { rows: vec![5], cols: vec![9] }));
    }

    #[test]
    fn a_row_that_cancels_is_allowed_its_rounding() {
        // Row 3 of the product is next to nothing beside what it is summed from.
        let (a, e) = (noise(8, 64, 1.0, 1.0), noise(8, 64, 0.005, 2.0));
        let a = Matrix::from_fn(8, 64, |r, c| if r == 3 { a.at(r, c) * 0.01 } else { a.at(r, c) });
        let b = Matrix::from_fn(8, 64, |r, c| a.at(r, c) + e.at(r, c));
        assert_eq!(region(&a, &b, QUANTIZED).expect("a row with a large relative error").rows, [3]);
        let number = 0.005f64.powi(2) / 3.0;
        let expected = Rounding::known(64, vec![number; 512]);
        assert_eq!(judge_pair(&a, &b, QUANTIZED, &expected).region, None);
        // Neither are its columns wrong when another row is.
        let b =
            Matrix::from_fn(
                8,
                64,
                |r, c| if r == 5 { a.at(r, c) + 2.0 * e.at(r, c) * 20.0 } else { b.at(r, c) },
            );
        assert_eq!(judge_pair(&a, &b, QUANTIZED, &expected).region.expect("a wrong row").rows, [5]);
    }
}
