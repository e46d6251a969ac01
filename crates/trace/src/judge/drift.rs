//! Error with a bias, a gain or an offset, far within the limit.
//!
//! Rounding errors have both signs, so over many elements `sum y d` and `sum d`, for results `y` with errors `d`, stay within a few
//! of their standard errors. A matmul that is too small by 1.5 % has an NMSE of 2e-4, less than rounding to 8 bits may cost, but is
//! a hundred standard errors away. A bias that follows from rounding the same inputs is permitted.

use super::rounding::WAYS;

/// Standard errors that are permitted: none of the thousands of rows and columns of a model's values reaches them.
const STANDARD_ERRORS: f64 = 8.0;

/// The gain that is permitted: engines keep the scale of a block of rounded inputs in F16, off by up to 2^-11.
const GAIN: f64 = 1.0 / 1024.0;

/// The factor by which an engine's rounding may exceed the one computed here.
const SPARE: f64 = 1.5;

/// The sums `sum y d` and `sum d`, and what is expected of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drift {
    sums: [f64; 2],
    /// Expected squares of the sums.
    pub(super) variance: [f64; 2],
    /// What each way of rounding adds to the sums.
    pub(super) added: [[f64; WAYS]; 2],
    error: f64,
    energy: f64,
    weight: f64,
    numbers: f64,
}

impl Drift {
    /// Adds a result `y` with error `d`, times `weight`; rounding has the squared error `square`.
    pub(super) fn add(&mut self, (y, d): (f64, f64), added: [f64; WAYS], square: f64, weight: f64) {
        for (i, along) in [y, 1.0].into_iter().enumerate() {
            self.sums[i] += weight * along * d;
            self.variance[i] += (weight * along).powi(2) * square;
            self.added[i].iter_mut().zip(added).for_each(|(sum, added)| *sum += weight * along * added);
        }
        self.error += weight * d * d;
        self.energy += weight * y * y;
        self.weight += weight;
        self.numbers += 1.0;
    }

    /// Adds the sums of other elements, times `weight`, whose errors are independent.
    pub(super) fn join(&mut self, other: &Drift, weight: f64) {
        for i in 0..2 {
            self.sums[i] += weight * other.sums[i];
            self.variance[i] += weight * weight * other.variance[i];
            (0..WAYS).for_each(|way| self.added[i][way] += weight * other.added[i][way]);
        }
        self.error += weight * other.error;
        self.energy += weight * other.energy;
        self.weight += weight * other.weight;
        self.numbers += other.numbers;
    }

    /// `sum y^2` and `sum 1`.
    pub(super) fn along(&self) -> [f64; 2] {
        [self.energy, self.weight]
    }

    fn usual(&self) -> [f64; 2] {
        [self.energy, (self.energy * self.weight).sqrt()]
    }

    /// Each sum relative to the largest permitted one.
    fn parts(&self) -> [f64; 2] {
        let usual = self.usual();
        [0, 1].map(|i| {
            let added = self.added[i].iter().fold(0.0f64, |most, added| most.max(added.abs()));
            let most = STANDARD_ERRORS * self.variance[i].sqrt() + SPARE * added + GAIN * usual[i];
            if self.sums[i] == 0.0 { 0.0 } else { self.sums[i].abs() / most }
        })
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.parts().into_iter().any(|part| part > 1.0)
    }

    /// Whether it may be wrong, judged by the variance of the errors, before rounding is computed.
    pub(super) fn is_suspicious(&self) -> bool {
        let usual = self.usual();
        self.along().into_iter().enumerate().any(|(i, along)| {
            let sum = self.sums[i].abs();
            let variance = (self.error - sum * sum / along).max(0.0) * along / (self.numbers - 1.0).max(1.0);
            sum > GAIN * usual[i] && sum > 5.0 * variance.sqrt()
        })
    }
}

/// Which slices drift; `whole` is the drift of all. If some do, so does every slice nearer to these than to no drift.
pub(super) fn wrong<'a>(slices: impl Iterator<Item = &'a Drift> + Clone, whole: &Drift) -> Vec<bool> {
    let mut all = Drift::default();
    let is_wrong: Vec<bool> = slices.clone().map(Drift::is_wrong).collect();
    slices.clone().zip(&is_wrong).filter(|(_, wrong)| **wrong).for_each(|(slice, _)| all.join(slice, 1.0));
    if !is_wrong.contains(&true) {
        if !whole.is_wrong() {
            return is_wrong;
        }
        all = *whole;
    }
    let [along, offset] = all.parts();
    let i = usize::from(offset > along);
    let level = all.sums[i] / all.usual()[i];
    let is_like = |slice: &Drift| {
        let usual = slice.usual()[i];
        let (own, error) = (slice.sums[i] / usual, slice.variance[i].sqrt() / usual);
        if usual == 0.0 || level.abs() < 4.0 * error { whole.is_wrong() } else { own / level > 0.5 }
    };
    slices.zip(is_wrong).map(|(slice, is_wrong)| is_wrong || is_like(slice)).collect()
}
