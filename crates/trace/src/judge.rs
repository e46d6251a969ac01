//! Whether an operation's own error is within its limit, and where it stands when it is not.
//!
//! The limit holds for the value as a whole and for each row and column of it, since one wrong row among
//! many, or one wrong output of a matrix, hardly shows in the whole. The mean of few squares strays
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

/// The square errors that rounding the inputs of a product makes, as expected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    /// Of each number, `[rows * cols]`.
    numbers: Vec<f64>,
    rows: Vec<Slice>,
    cols: Vec<Slice>,
}

/// What is expected of numbers together: the sum of their square errors, and that of its squares.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    sum: f64,
    squares: f64,
}

impl Slice {
    fn add(&mut self, number: f64) {
        self.sum += number;
        self.squares += number * number;
    }

    /// The largest error that is no fault. A few numbers may make up most of it, and then it strays as that
    /// of few.
    fn most(self) -> f64 {
        if self.squares > 0.0 { 2.0 * self.sum * allowance(self.sum * self.sum / self.squares) } else { 0.0 }
    }
}

/// That of what is no product: none.
pub(crate) static NO_NOISE: Noise = Noise { numbers: Vec::new(), rows: Vec::new(), cols: Vec::new() };

impl Noise {
    /// That of `x` times the transpose of `weight`.
    pub(crate) fn of(x: &Matrix, weight: &Weight) -> Noise {
        let block = if weight.format.block_len() > 1 { weight.format.block_len() } else { BLOCK };
        // Of each input of a block the mean error, of each block of a weight's row the energy.
        let error = |x: &[f32]| rounding(x, weight.format) / x.len() as f64;
        let errors: Vec<Vec<f64>> =
            (0..x.rows).map(|r| x.row(r).chunks(block).map(error).collect()).collect();
        let mut noise = Noise {
            numbers: vec![0.0; x.rows * weight.rows],
            rows: vec![Slice::default(); x.rows],
            cols: vec![Slice::default(); weight.rows],
        };
        let mut row = vec![0.0; weight.cols];
        for o in 0..weight.rows {
            weight.format.dequantize(weight.row(o), &mut row);
            let energies: Vec<f64> = row.chunks(block).map(energy).collect();
            for (r, errors) in errors.iter().enumerate() {
                let number = errors.iter().zip(&energies).map(|(error, energy)| error * energy).sum();
                noise.numbers[r * weight.rows + o] = number;
                noise.rows[r].add(number);
                noise.cols[o].add(number);
            }
        }
        noise
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

/// Errors and energies of each row and each column.
struct Sums {
    rows: Vec<[f64; 2]>,
    cols: Vec<[f64; 2]>,
}

impl Sums {
    fn new(reference: &Matrix, found: &Matrix, counts: impl Fn(usize, usize) -> bool) -> Sums {
        let mut sums = Sums { rows: vec![[0.0; 2]; reference.rows], cols: vec![[0.0; 2]; reference.cols] };
        for r in 0..reference.rows {
            for c in 0..reference.cols {
                let (a, b) = (reference.at(r, c), found.at(r, c));
                let squares =
                    [difference(a, b).powi(2), if a.is_finite() { f64::from(a).powi(2) } else { 0.0 }];
                for (i, square) in squares.into_iter().enumerate() {
                    // Errors count everywhere or where asked for, energies everywhere.
                    if i == 1 || counts(r, c) {
                        sums.rows[r][i] += square;
                        sums.cols[c][i] += square;
                    }
                }
            }
        }
        sums
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
    let all = Sums::new(reference, found, |_, _| true);
    let total = |i: usize| all.rows.iter().map(|sum| sum[i]).sum::<f64>();
    // Of a row that is next to nothing, nothing can be said beside rows that are not.
    let (row_floor, col_floor) = (total(1) / rows as f64 * 1e-6, total(1) / cols as f64 * 1e-6);
    let is_wrong = |error: f64, energy: f64, n: usize, noise: &dyn Fn() -> f64| {
        ratio(error, energy) > limit * allowance(n as f64) && error > noise()
    };
    let most = |noise: &[Slice], i: usize| noise.get(i).copied().unwrap_or_default().most();
    let row_is_wrong = |(r, [error, energy]): (usize, &[f64; 2])| {
        is_wrong(*error, energy.max(row_floor), cols, &|| most(&noise().rows, r))
    };
    let col_is_wrong = |(c, [error, energy]): (usize, &[f64; 2])| {
        is_wrong(*error, energy.max(col_floor), rows, &|| most(&noise().cols, c))
    };
    // A single number: relative to its row and column, as it may be near 0 itself.
    let number_is_wrong = |r: usize, c: usize| {
        let error = difference(reference.at(r, c), found.at(r, c)).powi(2);
        let energy = (all.rows[r][1] / cols as f64).max(all.cols[c][1] / rows as f64);
        let energy = energy.max(f64::from(reference.at(r, c)).powi(2));
        let expected = |noise: &Noise| noise.numbers.get(r * cols + c).copied().unwrap_or(0.0);
        is_wrong(error, energy, 1, &|| 2.0 * expected(noise()) * allowance(1.0))
    };
    let whole = ratio(total(0), total(1)) > limit
        && total(0) > noise().rows.iter().map(|row| row.most()).sum::<f64>();
    let mut bad_rows: Vec<bool> = all.rows.iter().enumerate().map(row_is_wrong).collect();
    let mut bad_cols: Vec<bool> = all.cols.iter().enumerate().map(col_is_wrong).collect();
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
        let part = Sums::new(reference, found, |_, c| bad_cols[c]);
        let energy = |r: usize| -> f64 {
            (0..cols).filter(|&c| bad_cols[c]).map(|c| f64::from(reference.at(r, c)).powi(2)).sum()
        };
        bad_rows = (0..rows).map(|r| ratio(part.rows[r][0], energy(r)) > limit).collect();
    } else if any(&bad_rows) && !any(&bad_cols) {
        let part = Sums::new(reference, found, |r, _| bad_rows[r]);
        let energy = |c: usize| -> f64 {
            (0..rows).filter(|&r| bad_rows[r]).map(|r| f64::from(reference.at(r, c)).powi(2)).sum()
        };
        bad_cols = (0..cols).map(|c| ratio(part.cols[c][0], energy(c)) > limit).collect();
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

    #[test]
    fn a_row_that_cancels_is_allowed_its_rounding() {
        // Row 3 of the product is next to nothing beside what it is summed from.
        let (a, e) = (noise(8, 64, 1.0, 1.0), noise(8, 64, 0.005, 2.0));
        let a = Matrix::from_fn(8, 64, |r, c| if r == 3 { a.at(r, c) * 0.01 } else { a.at(r, c) });
        let b = Matrix::from_fn(8, 64, |r, c| a.at(r, c) + e.at(r, c));
        let blind = judge(&a, &b, QUANTIZED, || &NO_NOISE).region.expect("a row with a large relative error");
        assert_eq!(blind.rows, [3]);
        let number = 0.005f64.powi(2) / 3.0;
        let slice = |n: f64| Slice { sum: n * number, squares: n * number * number };
        let expected =
            Noise { numbers: vec![number; 512], rows: vec![slice(64.0); 8], cols: vec![slice(8.0); 64] };
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
        assert!((noise.numbers[0] - 128.0 / 12.0).abs() < 1e-9, "{noise:?}");
        assert_eq!((noise.rows[0].sum, noise.cols[0].sum), (noise.numbers[0], noise.numbers[0]));
    }
}
