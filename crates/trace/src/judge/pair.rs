//! Compares a value with its expectation: sums over rows and columns, and which of them exceed their limits.

use super::drift::{self, Drift};
use super::region::{self, Region};
use super::rounding::{NONE, ROWS, Rounding};
use crate::Matrix;
use crate::metrics::{difference, ratio};

/// The part of the limit within which right rows usually are.
const USUAL: f64 = 1.0 / 16.0;

#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) expected: &'a Matrix,
    pub(crate) found: &'a Matrix,
    pub(crate) limit: f64,
    pub(crate) rounding: Option<&'a Rounding>,
    /// Whether a bias within the limit is wrong: in a matmul whose inputs were recorded.
    pub(crate) is_directed: bool,
}

struct Sums {
    rows: Vec<Slice>,
    cols: Vec<Slice>,
    whole: Slice,
}

impl<'a> Pair<'a> {
    pub(crate) fn plain(expected: &'a Matrix, found: &'a Matrix, limit: f64) -> Pair<'a> {
        Pair { expected, found, limit, rounding: None, is_directed: false }
    }

    fn error(&self, r: usize, c: usize) -> f64 {
        difference(self.expected.at(r, c), self.found.at(r, c)).powi(2)
    }

    fn rounding(&self) -> &Rounding {
        self.rounding.unwrap_or(&NONE)
    }

    /// The squared error that rounding explains of an element in a column.
    fn usual_square(&self, r: usize, c: usize) -> f64 {
        self.rounding().square(r, c).max(self.rounding().usual(r, c))
    }

    /// Sums over `rows`, which have these `weights` in a column.
    fn sums(&self, rows: &[usize], weights: &[f64]) -> Sums {
        let cols = self.found.cols;
        let slices = |count| vec![Slice::default(); count];
        let mut sums = Sums { rows: slices(rows.len()), cols: slices(cols), whole: Slice::default() };
        for (i, &r) in rows.iter().enumerate() {
            for (c, col) in sums.cols.iter_mut().enumerate() {
                let (y, error, rounding) =
                    (self.expected.at(r, c), self.error(r, c), self.rounding().square(r, c));
                sums.rows[i].add(y, error, rounding, 1.0);
                sums.whole.add(y, error, rounding, 1.0);
                col.add(y, error, self.usual_square(r, c), weights[r]);
            }
        }
        if self.is_directed {
            self.drifts(&mut sums, rows, weights);
        }
        sums
    }

    /// Adds the sums that show a bias. The elements of a row share its inputs' errors, so the variance comes from rounded rows.
    fn drifts(&self, sums: &mut Sums, rows: &[usize], weights: &[f64]) {
        let cols = self.found.cols;
        let is_new: Vec<bool> = (0..rows.len())
            .map(|i| (0..i).all(|j| self.expected.row(rows[j]) != self.expected.row(rows[i])))
            .collect();
        let mut aligned = [0.0; 2];
        for (i, &r) in rows.iter().enumerate() {
            for c in 0..cols {
                let (y, found) = (self.expected.at(r, c), self.found.at(r, c));
                if !(y.is_finite() && found.is_finite()) {
                    continue;
                }
                let number = (f64::from(y), f64::from(found) - f64::from(y));
                let added = self.rounding().at(r, c);
                sums.rows[i].drift.add(number, added, 0.0, 1.0);
                if is_new[i] {
                    sums.cols[c].drift.add(number, added, self.rounding().usual(r, c), weights[r]);
                }
            }
            let drift = &sums.rows[i].drift;
            for along in (0..2).filter(|_| is_new[i]) {
                let squares: f64 = drift.added[along].iter().map(|added| added * added).sum();
                aligned[along] += ratio(squares / 2.0, drift.along()[along] * sums.rows[i].rounding);
            }
        }
        let new = is_new.iter().filter(|new| **new).count() as f64;
        // The mean of few is less certain.
        let part = aligned.map(|sum| (sum / new).max(1.0 / cols as f64) * (1.0 + 8.0 / new));
        for (i, Slice { drift, rounding, .. }) in sums.rows.iter_mut().enumerate() {
            drift.variance = [0, 1].map(|along| part[along] * drift.along()[along] * *rounding);
            if is_new[i] {
                sums.whole.drift.join(drift, weights[rows[i]]);
            }
        }
    }

    pub(crate) fn is_suspicious(&self) -> bool {
        self.found.rows >= ROWS && self.is_directed && {
            let (rows, weights, _) = self.weights();
            let sums = self.sums(&rows, &weights);
            let mut slices = sums.rows.iter().chain(&sums.cols).chain([&sums.whole]);
            slices.any(|slice| slice.drift.is_suspicious())
        }
    }

    /// All rows, the weight of each in a column, and its energy, at least a millionth of the mean: near zeros say nothing.
    fn weights(&self) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let rows: Vec<usize> = (0..self.found.rows).collect();
        let energy = |&r: &usize| {
            let finite = self.expected.row(r).iter().filter(|x| x.is_finite());
            finite.map(|&x| f64::from(x).powi(2)).sum::<f64>()
        };
        let energies: Vec<f64> = rows.iter().map(energy).collect();
        let floor = energies.iter().sum::<f64>() / energies.len() as f64 * 1e-6;
        let energies: Vec<f64> = energies.into_iter().map(|energy| energy.max(floor)).collect();
        let weights = energies.iter().map(|&energy| if energy > 0.0 { 1.0 / energy } else { 1.0 }).collect();
        (rows, weights, energies)
    }

    /// Where the rows are wrong; `None` when they are right.
    pub(crate) fn wrong(&self) -> Option<Region> {
        let pair = Pair { is_directed: self.is_directed && self.found.rows >= ROWS, ..*self };
        let (n, cols) = (self.found.rows, self.found.cols);
        let (all, weights, energies) = self.weights();
        let sums = pair.sums(&all, &weights);
        // The energy of a column if all had the same; that of each row is 1 there.
        let share = n as f64 / cols as f64;
        // The usual energy of an element.
        let usual = |r: usize, c: usize| energies[r] * sums.cols[c].energy.max(share) / n as f64;
        let mut bad_rows = drift::wrong(sums.rows.iter().map(|row| &row.drift), &sums.whole.drift);
        let mut bad_cols = vec![false; cols];
        for r in 0..n {
            bad_rows[r] |= sums.rows[r].with_energy(energies[r]).is_wrong(self.limit);
            for (c, bad_col) in bad_cols.iter_mut().enumerate() {
                let mut number = Slice::default();
                number.add(self.expected.at(r, c), self.error(r, c), self.usual_square(r, c), 1.0);
                if number.with_energy(usual(r, c)).is_wrong(self.limit) {
                    (bad_rows[r], *bad_col) = (true, true);
                }
            }
        }
        let by_numbers = bad_cols.clone();
        mark(&mut bad_cols, &sums, self.limit, |_| share * 1e-6);
        let is_wrong = sums.whole.is_wrong(self.limit) || sums.whole.drift.is_wrong();
        let wrong_rows: Vec<usize> = (0..n).filter(|&r| bad_rows[r]).collect();
        if !is_wrong && wrong_rows.is_empty() && !bad_cols.contains(&true) {
            return None;
        }
        // Where some rows are wrong, only they show which columns are.
        if !wrong_rows.is_empty() && wrong_rows.len() < n {
            bad_cols = by_numbers;
            let part = wrong_rows.len() as f64 / n as f64;
            let least = |c: usize| part * sums.cols[c].energy.max(share);
            mark(&mut bad_cols, &pair.sums(&wrong_rows, &weights), self.limit, least);
        }
        let wrong_cols = region::cols(&bad_cols);
        let row = |r: usize| {
            let (mut slice, mut least) = (Slice::default(), 0.0);
            for &c in &wrong_cols {
                slice.add(self.expected.at(r, c), self.error(r, c), self.rounding().square(r, c), 1.0);
                least += usual(r, c);
            }
            slice.with_energy(least)
        };
        let slices: Vec<Slice> = (0..n).map(row).collect();
        let wrong: Vec<bool> = (0..n).map(|r| bad_rows[r] || slices[r].is_wrong(self.limit)).collect();
        let open: Vec<bool> = slices.iter().map(|row| row.is_wrong(self.limit * USUAL)).collect();
        Some(Region { rows: region::rows(&wrong, &open, wrong_cols.len()), cols: wrong_cols })
    }
}

/// Marks the wrong columns; each has an energy of at least `least`.
fn mark(bad: &mut [bool], sums: &Sums, limit: f64, least: impl Fn(usize) -> f64) {
    let drifts = drift::wrong(sums.cols.iter().map(|col| &col.drift), &sums.whole.drift);
    for (c, bad) in bad.iter_mut().enumerate() {
        *bad |= drifts[c] || sums.cols[c].with_energy(least(c)).is_wrong(limit);
    }
}

/// The factor by which the mean of `n` squares may exceed the limit.
fn allowance(n: f64) -> f64 {
    let n = n.max(1.0);
    1.0 + 6.0 * (2.0 / n).sqrt() + 20.0 / n
}

/// Sums over the elements of a row or column: squared errors, squares, and the errors that rounding explains.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    numbers: usize,
    error: f64,
    energy: f64,
    /// The squared errors of rounding, and the sum of their squares.
    rounding: f64,
    squares: f64,
    drift: Drift,
}

impl Slice {
    /// Adds an element `y` with its squared error and that of rounding, times `weight`.
    fn add(&mut self, y: f32, error: f64, rounding: f64, weight: f64) {
        self.numbers += 1;
        self.error += weight * error;
        self.energy += if y.is_finite() { weight * f64::from(y).powi(2) } else { 0.0 };
        self.rounding += weight * rounding;
        self.squares += (weight * rounding).powi(2);
    }

    /// The same with an energy of at least `least`.
    fn with_energy(self, least: f64) -> Slice {
        Slice { energy: self.energy.max(least), ..self }
    }

    /// Whether its error exceeds the limit and twice what rounding explains, which varies as that of few if few make up most.
    fn is_wrong(&self, limit: f64) -> bool {
        let few = if self.squares > 0.0 { self.rounding * self.rounding / self.squares } else { 1.0 };
        self.error > limit * allowance(self.numbers as f64) * self.energy
            && self.error > 2.0 * allowance(few) * self.rounding
    }
}
