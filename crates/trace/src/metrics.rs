//! The distance of two matrices.

use serde::Serialize;

use crate::Matrix;

/// The distance of a matrix from its reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Normalised mean squared error: `sum (a - b)^2 / sum a^2`; infinite (`null` in JSON) where only one side is finite.
    pub nmse: f64,
    /// Cosine of the angle between them, as vectors.
    pub cosine: f64,
    pub largest: Largest,
    /// Elements that are NaN or infinite and differ from the reference.
    pub not_finite: usize,
}

/// The largest `|a - b|` and its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Largest {
    pub difference: f64,
    pub position: usize,
    pub column: usize,
}

/// The sums of [`Metrics`], over rows in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measure {
    error: f64,
    energy: f64,
    found_energy: f64,
    product: f64,
    largest: Largest,
    not_finite: usize,
}

impl Measure {
    /// Adds rows from `first` on, in matrices of one shape.
    pub(crate) fn add(&mut self, first: usize, reference: &Matrix, found: &Matrix) {
        for (i, (&a, &b)) in reference.data.iter().zip(&found.data).enumerate() {
            let difference = difference(a, b);
            if difference > self.largest.difference {
                let (position, column) = (first + i / reference.cols, i % reference.cols);
                self.largest = Largest { difference, position, column };
            }
            if difference.is_infinite() {
                self.not_finite += 1;
            } else if a.is_finite() {
                let (a, b) = (f64::from(a), f64::from(b));
                self.error += difference * difference;
                self.energy += a * a;
                self.found_energy += b * b;
                self.product += a * b;
            }
        }
    }

    pub(crate) fn metrics(self) -> Metrics {
        let Measure { error, energy, found_energy, product, largest, not_finite } = self;
        let nmse = if not_finite > 0 { f64::INFINITY } else { ratio(error, energy) };
        let cosine = if energy == found_energy && error == 0.0 {
            1.0
        } else if energy == 0.0 || found_energy == 0.0 {
            0.0
        } else {
            product / (energy.sqrt() * found_energy.sqrt())
        };
        Metrics { nmse, cosine, largest, not_finite }
    }
}

/// `|a - b|`: 0 when both are the same infinity or both NaN, infinite when only one is a number.
pub(crate) fn difference(a: f32, b: f32) -> f64 {
    if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
        0.0
    } else if a.is_finite() && b.is_finite() {
        (f64::from(a) - f64::from(b)).abs()
    } else {
        f64::INFINITY
    }
}

/// An error relative to an energy; 0 if there is no error, even without energy.
pub(crate) fn ratio(error: f64, energy: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / energy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(a: &[f32], b: &[f32]) -> Metrics {
        let mut measure = Measure::default();
        a.chunks(2).zip(b.chunks(2)).enumerate().for_each(|(row, (a, b))| {
            measure.add(row, &Matrix::new(2, a.to_vec()), &Matrix::new(2, b.to_vec()));
        });
        measure.metrics()
    }

    /// By hand: differences 0, 1, 0, 2; energy 1 + 4 + 9 + 16 = 30; product 1 + 6 + 9 + 8 = 24.
    #[test]
    fn by_hand() {
        let found = of(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 3.0, 2.0]);
        assert_eq!(found.nmse, 5.0 / 30.0);
        assert_eq!(found.largest, Largest { difference: 2.0, position: 1, column: 1 });
        assert!((found.cosine - 24.0 / (30.0f64 * 23.0).sqrt()).abs() < 1e-12);
        assert_eq!(found.not_finite, 0);
    }

    #[test]
    fn what_is_no_number_is_never_near() {
        let found = of(&[1.0, 2.0], &[1.0, f32::NAN]);
        assert_eq!((found.nmse, found.not_finite, found.largest.column), (f64::INFINITY, 1, 1));
        let same = of(&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY]);
        assert_eq!((same.nmse, same.not_finite), (0.0, 0));
        assert_eq!(of(&[0.0, 0.0], &[0.0, 0.0]).nmse, 0.0);
        assert_eq!(of(&[0.0, 0.0], &[0.0, 1.0]).nmse, f64::INFINITY);
    }
}
