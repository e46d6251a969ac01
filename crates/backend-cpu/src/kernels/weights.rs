//! Quantised weights as every kernel sees them: groups of 32 small integers.
//!
//! A block of any quantised format is `G` groups of 32 weights, and a weight of group `g` is
//! `scale * q + offset` with `q` an `i8`; scale and offset belong to one half of the group (16
//! weights). With activations of 8 bits, a group then costs one integer dot product and two
//! floating-point products, whatever the format. This file says what scales, offsets and integers
//! are; `avx2/quants.rs` unpacks the same integers with vector instructions.

use quant::*;

/// One number for each half of each of `G` groups.
pub(crate) type Halves<const G: usize> = [[f32; 2]; G];

/// A block of `G` groups of 32 weights.
pub(crate) trait Groups<const G: usize>: Copy {
    /// Whether all integers are at least 0, so that bytes can be read unsigned.
    const UNSIGNED: bool;

    /// Whether weights have offsets.
    const OFFSETS: bool;

    /// Scales and offsets; `wide` turns an F16 into an f32. Without [`Self::OFFSETS`] the latter are 0.
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<G>, Halves<G>);

    /// The integers of group `group`, in order.
    fn quants(&self, group: usize) -> [i8; 32];
}

/// The bytes of `bytes`, low nibbles first, then high nibbles.
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| bytes[i % 16] >> (i / 16 * 4) & 15)
}

/// Bit `i` of a little-endian word, moved to bit 4.
fn fifth_bit(qh: [u8; 4], i: usize) -> u8 {
    (qh[i / 8] >> (i % 8) & 1) << 4
}

/// 32 bytes from `at` on, shifted and masked.
fn bits(bytes: &[u8], at: usize, shift: usize, mask: u8) -> [u8; 32] {
    std::array::from_fn(|i| bytes[at + i] >> shift & mask)
}

/// One number for each group of 16, times `d`.
fn of_16<T: Copy + Into<f32>>(d: f32, numbers: [T; 16]) -> Halves<8> {
    std::array::from_fn(|g| [d * numbers[2 * g].into(), d * numbers[2 * g + 1].into()])
}

/// One number for each group of 32, times `d`.
fn of_32<T: Copy + Into<f32>>(d: f32, numbers: [T; 8]) -> Halves<8> {
    numbers.map(|number| [d * number.into(); 2])
}

impl Groups<1> for BlockQ4_0 {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[0.0; 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        nibbles(&self.qs).map(|q| q as i8 - 8)
    }
}

impl Groups<1> for BlockQ4_1 {
    const UNSIGNED: bool = true;
    const OFFSETS: bool = true;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[wide(self.m); 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        nibbles(&self.qs).map(|q| q as i8)
    }
}

impl Groups<1> for BlockQ5_0 {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[0.0; 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        let low = nibbles(&self.qs);
        std::array::from_fn(|i| (low[i] | fifth_bit(self.qh, i)) as i8 - 16)
    }
}

impl Groups<1> for BlockQ5_1 {
    const UNSIGNED: bool = true;
    const OFFSETS: bool = true;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[wide(self.m); 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        let low = nibbles(&self.qs);
        std::array::from_fn(|i| (low[i] | fifth_bit(self.qh, i)) as i8)
    }
}

impl Groups<1> for BlockQ8_0 {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[0.0; 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        self.qs
    }
}

impl Groups<8> for BlockQ2_K {
    const UNSIGNED: bool = true;
    const OFFSETS: bool = true;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let scales = of_16(wide(self.d), self.scales.map(|s| s & 15));
        (scales, of_16(-wide(self.dmin), self.scales.map(|s| s >> 4)))
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        bits(&self.qs, group / 4 * 32, group % 4 * 2, 3).map(|q| q as i8)
    }
}

impl Groups<8> for BlockQ3_K {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (of_16(wide(self.d), self.scales()), [[0.0; 2]; 8])
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        let low = bits(&self.qs, group / 4 * 32, group % 4 * 2, 3);
        let high = bits(&self.hmask, 0, group, 1);
        std::array::from_fn(|i| (low[i] | high[i] << 2) as i8 - 4)
    }
}

impl Groups<8> for BlockQ4_K {
    const UNSIGNED: bool = true;
    const OFFSETS: bool = true;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let (scales, mins) = self.scales_mins();
        (of_32(wide(self.d), scales), of_32(-wide(self.dmin), mins))
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        bits(&self.qs, group / 2 * 32, group % 2 * 4, 15).map(|q| q as i8)
    }
}

impl Groups<8> for BlockQ5_K {
    const UNSIGNED: bool = true;
    const OFFSETS: bool = true;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let (scales, mins) = self.scales_mins();
        (of_32(wide(self.d), scales), of_32(-wide(self.dmin), mins))
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        let low = bits(&self.qs, group / 2 * 32, group % 2 * 4, 15);
        let high = bits(&self.qh, 0, group, 1);
        std::array::from_fn(|i| (low[i] | high[i] << 4) as i8)
    }
}

impl Groups<8> for BlockQ6_K {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (of_16(wide(self.d), self.scales), [[0.0; 2]; 8])
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        let (half, part) = (group / 4, group % 4);
        let low = bits(&self.ql, half * 64 + part % 2 * 32, part / 2 * 4, 15);
        let high = bits(&self.qh, half * 32, part * 2, 3);
        std::array::from_fn(|i| (low[i] | high[i] << 4) as i8 - 32)
    }
}

impl Groups<1> for BlockIQ4_NL {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[0.0; 2]])
    }
    fn quants(&self, _: usize) -> [i8; 32] {
        nibbles(&self.qs).map(|q| IQ4_VALUES[usize::from(q)])
    }
}

impl Groups<8> for BlockIQ4_XS {
    const UNSIGNED: bool = false;
    const OFFSETS: bool = false;
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (of_32(wide(self.d), self.scales()), [[0.0; 2]; 8])
    }
    fn quants(&self, group: usize) -> [i8; 32] {
        nibbles(&self.qs[group]).map(|q| IQ4_VALUES[usize::from(q)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scale * q + offset` is what the format's own dequantisation gives, up to one rounding.
    fn agrees<B: Block<N> + Groups<G>, const N: usize, const G: usize>() {
        let mut state = 7u64;
        for _ in 0..50 {
            let mut bytes = vec![0u8; size_of::<B>()];
            for byte in &mut bytes {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *byte = (state >> 56) as u8;
            }
            let block = B::slice(&bytes)[0];
            let exact = block.dequantize();
            let (scales, offsets) = block.factors(F16Le::to_f32);
            for g in 0..G {
                for (i, q) in block.quants(g).into_iter().enumerate() {
                    let (s, o) = (scales[g][i / 16], offsets[g][i / 16]);
                    let (found, expected) = (s * f32::from(q) + o, exact[32 * g + i]);
                    if !expected.is_finite() {
                        continue;
                    }
                    let size = (s * f32::from(q)).abs() + o.abs();
                    assert!((found - expected).abs() <= size * 2e-7, "{}: {found} {expected}", B::FORMAT);
                    assert!(!B::UNSIGNED || q >= 0, "{}", B::FORMAT);
                }
            }
        }
    }

    #[test]
    fn groups_are_the_formats_values() {
        agrees::<BlockQ4_0, 32, 1>();
        agrees::<BlockQ4_1, 32, 1>();
        agrees::<BlockQ5_0, 32, 1>();
        agrees::<BlockQ5_1, 32, 1>();
        agrees::<BlockQ8_0, 32, 1>();
        agrees::<BlockQ2_K, 256, 8>();
        agrees::<BlockQ3_K, 256, 8>();
        agrees::<BlockQ4_K, 256, 8>();
        agrees::<BlockQ5_K, 256, 8>();
        agrees::<BlockQ6_K, 256, 8>();
        agrees::<BlockIQ4_NL, 32, 1>();
        agrees::<BlockIQ4_XS, 256, 8>();
    }
}
