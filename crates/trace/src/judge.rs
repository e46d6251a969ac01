//! Whether an operation's own error is within its limit, and where it stands when it is not.
//!
//! The limit holds for the value as a whole and for each row and column of it, since one wrong row among
//! many, or one wrong output of a matrix, hardly shows in the whole. Rows count alike in a column, whatever
//! their size, since that of one token may be a thousand times that of the others. The mean of few squares strays
//! further from its expectation than that of many, so a slice of `n` numbers is allowed
//! `1 + 6 sqrt(2/n) + 20/n` times the limit: six standard deviations of a chi-square mean and its
//! exponential tail.
//!
//! Engines round the activations of a product: to 8 bits in blocks where the weights are quantised, to F16
//! or BF16 where these are. What that must cost each number follows from the recorded input and the weights.
//! It is more than the limit where a block has an outlier, or where a product nearly cancels, as those of a
//! trained model's first token do. Up to twice as much is no fault.

use backend::{KvFormat, Weight};
use half::f16;
use quant::Format;
use serde::Serialize;

use crate::Matrix;
use crate::metrics::{Metrics, difference, measure, ratio};
use crate::oracle::Call;

/// The largest error of one operation on f32.
const FLOAT: f64 = 1e-6;

/// The largest error of a product with a quantised weight, where activations are rounded to 8 bits.
const QUANTIZED: f64 = 5e-4;

/// The largest error of attention over K and V in F16. Keys and values are rounded before the replay as
/// the store rounds them; engines round queries, probabilities or sums to the same 11 bits, too, each
/// with an NMSE of up to 2^-22 = 2.4e-7, and the error of a score grows with its size in the softmax.
const ATTENTION_F16: f64 = 1e-5;

/// The one-operation limit of `call`.
pub(crate) fn limit(call: &Call, kv: KvFormat) -> f64 {
    match call {
        Call::Linear(weight) if weight.format.block_len() > 1 => QUANTIZED,
        Call::Attention { .. } if kv == KvFormat::F16 => ATTENTION_F16,
        _ => FLOAT,
    }
}

fn energy(x: &[f32]) -> f64 {
    x.iter().filter(|x| x.is_finite()).map(|&x| f64::from(x).powi(2)).sum()
}

/// Inputs that are taken together where weights have no blocks.
const BLOCK: usize = 32;

/// The square error that is made when `x`, a block, is rounded as engines do for products with weights of
/// `format`: to 127 steps of the largest, an error of a twelfth of a step squared for each; or to F16, or
/// to BF16 by cutting off.
fn rounding(x: &[f32], format: Format) -> f64 {
    let squares = |rounded: &dyn Fn(f32) -> f32| -> f64 {
        x.iter().map(|&x| (f64::from(x) - f64::from(rounded(x))).powi(2)).sum()
    };
    match format {
        Format::F32 => 0.0,
        Format::F16 => squares(&|x| f16::from_f32(x).to_f32()),
        Format::BF16 => squares(&|x| f32::from_bits(x.to_bits() & 0xFFFF_0000)),
        _ => {
            let step = x.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
            x.len() as f64 * f64::from(step).powi(2) / 12.0
        }
    }
}

/// The square errors that rounding the inputs of a product makes, as expected: of each number,
/// `[rows * cols]`; of what is no product, of none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise(Vec<f64>);

/// What is expected of numbers together: the sum of their square errors, and that of its squares.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    sum: f64,
    squares: f64,
}

impl Slice {
    fn of(numbers: impl Iterator<Item = f64>) -> Slice {
        let add = |Slice { sum, squares }, x| Slice { sum: sum + x, squares: squares + x * x };
        numbers.fold(Slice::default(), add)
    }

    /// The largest error that is no fault. A few numbers may make up most of it, and then it strays as that
    /// of few.
    fn most(self) -> f64 {
        if self.squares > 0.0 { 2.0 * self.sum * allowance(self.sum * self.sum / self.squares) } else { 0.0 }
    }
}

/// That of what is no product: none.
pub(crate) static NO_NOISE: Noise = Noise(Vec::new());

impl Noise {
    /// That of `x` times the transpose of `weight`.
    pub(crate) fn of(x: &Matrix, weight: &Weight) -> Noise {
        let block = if weight.format.block_len() > 1 { weight.format.block_len() } else { BLOCK };
        // Of each input of a block the mean error, of each block of a weight's row the energy.
        let error = |x: &[f32]| rounding(x, weight.format) / x.len() as f64;
        let errors: Vec<Vec<f64>> =
            (0..x.rows).map(|r| x.row(r).chunks(block).map(error).collect()).collect();
        let mut numbers = vec![0.0; x.rows * weight.rows];
        let mut row = vec![0.0; weight.cols];
        for o in 0..weight.rows {
            weight.format.dequantize(weight.row(o), &mut row);
            let energies: Vec<f64> = row.chunks(block).map(energy).collect();
            for (r, errors) in errors.iter().enumerate() {
                let number = errors.iter().zip(&energies).map(|(error, energy)| error * energy);
                numbers[r * weight.rows + o] = number.sum();
            }
        }
        Noise(numbers)
    }

    fn at(&self, number: usize) -> f64 {
        self.0.get(number).copied().unwrap_or(0.0)
    }
}

/// The rows and columns in which a value is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Rows, rising.
    pub rows: Vec<usize>,
    /// Columns, rising.
    pub cols: Vec<usize>,
}

/// What a replay says about a value.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) metrics: Metrics,
    /// Where it is wrong; `None` when it is right.
    pub(crate) region: Option<Region>,
}

/// How much more than the limit a slice of `n` numbers may show.
fn allowance(n: f64) -> f64 {
    let n = n.max(1.0);
    1.0 + 6.0 * (2.0 / n).sqrt() + 20.0 / n
}

/// An error and the energy it is relative to.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    error: f64,
    energy: f64,
}

impl Sum {
    /// That of some numbers, by row and column, each row multiplied by its weight.
    fn of(
        reference: &Matrix,
        found: &Matrix,
        weights: &[f64],
        numbers: impl Iterator<Item = (usize, usize)>,
    ) -> Sum {
        let mut sum = Sum::default();
        for (r, c) in numbers {
            let (a, b) = (reference.at(r, c), found.at(r, c));
            sum.error += weights[r] * difference(a, b).powi(2);
            sum.energy += if a.is_finite() { weights[r] * f64::from(a).powi(2) } else { 0.0 };
        }
        sum
    }

    fn ratio(self) -> f64 {
        ratio(self.error, self.energy)
    }

    /// Whether it is beyond the limit for `n` numbers, and beyond the noise, which is asked only then.
    fn is_wrong(self, limit: f64, n: usize, noise: impl FnOnce() -> f64) -> bool {
        self.ratio() > limit * allowance(n as f64) && self.error > noise()
    }
}

/// Judges `found` by what its operation must give; `noise` is asked only where something seems wrong.
pub(crate) fn judge<'a>(
    reference: &Matrix,
    found: &Matrix,
    limit: f64,
    noise: impl Fn() -> &'a Noise,
) -> Judgement {
    Judgement { metrics: measure(reference, found), region: region(reference, found, limit, noise) }
}

fn region<'a>(
    reference: &Matrix,
    found: &Matrix,
    limit: f64,
    noise: impl Fn() -> &'a Noise,
) -> Option<Region> {
    let (rows, cols) = (reference.rows, reference.cols);
    let plain = vec![1.0; rows];
    let by_row: Vec<Sum> =
        (0..rows).map(|r| Sum::of(reference, found, &plain, (0..cols).map(|c| (r, c)))).collect();
    let total = |of: &dyn Fn(&Sum) -> f64| by_row.iter().map(of).sum::<f64>();
    let total = Sum { error: total(&|row| row.error), energy: total(&|row| row.energy) };
    // Of a row that is next to nothing, nothing can be said beside rows that are not.
    let floor = total.energy / rows as f64 * 1e-6;
    let energies: Vec<f64> = by_row.iter().map(|row| row.energy.max(floor)).collect();
    let weights: Vec<f64> = energies.iter().map(|&e| if e > 0.0 { 1.0 / e } else { 1.0 }).collect();
    let by_col: Vec<Sum> =
        (0..cols).map(|c| Sum::of(reference, found, &weights, (0..rows).map(|r| (r, c)))).collect();
    let row_noise = |r: usize| Slice::of((0..cols).map(|c| noise().at(r * cols + c))).most();
    let col_noise = |c: usize| Slice::of((0..rows).map(|r| weights[r] * noise().at(r * cols + c))).most();
    let row_is_wrong =
        |(r, row): (usize, &Sum)| Sum { energy: energies[r], ..*row }.is_wrong(limit, cols, || row_noise(r));
    // The energies of all rows are 1 there.
    let share = rows as f64 / cols as f64;
    let col_is_wrong = |(c, col): (usize, &Sum)| {
        Sum { energy: col.energy.max(share * 1e-6), ..*col }.is_wrong(limit, rows, || col_noise(c))
    };
    // A single number: relative to its row and to what its column has of rows, as it may be near 0 itself.
    let number_is_wrong = |r: usize, c: usize| {
        let error = difference(reference.at(r, c), found.at(r, c)).powi(2);
        let usual = energies[r] * by_col[c].energy.max(share) / rows as f64;
        let energy = usual.max(f64::from(reference.at(r, c)).powi(2));
        Sum { error, energy }.is_wrong(limit, 1, || 2.0 * noise().at(r * cols + c) * allowance(1.0))
    };
    let whole = total.ratio() > limit && total.error > (0..rows).map(row_noise).sum::<f64>();
    let mut bad_rows: Vec<bool> = by_row.iter().enumerate().map(row_is_wrong).collect();
    let mut bad_cols: Vec<bool> = by_col.iter().enumerate().map(col_is_wrong).collect();
    for (r, bad_row) in bad_rows.iter_mut().enumerate() {
        for (c, bad_col) in bad_cols.iter_mut().enumerate() {
            if number_is_wrong(r, c) {
                (*bad_row, *bad_col) = (true, true);
            }
        }
    }
    let any = |bad: &[bool]| bad.contains(&true);
    if !whole && !any(&bad_rows) && !any(&bad_cols) {
        return None;
    }
    // Wrong columns show in rows that are right as a whole, and the other way about.
    if any(&bad_cols) && !any(&bad_rows) {
        let bad = |r| (0..cols).filter(|&c| bad_cols[c]).map(move |c| (r, c));
        let part = |r| Sum::of(reference, found, &plain, bad(r)).ratio();
        bad_rows = (0..rows).map(|r| part(r) > limit).collect();
    } else if any(&bad_rows) && !any(&bad_cols) {
        let bad = |c| (0..rows).filter(|&r| bad_rows[r]).map(move |r| (r, c));
        let part = |c| Sum::of(reference, found, &weights, bad(c)).ratio();
        bad_cols = (0..cols).map(|c| part(c) > limit).collect();
    }
    let listed = |bad: &[bool], most: usize| -> Vec<usize> {
        let listed: Vec<usize> = (0..bad.len()).filter(|&i| bad[i]).collect();
        if listed.is_empty() || listed.len() > most { (0..bad.len()).collect() } else { listed }
    };
    // Some rows and columns of a value that is wrong throughout are right by chance.
    let (mut wrong, right_by_chance) = (listed(&bad_rows, rows), cols * 9 / 10);
    if let (Some(&first), Some(&last)) = (wrong.first(), wrong.last())
        && wrong.len() * 2 > last - first
    {
        // Up to the end where the gap is no longer than those between.
        let end = if rows - last <= 1 + rows / 8 { rows } else { last + 1 };
        wrong = (first..end).collect();
    }
    Some(Region { rows: wrong, cols: listed(&bad_cols, right_by_chance) })
}

impl Region {
    /// NMSE within the region; infinite where what should be there is nothing.
    pub(crate) fn nmse(&self, reference: &Matrix, found: &Matrix) -> f64 {
        let (mut error, mut energy) = (0.0, 0.0);
        for &r in &self.rows {
            for &c in &self.cols {
                error += difference(reference.at(r, c), found.at(r, c)).powi(2);
                energy += f64::from(reference.at(r, c)).powi(2);
            }
        }
        ratio(error, energy)
    }
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

    fn judged(change: impl Fn(usize, usize, f32) -> f32, limit: f64) -> Option<Region> {
        let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
        let b = Matrix::from_fn(32, 64, |r, c| change(r, c, a.at(r, c) + e.at(r, c)));
        judge(&a, &b, limit, || &NO_NOISE).region
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

    /// The first token of a trained model is such a row.
    #[test]
    fn a_large_row_hides_no_other() {
        let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
        let size = |r: usize| if r == 0 { 100.0 } else { 1.0 };
        let a = Matrix::from_fn(32, 64, |r, c| size(r) * a.at(r, c));
        let b = Matrix::from_fn(32, 64, |r, c| a.at(r, c) + size(r) * e.at(r, c));
        assert_eq!(judge(&a, &b, QUANTIZED, || &NO_NOISE).region, None);
        let lost = |r: usize, c: usize| if (1..4).contains(&r) && c == 9 { 0.0 } else { b.at(r, c) };
        let region = judge(&a, &Matrix::from_fn(32, 64, lost), QUANTIZED, || &NO_NOISE).region;
        assert_eq!(region, Some(Region { rows: vec![1, 2, 3], cols: vec![9] }));
        let one = |r: usize, c: usize| if (r, c) == (5, 9) { b.at(r, c) + 1.0 } else { b.at(r, c) };
        let region = judge(&a, &Matrix::from_fn(32, 64, one), QUANTIZED, || &NO_NOISE).region;
        assert_eq!(region, Some(Region { rows: vec![5], cols: vec![9] }));
    }

    #[test]
    fn a_row_that_cancels_is_allowed_its_rounding() {
        // Row 3 of the product is next to nothing beside what it is summed from.
        let (a, e) = (noise(8, 64, 1.0, 1.0), noise(8, 64, 0.005, 2.0));
        let a = Matrix::from_fn(8, 64, |r, c| if r == 3 { a.at(r, c) * 0.01 } else { a.at(r, c) });
        let b = Matrix::from_fn(8, 64, |r, c| a.at(r, c) + e.at(r, c));
        let blind = judge(&a, &b, QUANTIZED, || &NO_NOISE).region.expect("a row with a large relative error");
        assert_eq!(blind.rows, [3]);
        let number = 0.005f64.powi(2) / 3.0;
        let expected = Noise(vec![number; 512]);
        assert_eq!(judge(&a, &b, QUANTIZED, || &expected).region, None);
    }

    /// By hand: the largest of the block is 127, so a step is 1 and each input's error 1/12; the weights'
    /// energy is 32 * 4.
    #[test]
    fn rounding_to_8_bits_costs_what_it_costs() {
        let x = Matrix::from_fn(1, 32, |_, k| if k == 0 { 127.0 } else { 0.3 });
        let mut bytes = vec![0x00, 0x40]; // 2.0 as F16
        bytes.extend([1u8; 32]);
        let weight = Weight { format: Format::Q8_0, rows: 1, cols: 32, bytes: bytes.into() };
        let noise = Noise::of(&x, &weight);
        assert!((noise.at(0) - 128.0 / 12.0).abs() < 1e-9, "{noise:?}");
    }
}
