//! Sums of square errors, and how large they may be.

use super::Rounding;
use crate::Matrix;
use crate::metrics::{difference, ratio};

/// How much more than the limit the mean of the squares of `n` numbers may show.
pub(super) fn allowance(n: f64) -> f64 {
    let n = n.max(1.0);
    1.0 + 6.0 * (2.0 / n).sqrt() + 20.0 / n
}

/// An error and the energy it is relative to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) error: f64,
    pub(super) energy: f64,
}

impl Sum {
    /// Takes in a number that should be `a` and is `b`, times `weight`.
    pub(super) fn add(&mut self, a: f32, b: f32, weight: f64) {
        self.error += weight * difference(a, b).powi(2);
        self.energy += if a.is_finite() { weight * f64::from(a).powi(2) } else { 0.0 };
    }

    pub(super) fn ratio(self) -> f64 {
        ratio(self.error, self.energy)
    }

    /// Whether it is beyond the limit for `n` numbers.
    pub(super) fn is_large(self, limit: f64, n: usize) -> bool {
        self.ratio() > limit * allowance(n as f64)
    }
}

/// What is expected of numbers together: the sum of their square errors, and that of its squares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    sum: f64,
    squares: f64,
}

impl Slice {
    /// Takes in a number whose square error is expected to be `x`.
    pub(super) fn add(&mut self, x: f64) {
        self.sum += x;
        self.squares += x * x;
    }

    /// The largest error that is no fault. A few numbers may make up most of it, and then it strays as that
    /// of few.
    pub(super) fn most(self) -> f64 {
        if self.squares > 0.0 { 2.0 * self.sum * allowance(self.sum * self.sum / self.squares) } else { 0.0 }
    }
}

/// Some columns of a row: the error, and what is expected of it.
pub(super) fn part_of_row(
    (expected, found, rounding): (&Matrix, &Matrix, &Rounding),
    row: usize,
    cols: impl Iterator<Item = usize>,
) -> (Sum, Slice) {
    let (mut sum, mut slice) = (Sum::default(), Slice::default());
    for c in cols {
        sum.add(expected.at(row, c), found.at(row, c), 1.0);
        slice.add(rounding.usual(row, c));
    }
    (sum, slice)
}

/// What a number should be and its error, where both are numbers.
pub(super) fn finite(a: f32, b: f32) -> Option<(f64, f64)> {
    (a.is_finite() && b.is_finite()).then(|| (f64::from(a), f64::from(b) - f64::from(a)))
}
