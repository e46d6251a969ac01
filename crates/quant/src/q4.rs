//! Q4_0 and Q4_1: 32 values of 4 bits under one scale.
//!
//! Q4_0, `x = d * (q - 8)`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[16]` | low nibble of byte `i` is value `i`, high nibble value `i + 16` |
//!
//! Q4_1, `x = d * q + m`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `m` | F16 minimum |
//! | 4 | `qs[16]` | as in Q4_0 |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, F16Le, Format};

/// A block of Q4_0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: F16Le,
    /// Nibbles.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ4_0>() == 18);

/// A block of Q4_1.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// Scale.
    pub d: F16Le,
    /// Minimum.
    pub m: F16Le,
    /// Nibbles.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ4_1>() == 20);

/// The nibbles of 16 bytes in the order of their values: all low ones, then all high ones.
pub(crate) fn nibbles(qs: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 })
}

impl Block<32> for BlockQ4_0 {
    const FORMAT: Format = Format::Q4_0;

    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        nibbles(&self.qs).map(|q| d * (f32::from(q) - 8.0))
    }
}

impl Block<32> for BlockQ4_1 {
    const FORMAT: Format = Format::Q4_1;

    fn dequantize(&self) -> [f32; 32] {
        let (d, m) = (self.d.to_f32(), self.m.to_f32());
        nibbles(&self.qs).map(|q| d * f32::from(q) + m)
    }
}
