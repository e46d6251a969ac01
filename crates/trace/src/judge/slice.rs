//! Sums over a row or a column, and how large its error may be.

/// How much more than the limit the mean of the squares of `n` numbers may show.
fn allowance(n: f64) -> f64 {
    let n = n.max(1.0);
    1.0 + 6.0 * (2.0 / n).sqrt() + 20.0 / n
}

/// Some numbers: their errors, what these are relative to, and what rounding explains of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    numbers: usize,
    pub(super) error: f64,
    pub(super) energy: f64,
    /// The square errors that rounding makes, and the sum of their squares.
    pub(super) rounding: f64,
    squares: f64,
}

impl Slice {
    /// Takes in a number `y` with a square error, times `weight`; rounding has the square error `rounding`.
    pub(super) fn add(&mut self, y: f32, error: f64, rounding: f64, weight: f64) {
        self.numbers += 1;
        self.error += weight * error;
        self.energy += if y.is_finite() { weight * f64::from(y).powi(2) } else { 0.0 };
        self.rounding += weight * rounding;
        self.squares += (weight * rounding).powi(2);
    }

    /// Both together.
    pub(super) fn joined(self, other: &Slice) -> Slice {
        Slice {
            numbers: self.numbers + other.numbers,
            error: self.error + other.error,
            energy: self.energy + other.energy,
            rounding: self.rounding + other.rounding,
            squares: self.squares + other.squares,
        }
    }

    /// The same beside an energy that is `least` at least.
    pub(super) fn beside(self, least: f64) -> Slice {
        Slice { energy: self.energy.max(least), ..self }
    }

    /// Whether its error is larger than it may be: beyond the limit, and more than twice what rounding explains. A few
    /// numbers may make up most of that, and then it strays as that of few.
    pub(super) fn is_wrong(&self, limit: f64) -> bool {
        let few = if self.squares > 0.0 { self.rounding * self.rounding / self.squares } else { 1.0 };
        self.error > limit * allowance(self.numbers as f64) * self.energy
            && self.error > 2.0 * allowance(few) * self.rounding
    }
}
