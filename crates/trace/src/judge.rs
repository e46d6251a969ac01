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
mod drift;
mod region;
mod rounding;
mod sums;

use backend::KvFormat;

use crate::Matrix;
use crate::metrics::{Measure, Metrics, difference};
use crate::oracle::Call;

pub(crate) use blocks::{Block, Blocks, Rows, rows_at_once};
use blocks::{Pair, View};
pub use region::Region;
pub(crate) use rounding::Rounding;

use drift::{Drift, Glance};
use region::Row;
use sums::{Slice, Sum, allowance, part_of_row};

/// The largest error of one operation on f32.
const FLOAT: f64 = 1e-6;

/// The largest error of a product with a quantised weight, where activations are rounded to 8 bits.
const QUANTIZED: f64 = 5e-4;

/// The largest error of attention over K and V in F16. Keys and values are rounded before the replay as
/// the store rounds them; engines round queries, probabilities or sums to the same 11 bits, too, each
/// with an NMSE of up to 2^-22 = 2.4e-7, and the error of a score grows with its size in the softmax.
const ATTENTION_F16: f64 = 1e-5;

/// The part of the limit that right rows are within as a rule.
const USUAL: f64 = 1.0 / 16.0;

/// The one-operation limit of `call`.
pub(crate) fn limit(call: &Call, kv: KvFormat) -> f64 {
    match call {
        Call::Linear(weight) if weight.format.block_len() > 1 => QUANTIZED,
        Call::Attention { .. } if kv == KvFormat::F16 => ATTENTION_F16,
        _ => FLOAT,
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

/// Sums over the rows and columns of a value.
struct Tally {
    measure: Measure,
    by_row: Vec<Sum>,
    /// Of a row that is next to nothing, nothing can be said beside rows that are not: the energy of each
    /// row, but at least a millionth of the mean of those up to it.
    energies: Vec<f64>,
    /// What each row counts in a column.
    weights: Vec<f64>,
    by_col: Vec<Sum>,
    /// At least the largest error of a single number, relative to what is usual.
    number: f64,
    /// Of rows, columns and the whole: whether there may be a drift.
    drifts: bool,
}

impl Tally {
    fn of<R: Rows>(value: &R) -> Result<Tally, R::Error> {
        let (rows, cols) = value.shape();
        let mut tally = Tally {
            measure: Measure::default(),
            by_row: Vec::with_capacity(rows),
            energies: Vec::with_capacity(rows),
            weights: Vec::with_capacity(rows),
            by_col: vec![Sum::default(); cols],
            number: 0.0,
            drifts: false,
        };
        let (mut glances, mut all, mut energy) = (vec![Glance::default(); cols], Glance::default(), 0.0);
        value.each(&mut |view| {
            tally.measure.add(view.first, view.expected, view.found);
            for r in 0..view.found.rows {
                let (sum, _) = part_of_row((view.expected, view.found, &Rounding::default()), r, 0..cols);
                energy += sum.energy;
                tally.by_row.push(sum);
            }
            let floor = energy / tally.by_row.len() as f64 * 1e-6;
            for r in 0..view.found.rows {
                let row = tally.by_row[view.first + r].energy.max(floor);
                let weight = if row > 0.0 { 1.0 / row } else { 1.0 };
                let mut glance = Glance::default();
                for c in 0..cols {
                    let (a, b) = (view.expected.at(r, c), view.found.at(r, c));
                    tally.by_col[c].add(a, b, weight);
                    let usual = (row / cols as f64).max(f64::from(a).powi(2));
                    let error = difference(a, b).powi(2);
                    tally.number = tally.number.max(if error > 0.0 { error / usual } else { 0.0 });
                    if let Some((y, d)) = finite(a, b) {
                        glance.add(y, d, 1.0);
                        glances[c].add(y, d, weight);
                        all.add(y, d, weight);
                    }
                }
                tally.drifts |= glance.is_worth();
                tally.energies.push(row);
                tally.weights.push(weight);
            }
        })?;
        tally.drifts |= all.is_worth() || glances.iter().any(Glance::is_worth);
        Ok(tally)
    }

    fn total(&self) -> Sum {
        let total = |of: &dyn Fn(&Sum) -> f64| self.by_row.iter().map(of).sum::<f64>();
        Sum { error: total(&|row| row.error), energy: total(&|row| row.energy) }
    }

    fn row(&self, r: usize) -> Sum {
        Sum { energy: self.energies[r], ..self.by_row[r] }
    }

    /// What a column would have of the rows, whose energies are 1 there, if all had the same.
    fn share(&self) -> f64 {
        self.by_row.len() as f64 / self.by_col.len() as f64
    }

    fn col(&self, c: usize) -> Sum {
        Sum { energy: self.by_col[c].energy.max(self.share() * 1e-6), ..self.by_col[c] }
    }

    /// The energy that a number of a row and a column has as a rule.
    fn usual(&self, r: usize, c: usize) -> f64 {
        self.energies[r] * self.by_col[c].energy.max(self.share()) / self.by_row.len() as f64
    }

    /// Whether anything may be wrong, before anything is known of rounding.
    fn is_suspicious(&self, limit: f64) -> bool {
        let (rows, cols) = (self.by_row.len(), self.by_col.len());
        self.drifts
            || self.total().ratio() > limit
            || (0..rows).any(|r| self.row(r).is_large(limit, cols))
            || (0..cols).any(|c| self.col(c).is_large(limit, rows))
            || self.number > limit * allowance(1.0)
    }
}

/// What a number should be and its error, where both are numbers.
fn finite(a: f32, b: f32) -> Option<(f64, f64)> {
    (a.is_finite() && b.is_finite()).then(|| (f64::from(a), f64::from(b) - f64::from(a)))
}

/// What is summed up of a row or a column.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    sum: Sum,
    numbers: usize,
    expected: Slice,
    drift: Drift,
}

impl Line {
    /// Takes in a number of a row of a view.
    fn add_col(&mut self, view: View<'_>, rounding: &Rounding, at: (usize, usize)) {
        self.add(view, rounding, at, 1.0, rounding.has_direction());
    }

    /// Takes in a number of a column, times the row's weight. Its error is independent of those in other
    /// rows, if their inputs are others.
    fn add_row(&mut self, view: View<'_>, rounding: &Rounding, (row, col): (usize, usize), weight: f64) {
        let is_news = rounding.has_direction() && !rounding.is_repeated(row);
        self.add(view, rounding, (row, col), weight, is_news);
        if is_news {
            let (y, square) = (f64::from(view.expected.at(row, col)), rounding.square(row, col));
            self.drift.stray([y * y, 1.0].map(|along| weight * weight * along * square));
        }
    }

    fn add(
        &mut self,
        view: View<'_>,
        rounding: &Rounding,
        (row, col): (usize, usize),
        weight: f64,
        drifts: bool,
    ) {
        let (a, b) = (view.expected.at(row, col), view.found.at(row, col));
        self.sum.add(a, b, weight);
        self.numbers += 1;
        self.expected.add(weight * rounding.square(row, col));
        if drifts && let Some((y, d)) = finite(a, b) {
            self.drift.add(y, d, rounding.added(row, col), weight);
        }
    }

    /// Whether its error is larger than it may be, relative to its energy, which is `least` at least.
    fn is_wrong(&self, limit: f64, least: f64) -> bool {
        let sum = Sum { energy: self.sum.energy.max(least), ..self.sum };
        sum.is_large(limit, self.numbers) && sum.error > self.expected.most()
    }
}

/// Looks at a value with what rounding costs.
fn closely<R: Rows>(value: &R, tally: &Tally, limit: f64) -> Result<Option<Region>, R::Error> {
    let (rows, cols) = value.shape();
    let (mut bad_rows, mut bad_cols) = (vec![false; rows], vec![false; cols]);
    let (mut by_row, mut by_col) = (vec![Line::default(); rows], vec![Line::default(); cols]);
    let mut whole = Drift::default();
    value.each(&mut |view| {
        let rounding = (view.rounding)();
        for i in 0..view.found.rows {
            let r = view.first + i;
            for c in 0..cols {
                by_row[r].add_col(view, rounding, (i, c));
                by_col[c].add_row(view, rounding, (i, c), tally.weights[r]);
                // A single number: relative to its row and to what its column has of rows, as it may be near
                // 0 itself.
                let (a, b) = (view.expected.at(i, c), view.found.at(i, c));
                let energy = tally.usual(r, c).max(f64::from(a).powi(2));
                let number = Sum { error: difference(a, b).powi(2), energy };
                if number.is_large(limit, 1) && number.error > 2.0 * rounding.square(i, c) * allowance(1.0) {
                    (bad_rows[r], bad_cols[c]) = (true, true);
                }
            }
            if rounding.has_direction() {
                by_row[r].drift.stray(rounding.along(i));
                if !rounding.is_repeated(i) {
                    whole.join(&by_row[r].drift, tally.weights[r]);
                }
            }
        }
    })?;
    let most: f64 = by_row.iter().map(|row| row.expected.most()).sum();
    let is_wrong = (tally.total().ratio() > limit && tally.total().error > most) || whole.is_wrong();
    let drifts: Vec<Drift> = by_row.iter().map(|row| row.drift).collect();
    let drifts = drift::wrong(&drifts, &whole);
    for (r, bad) in bad_rows.iter_mut().enumerate() {
        *bad |= by_row[r].is_wrong(limit, tally.energies[r]) || drifts[r];
    }
    let by_numbers = bad_cols.clone();
    mark(&mut bad_cols, &by_col, limit, &whole, |_| tally.share() * 1e-6);
    let any = |bad: &[bool]| bad.contains(&true);
    if !is_wrong && !any(&bad_rows) && !any(&bad_cols) {
        return Ok(None);
    }
    // Where some rows are wrong, what the others are like says nothing of columns.
    if any(&bad_rows) && bad_rows.contains(&false) {
        bad_cols = by_numbers;
        cols_of(value, tally, limit, &bad_rows, &mut bad_cols)?;
    }
    let wrong_cols = region::cols(&bad_cols);
    let mut judged = rows_of(value, tally, limit, &wrong_cols)?;
    judged.iter_mut().zip(&bad_rows).filter(|(_, bad)| **bad).for_each(|(row, _)| *row = Row::Wrong);
    Ok(Some(Region { rows: region::rows(&judged, wrong_cols.len()), cols: wrong_cols }))
}

/// Marks the columns that are wrong. `whole` is the drift of all together, `least` the energy that a column
/// is taken to have at least.
fn mark(bad: &mut [bool], cols: &[Line], limit: f64, whole: &Drift, least: impl Fn(usize) -> f64) {
    let drifts: Vec<Drift> = cols.iter().map(|col| col.drift).collect();
    let drifts = drift::wrong(&drifts, whole);
    for (c, bad) in bad.iter_mut().enumerate() {
        *bad |= cols[c].is_wrong(limit, least(c)) || drifts[c];
    }
}

/// Marks the columns that are wrong in the rows of `bad_rows`.
fn cols_of<R: Rows>(
    value: &R,
    tally: &Tally,
    limit: f64,
    bad_rows: &[bool],
    bad: &mut [bool],
) -> Result<(), R::Error> {
    let (mut lines, mut whole) = (vec![Line::default(); bad.len()], Drift::default());
    value.each(&mut |view| {
        let rounding = (view.rounding)();
        for i in (0..view.found.rows).filter(|i| bad_rows[view.first + i]) {
            let (weight, mut row) = (tally.weights[view.first + i], Line::default());
            for (c, line) in lines.iter_mut().enumerate() {
                line.add_row(view, rounding, (i, c), weight);
                row.add_col(view, rounding, (i, c));
            }
            if rounding.has_direction() {
                row.drift.stray(rounding.along(i));
                if !rounding.is_repeated(i) {
                    whole.join(&row.drift, weight);
                }
            }
        }
    })?;
    // As a rule so many rows have as much of the column, whatever these have.
    let part = bad_rows.iter().filter(|&&bad| bad).count() as f64 / bad_rows.len() as f64;
    mark(bad, &lines, limit, &whole, |c| part * tally.by_col[c].energy.max(tally.share()));
    Ok(())
}

/// What is known of the rows by the columns that are wrong.
fn rows_of<R: Rows>(value: &R, tally: &Tally, limit: f64, wrong: &[usize]) -> Result<Vec<Row>, R::Error> {
    let mut rows = Vec::with_capacity(value.shape().0);
    value.each(&mut |view| {
        let rounding = (view.rounding)();
        for i in 0..view.found.rows {
            let (sum, slice) = part_of_row((view.expected, view.found, rounding), i, wrong.iter().copied());
            let usual: f64 = wrong.iter().map(|&c| tally.usual(view.first + i, c)).sum();
            let sum = Sum { energy: sum.energy.max(usual), ..sum };
            let most = slice.most();
            rows.push(if sum.is_large(limit, wrong.len()) && sum.error > most {
                Row::Wrong
            } else if sum.is_large(limit * USUAL, wrong.len()) && sum.error > most {
                Row::Open
            } else {
                Row::Right
            });
        }
    })?;
    Ok(rows)
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
