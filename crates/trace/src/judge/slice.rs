//! The error of a row or column, and how large it may be.

use super::drift::Drift;

/// The factor by which the mean of `n` squares may exceed the limit.
fn allowance(n: f64) -> f64 {
    let n = n.max(1.0);
    1.0 + 6.0 * (2.0 / n).sqrt() + 20.0 / n
}

/// Sums over the elements of a row or column: squared errors, squares, and the errors that rounding explains.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    numbers: usize,
    pub(super) error: f64,
    pub(super) energy: f64,
    /// The squared errors of rounding, and the sum of their squares.
    pub(super) rounding: f64,
    squares: f64,
    pub(super) drift: Drift,
}

impl Slice {
    /// Adds an element `y` with its squared error and that of rounding, times `weight`.
    pub(super) fn add(&mut self, y: f32, error: f64, rounding: f64, weight: f64) {
        self.numbers += 1;
        self.error += weight * error;
        self.energy += if y.is_finite() { weight * f64::from(y).powi(2) } else { 0.0 };
        self.rounding += weight * rounding;
        self.squares += (weight * rounding).powi(2);
    }

    /// The same with an energy of at least `least`.
    pub(super) fn with_energy(self, least: f64) -> Slice {
        Slice { energy: self.energy.max(least), ..self }
    }

    /// Whether its error exceeds the limit and twice what rounding explains. Where a few elements make up most of the
    /// rounding, it varies as that of few.
    pub(super) fn is_wrong(&self, limit: f64) -> bool {
        let few = if self.squares > 0.0 { self.rounding * self.rounding / self.squares } else { 1.0 };
        self.error > limit * allowance(self.numbers as f64) * self.energy
            && self.error > 2.0 * allowance(few) * self.rounding
    }
}
