//! Scale search: for values `x` with weights `w`, the levels and scales with the least `Σ w (x - y)²`.
//!
//! A group is approximated by `y = a q` ([`symmetric`]) or `y = a q + o` ([`affine`]) with integer levels `q` in a small
//! range. Given `q`, linear least squares yields `a` and `o`; given `a` and `o`, each `q` is the nearest level. The
//! search tries several initial `a`, one pass over the group each ([`Sums`](affine::Sums) yields the error without a
//! second pass), then refines the best by alternating the two until the error stops decreasing. In formats with integer
//! scales under one F16 scale, each integer is then chosen among the neighbours of the nearest by the error it causes,
//! and the F16 scale by least squares over the block.
//!
//! Values are first divided by a power of two so that they are near 1 ([`Unit`]); f32 then has enough range for any
//! input. Loops run over fixed-size arrays with [`LANES`] partial sums, which compilers vectorise.

pub(crate) mod affine;
pub(crate) mod grid;
pub(crate) mod symmetric;

use crate::F16Le;

pub(crate) const LANES: usize = 8;

/// Refinement rounds of F16 and integer scales. More than one gains next to nothing.
pub(crate) const ROUNDS: usize = 1;

/// Sums the lanes pairwise.
pub(crate) fn total(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Clamps `v` and rounds it to the nearest integer. Adding and subtracting 1.5 * 2^23 rounds, because an f32 of that
/// magnitude has no fraction; the limits must be small compared with it.
#[inline(always)]
pub(crate) fn round_within(v: f32, low: f32, high: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    let v = if v > low { v } else { low };
    let v = if v < high { v } else { high };
    (v + SHIFT) - SHIFT
}

/// `1 / scale`, or 0 for a scale of 0, which maps all values to level 0.
#[inline(always)]
pub(crate) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Values `x` of a group, their weights `w`, and `w * x`.
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

    /// Splits a block of `N = G * K` values into its groups.
    pub(crate) fn split<const N: usize, const G: usize>(x: &[f32; N], w: &[f32; N]) -> [Group<K>; G] {
        let (x, w) = (x.as_chunks::<K>().0, w.as_chunks::<K>().0);
        std::array::from_fn(|g| Group::new(x[g], w[g]))
    }
}

/// The power of two by which a block's values are normalised.
#[derive(Clone, Copy)]
pub(crate) struct Unit(f32);

/// An F16 scale, and its value in multiples of the block's [`Unit`].
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct F16Scale {
    pub(crate) stored: F16Le,
    pub(crate) value: f32,
}

impl Unit {
    /// Normalises `x`, so that the largest magnitude is in [1, 2). Blocks below the F16 range become zero.
    pub(crate) fn normalise<const N: usize>(x: &[f32; N]) -> (Unit, [f32; N]) {
        const TINY: f32 = f32::from_bits((127 - 60) << 23);
        let largest = x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest });
        if largest < TINY {
            return (Unit(1.0), [0.0; N]);
        }
        let unit = f32::from_bits(largest.to_bits() & 0xFF << 23);
        let shrink = 1.0 / unit;
        (Unit(unit), x.map(|x| x * shrink))
    }

    pub(crate) fn exponent(self) -> i32 {
        (self.0.to_bits() >> 23) as i32 - 127
    }

    /// Rounds `units` to the nearest F16 scale, saturating to the largest finite one.
    pub(crate) fn f16_scale(self, units: f32) -> F16Scale {
        let stored = F16Le::nearest(units * self.0);
        F16Scale { stored, value: stored.to_f32() / self.0 }
    }

    /// Converts a mean square to multiples of the squared unit.
    pub(crate) fn normalise_square(self, mean: f64) -> f32 {
        let unit = f64::from(self.0);
        (mean / unit / unit).min(1e30) as f32
    }
}
