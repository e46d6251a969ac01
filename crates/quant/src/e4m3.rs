//! E4M3, the 8-bit float of 4 bits of exponent and 3 of mantissa: "E4M3" of the OCP 8-bit floating point specification
//! (<https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1>), known as
//! `float8_e4m3fn`. No tensor format: a type of the K/V cache, and of checkpoints.
//!
//! | bits | value |
//! |---|---|
//! | `s eeee mmm` | `(-1)^s 2^(e - 7) (1 + m / 8)` |
//! | `s 0000 mmm` | `(-1)^s 2^-6 m / 8` |
//! | `s 1111 111` | NaN; there are no infinities |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The code of a value in E4M3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct E4M3(pub u8);

/// The code of NaN without its sign; the one before is the largest value's, 448.
const NAN: u8 = 0x7F;

impl E4M3 {
    /// Converts to f32, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let (sign, magnitude) = (u32::from(self.0 & 0x80) << 24, self.0 & 0x7F);
        // In the place of an f32's exponent and mantissa, the code is its value divided by 2^120.
        let value = f32::from_bits(sign | u32::from(magnitude) << 20) * f32::from_bits((127 + 120) << 23);
        if magnitude == NAN { f32::NAN } else { value }
    }

    /// The bits of 2^-8 times the value as an F16, exactly: its exponent has one more bit. NaN stays NaN.
    #[inline(always)]
    pub fn to_f16_bits_scaled(self) -> u16 {
        let magnitude = u16::from(self.0 & 0x7F);
        // The highest bit of an F16's exponent, if all of the code's are set.
        let nan = ((magnitude + 1) & 0x80) << 7;
        u16::from(self.0 & 0x80) << 8 | magnitude << 7 | nan
    }

    /// Rounds to the nearest value, ties to even, saturating at ±448. What is not finite becomes NaN: an infinite value must
    /// not pass as a finite one.
    #[inline(always)]
    pub fn nearest(x: f32) -> E4M3 {
        // The smallest normal value, below which values are multiples of 2^-9, and a number whose last bit is as much.
        const NORMAL: f32 = 1.0 / 64.0;
        const SHIFT: f32 = 16384.0;
        let (sign, magnitude) = ((x.to_bits() >> 24) as u8 & 0x80, x.abs());
        let saturated = magnitude.min(448.0);
        let subnormal = (saturated + SHIFT).to_bits() - SHIFT.to_bits();
        let bits = saturated.to_bits();
        // Half of the last bit that is kept, less one if that bit is even; exponents have a bias of 7 instead of 127.
        let normal = ((bits + 0x7_FFFF + (bits >> 20 & 1)) >> 20).wrapping_sub((127 - 7) << 3);
        let code = if saturated < NORMAL { subnormal } else { normal } as u8;
        E4M3(sign | if magnitude.is_finite() { code } else { NAN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tools/goldens/e4m3.py`: the values of all codes, then pairs of an f32 and its code.
    fn golden() -> (Vec<f32>, Vec<(f32, u8)>) {
        let (values, pairs) = include_bytes!("../goldens/E4M3.bin").split_at(4 * 256);
        let values = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let (pairs, rest) = pairs.as_chunks::<5>();
        assert!(pairs.len() > 6 * 253 && rest.is_empty());
        let pair = |&[a, b, c, d, code]: &[u8; 5]| (f32::from_le_bytes([a, b, c, d]), code);
        (values, pairs.iter().map(pair).collect())
    }

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    #[test]
    fn codes_have_the_values_of_ml_dtypes() {
        let (values, _) = golden();
        for (code, &expected) in (0..=255).zip(&values) {
            let found = E4M3(code).to_f32();
            assert!(same(found, expected), "{code:#x}: {found}, expected {expected}");
            let scaled = half::f16::from_bits(E4M3(code).to_f16_bits_scaled()).to_f32();
            assert!(same(scaled * 256.0, expected), "{code:#x}: {scaled} as F16, expected {expected} / 256");
        }
    }

    #[test]
    fn values_round_as_those_of_ml_dtypes() {
        for (x, code) in golden().1 {
            let found = E4M3::nearest(x);
            let is_nan = |code: u8| code & 0x7F == NAN;
            assert!(
                found.0 == code || is_nan(code) && is_nan(found.0),
                "{x:e}: {found:x?}, expected {code:#x}"
            );
        }
    }
}
