//! A close look at a value that seems wrong: where it is, if it is, with what rounding costs.

use super::Rounding;
use super::blocks::{Rows, View};
use super::drift::{self, Drift};
use super::region::{self, Region, Row};
use super::sums::{Slice, Sum, allowance, finite, part_of_row};
use super::tally::Tally;
use crate::metrics::difference;

/// The part of the limit that right rows are within as a rule.
const USUAL: f64 = 1.0 / 16.0;

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
        self.expected.add(weight * rounding.usual(row, col));
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
pub(super) fn closely<R: Rows>(value: &R, tally: &Tally, limit: f64) -> Result<Option<Region>, R::Error> {
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
                if number.is_large(limit, 1) && number.error > 2.0 * rounding.usual(i, c) * allowance(1.0) {
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
