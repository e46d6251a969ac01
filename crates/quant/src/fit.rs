//! Choosing scales: for values `x` with weights `w`, the levels and factors of least `Σ w (x - y)²`.
//!
//! A group's values become `y = a q` ([`symmetric`]) or `y = a q + o` ([`affine`]) with `q` of few levels.
//! Were `q` known, `a` and `o` would follow from linear least squares; were they known, each `q` would be
//! the level nearest. So a fit starts from several guesses of `a`, each of which costs one pass over the
//! group ([`Sums`](affine::Sums) say the error without another), and improves the best by turns until it
//! no longer gets better. Where the factors themselves are stored as small integers under one F16, the
//! integers are then chosen by the error that they cause, next to the one nearest, and the F16s by least
//! squares over the block.
//!
//! Everything is computed on values that a power of two brought near 1 ([`Unit`]), so that f32 suffices
//! for whatever is in the file. Loops run over arrays of fixed size with [`LANES`] sums apart: that is
//! what a compiler turns into vectors.

pub(crate) mod affine;
pub(crate) mod symmetric;

use crate::F16Le;

/// How many partial sums a pass keeps.
pub(crate) const LANES: usize = 8;

/// How often F16 scales are chosen again for the integer factors, and these for them. More gains next to nothing.
pub(crate) const ROUNDS: usize = 1;

/// The sum of the partial sums.
pub(crate) fn total(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// `v` between two limits, to the next integer. The limits are small enough for the trick: beyond 2^23
/// an f32 has no fraction.
#[inline(always)]
pub(crate) fn round_within(v: f32, low: f32, high: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    let v = if v > low { v } else { low };
    let v = if v < high { v } else { high };
    (v + SHIFT) - SHIFT
}

/// The number to multiply with instead of dividing; 0 for 0, which sends all values to level 0.
#[inline(always)]
pub(crate) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// A group of values, their weights and the products of both.
#[derive(Clone, Copy)]
pub(crate) struct Group<const K: usize> {
    pub(crate) x: [f32; K],
    pub(crate) w: [f32; K],
    pub(crate) wx: [f32; K],
}

impl<const K: usize> Group<K> {
    pub(crate) fn new(x: [f32; K], w: [f32; K]) -> Group<K> {
        Group { x, w, wx: std::array::from_fn(|i| x[i] * w[i]) }
    }

    /// The groups that a block consists of; `N` is `G * K`.
    pub(crate) fn split<const N: usize, const G: usize>(x: &[f32; N], w: &[f32; N]) -> [Group<K>; G] {
        let (x, w) = (x.as_chunks::<K>().0, w.as_chunks::<K>().0);
        std::array::from_fn(|g| Group::new(x[g], w[g]))
    }
}

/// The power of two that a block's values were divided by.
#[derive(Clone, Copy)]
pub(crate) struct Unit(f32);

/// An F16 and the number it is, in units.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Half {
    pub(crate) stored: F16Le,
    pub(crate) value: f32,
}

impl Unit {
    /// Brings the largest of the values between 1 and 2. Values that are less than any F16 become zeroes.
    pub(crate) fn of<const N: usize>(x: &[f32; N]) -> (Unit, [f32; N]) {
        const TINY: f32 = f32::from_bits((127 - 60) << 23);
        let largest = x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest });
        if largest < TINY {
            return (Unit(1.0), [0.0; N]);
        }
        let unit = f32::from_bits(largest.to_bits() & 0xFF << 23);
        let shrink = 1.0 / unit;
        (Unit(unit), x.map(|x| x * shrink))
    }

    /// The F16 nearest to so many units; the largest there is instead of infinity.
    pub(crate) fn half(self, units: f32) -> Half {
        let stored = F16Le::nearest(units * self.0);
        Half { stored, value: stored.to_f32() / self.0 }
    }

    /// A mean of squares in squares of units.
    pub(crate) fn square_of(self, mean: f64) -> f32 {
        let unit = f64::from(self.0);
        (mean / unit / unit).min(1e30) as f32
    }
}
