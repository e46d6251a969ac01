//! Whether an operation's own error is within its limit, and where it stands when it is not.
//!
//! The limit holds for the value as a whole and for each row and column of it, since one wrong row among
//! many, or one wrong output of a matrix, hardly shows in the whole. The mean of few squares strays
//! further from its expectation than that of many, so a slice of `n` numbers is allowed
//! `1 + 6 sqrt(2/n) + 20/n` times the limit: six standard deviations of a chi-square mean and its
//! exponential tail.
//!
//! Engines round the activations of a product to the precision of its weights: to 8 bits where these are
//! quantised, to BF16 where they are that. What that costs follows from the recorded input (outliers make
//! it dear), and twice as much is allowed where it is more than the limit.

use backend::{KvFormat, Weight};
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

/// How large an error may be.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    /// Of the value as a whole.
    pub(crate) whole: f64,
    /// Of each row.
    rows: Vec<f64>,
}

impl Limit {
    /// The same everywhere.
    pub(crate) fn same(limit: f64, rows: usize) -> Limit {
        Limit { whole: limit, rows: vec![limit; rows] }
    }

    /// The one-operation limit of `call` on `inputs`, and at least `least`.
    pub(crate) fn of(call: &Call, kv: KvFormat, inputs: &[Matrix], least: f64, rows: usize) -> Limit {
        let base = match call {
            Call::Linear(weight) if weight.format.block_len() > 1 => QUANTIZED,
            Call::Attention { .. } if kv == KvFormat::F16 => ATTENTION_F16,
            _ => FLOAT,
        };
        let base = base.max(least);
        let (Call::Linear(weight), Some(x)) = (call, inputs.first()) else { return Limit::same(base, rows) };
        let (mut whole, mut limits) = ([0.0; 2], Vec::with_capacity(rows));
        for r in 0..x.rows {
            let row = x.row(r);
            let (error, energy) = (rounding(row, weight.format), energy(row));
            limits.push(base.max(2.0 * ratio(error, energy)));
            whole = [whole[0] + error, whole[1] + energy];
        }
        Limit { whole: base.max(2.0 * ratio(whole[0], whole[1])), rows: limits }
    }
}

fn energy(x: &[f32]) -> f64 {
    x.iter().filter(|x| x.is_finite()).map(|&x| f64::from(x).powi(2)).sum()
}

/// The square error that is made when `x` is rounded as engines do for products with weights of `format`:
/// to 127 steps of the largest of each block, an error of a twelfth of a step squared; or to BF16 by
/// cutting off.
fn rounding(x: &[f32], format: Format) -> f64 {
    let block = format.block_len();
    if block > 1 {
        let step = |block: &[f32]| block.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
        return x.chunks(block).map(|block| block.len() as f64 * f64::from(step(block)).powi(2) / 12.0).sum();
    }
    let cut = |x: f32| f64::from(x) - f64::from(f32::from_bits(x.to_bits() & 0xFFFF_0000));
    if format == Format::BF16 { x.iter().map(|&x| cut(x).powi(2)).sum() } else { 0.0 }
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
fn allowance(n: usize) -> f64 {
    let n = n.max(1) as f64;
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

/// Judges `found` by what its operation must give. `natural` tells what energy a column would have if
/// nothing cancelled: rounding errors are relative to that, not to what is left.
pub(crate) fn judge(
    reference: &Matrix,
    found: &Matrix,
    limit: &Limit,
    natural: impl Fn(usize) -> f64,
) -> Judgement {
    let metrics = measure(reference, found);
    let region = region(reference, found, limit, metrics.nmse > limit.whole, natural);
    Judgement { metrics, region }
}

fn region(
    reference: &Matrix,
    found: &Matrix,
    limit: &Limit,
    whole: bool,
    natural: impl Fn(usize) -> f64,
) -> Option<Region> {
    let (rows, cols) = (reference.rows, reference.cols);
    let all = Sums::new(reference, found, |_, _| true);
    let mean = |sums: &[[f64; 2]]| sums.iter().map(|sum| sum[1]).sum::<f64>() / sums.len().max(1) as f64;
    // Of a row that is next to nothing, nothing can be said beside rows that are not.
    let (row_floor, col_floor) = (mean(&all.rows) * 1e-6, mean(&all.cols) * 1e-6);
    let row_is_wrong = |(r, [error, energy]): (usize, &[f64; 2])| {
        ratio(*error, energy.max(row_floor)) > limit.rows[r] * allowance(cols)
    };
    let col_is_wrong = |c: usize, [error, energy]: [f64; 2]| -> bool {
        let allowed = limit.whole * allowance(rows);
        ratio(error, energy.max(col_floor)) > allowed && ratio(error, natural(c)) > allowed
    };
    // A single number: relative to its row and column, as it may be near 0 itself.
    let number_is_wrong = |r: usize, c: usize| -> bool {
        let error = difference(reference.at(r, c), found.at(r, c)).powi(2);
        let energy = (all.rows[r][1] / cols as f64).max(all.cols[c][1] / rows as f64);
        error > 0.0
            && ratio(error, energy.max(f64::from(reference.at(r, c)).powi(2))) > limit.rows[r] * allowance(1)
            && ratio(error, natural(c) / rows as f64) > limit.rows[r] * allowance(1)
    };
    let mut bad_rows: Vec<bool> = all.rows.iter().enumerate().map(row_is_wrong).collect();
    let mut bad_cols: Vec<bool> = (0..cols).map(|c| col_is_wrong(c, all.cols[c])).collect();
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
        bad_rows = (0..rows).map(|r| ratio(part.rows[r][0], energy(r)) > limit.rows[r]).collect();
    } else if any(&bad_rows) && !any(&bad_cols) {
        let part = Sums::new(reference, found, |r, _| bad_rows[r]);
        let energy = |c: usize| -> f64 {
            (0..rows).filter(|&r| bad_rows[r]).map(|r| f64::from(reference.at(r, c)).powi(2)).sum()
        };
        bad_cols = (0..cols).map(|c| ratio(part.cols[c][0], energy(c)) > limit.whole).collect();
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

/// The energy of each column of a product if inputs and weights were independent:
/// `|w_o|^2 * sum |x|^2 / K`.
pub(crate) fn natural_energies(x: &Matrix, weight: &Weight) -> Vec<f64> {
    let energy = energy(&x.data);
    let mut row = vec![0.0; weight.cols];
    let column = |o: usize| {
        weight.format.dequantize(weight.row(o), &mut row);
        let norm: f64 = row.iter().map(|&w| f64::from(w).powi(2)).sum();
        norm * energy / weight.cols as f64
    };
    (0..weight.rows).map(column).collect()
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
        judge(&a, &b, &Limit::same(limit, 32), |_| f64::INFINITY.min(32.0 / 3.0)).region
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
}
