//! Activations of 8 bits: what quantised weights are multiplied with.

/// 32 activations: `x = scale * q`, rounded to the nearest, `scale` a 127th of the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub(crate) struct Q8 {
    pub(crate) q: [i8; 32],
    pub(crate) scale: f32,
    /// `scale` times the sum of `q` in each half: what a weight's offset is multiplied by.
    pub(crate) sums: [f32; 2],
}

impl Q8 {
    /// Quantises 32 activations.
    ///
    /// Activations that are not finite cannot be quantised; the scale then is NaN, so that the result
    /// shows it.
    pub(crate) fn new(x: &[f32; 32]) -> Q8 {
        let largest = x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
        if x.iter().any(|x| !x.is_finite()) {
            return Q8 { scale: f32::NAN, sums: [f32::NAN; 2], ..Q8::default() };
        }
        let scale = largest / 127.0;
        let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
        let q = x.map(|x| round(x * inverse));
        let sum = |half: &[i8]| scale * half.iter().map(|&q| i32::from(q)).sum::<i32>() as f32;
        Q8 { q, scale, sums: [sum(&q[..16]), sum(&q[16..])] }
    }
}

/// To the nearest integer, ties to even. Adding 1.5 * 2^23 leaves no bits for a fraction; unlike
/// `f32::round_ties_even` it needs no instruction that a baseline processor lacks.
fn round(x: f32) -> i8 {
    const SHIFT: f32 = 12_582_912.0;
    ((x + SHIFT) - SHIFT) as i8
}

/// Quantises a row whose length is a multiple of 32.
pub(crate) fn quantize(x: &[f32], out: &mut [Q8]) {
    for (x, out) in x.as_chunks().0.iter().zip(out) {
        *out = Q8::new(x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_at_most_half_a_step() {
        let x: [f32; 32] = std::array::from_fn(|i| ((i * 37 + 11) % 101) as f32 * 0.37 - 17.0);
        let q8 = Q8::new(&x);
        let largest = x.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        assert_eq!(q8.scale, largest / 127.0);
        for (x, q) in x.iter().zip(q8.q) {
            assert!((x - q8.scale * f32::from(q)).abs() <= q8.scale * 0.5001);
        }
        let half: i32 = q8.q[16..].iter().map(|&q| i32::from(q)).sum();
        assert_eq!(q8.sums[1], q8.scale * half as f32);
    }

    #[test]
    fn zeros_and_tiny_values_do_not_divide_by_zero() {
        assert_eq!(Q8::new(&[0.0; 32]), Q8::default());
        let tiny = Q8::new(&[f32::from_bits(1); 32]);
        assert!(tiny.scale.is_finite() && tiny.sums.iter().all(|sum| sum.is_finite()));
    }

    #[test]
    fn what_is_not_finite_stays_visible() {
        let mut x = [1.0; 32];
        x[5] = f32::INFINITY;
        assert!(Q8::new(&x).scale.is_nan());
    }
}
