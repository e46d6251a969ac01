//! A first look at a value: sums over its rows and columns, before anything is known of rounding.

use super::Rounding;
use super::blocks::Rows;
use super::drift::Glance;
use super::sums::{Sum, allowance, finite, part_of_row};
use crate::metrics::{Measure, difference};

/// Sums over the rows and columns of a value.
pub(super) struct Tally {
    pub(super) measure: Measure,
    by_row: Vec<Sum>,
    /// Of a row that is next to nothing, nothing can be said beside rows that are not: the energy of each
    /// row, but at least a millionth of the mean of those up to it.
    pub(super) energies: Vec<f64>,
    /// What each row counts in a column.
    pub(super) weights: Vec<f64>,
    pub(super) by_col: Vec<Sum>,
    /// At least the largest error of a single number, relative to what is usual.
    number: f64,
    /// Of rows, columns and the whole: whether there may be a drift.
    drifts: bool,
}

impl Tally {
    pub(super) fn of<R: Rows>(value: &R) -> Result<Tally, R::Error> {
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
                for (c, of_col) in glances.iter_mut().enumerate() {
                    let (a, b) = (view.expected.at(r, c), view.found.at(r, c));
                    tally.by_col[c].add(a, b, weight);
                    let usual = (row / cols as f64).max(f64::from(a).powi(2));
                    let error = difference(a, b).powi(2);
                    tally.number = tally.number.max(if error > 0.0 { error / usual } else { 0.0 });
                    if let Some((y, d)) = finite(a, b) {
                        glance.add(y, d, 1.0);
                        of_col.add(y, d, weight);
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

    pub(super) fn total(&self) -> Sum {
        let total = |of: &dyn Fn(&Sum) -> f64| self.by_row.iter().map(of).sum::<f64>();
        Sum { error: total(&|row| row.error), energy: total(&|row| row.energy) }
    }

    fn row(&self, r: usize) -> Sum {
        Sum { energy: self.energies[r], ..self.by_row[r] }
    }

    /// What a column would have of the rows, whose energies are 1 there, if all had the same.
    pub(super) fn share(&self) -> f64 {
        self.by_row.len() as f64 / self.by_col.len() as f64
    }

    fn col(&self, c: usize) -> Sum {
        Sum { energy: self.by_col[c].energy.max(self.share() * 1e-6), ..self.by_col[c] }
    }

    /// The energy that a number of a row and a column has as a rule.
    pub(super) fn usual(&self, r: usize, c: usize) -> f64 {
        self.energies[r] * self.by_col[c].energy.max(self.share()) / self.by_row.len() as f64
    }

    /// Whether anything may be wrong, before anything is known of rounding.
    pub(super) fn is_suspicious(&self, limit: f64) -> bool {
        let (rows, cols) = (self.by_row.len(), self.by_col.len());
        self.drifts
            || self.total().ratio() > limit
            || (0..rows).any(|r| self.row(r).is_large(limit, cols))
            || (0..cols).any(|c| self.col(c).is_large(limit, rows))
            || self.number > limit * allowance(1.0)
    }
}
