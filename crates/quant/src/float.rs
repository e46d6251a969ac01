//! F32, F16, BF16: one little-endian value per block.
//!
//! | format | bytes | meaning |
//! |---|---|---|
//! | F32 | 4 | IEEE 754 binary32 |
//! | F16 | 2 | IEEE 754 binary16; also the scale of every quantised block |
//! | BF16 | 2 | the upper half of a binary32 |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, Format};

/// A little-endian F32.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct F32Le(pub [u8; 4]);

/// A little-endian F16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct F16Le(pub [u8; 2]);

/// A little-endian BF16.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Bf16Le(pub [u8; 2]);

impl F32Le {
    /// The value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_le_bytes(self.0)
    }
}

impl F16Le {
    /// Converts to f32, exactly.
    #[inline]
    pub fn to_f32(self) -> f32 {
        half::f16::from_le_bytes(self.0).to_f32()
    }

    /// Rounds to the nearest F16, saturating to the largest finite one.
    pub fn nearest(x: f32) -> F16Le {
        const LARGEST: f32 = 65504.0;
        F16Le(half::f16::from_f32(x.clamp(-LARGEST, LARGEST)).to_le_bytes())
    }
}

impl Bf16Le {
    /// Converts to f32, exactly.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(self.0)) << 16)
    }

    /// Rounds to the nearest BF16, saturating to the largest finite one.
    pub fn nearest(x: f32) -> Bf16Le {
        const LARGEST: f32 = f32::from_bits(0x7F7F_0000);
        Bf16Le(half::bf16::from_f32(x.clamp(-LARGEST, LARGEST)).to_le_bytes())
    }
}

impl Block<1> for F32Le {
    const FORMAT: Format = Format::F32;

    fn dequantize(&self) -> [f32; 1] {
        [self.to_f32()]
    }
}

impl Block<1> for F16Le {
    const FORMAT: Format = Format::F16;

    fn dequantize(&self) -> [f32; 1] {
        [self.to_f32()]
    }
}

impl Block<1> for Bf16Le {
    const FORMAT: Format = Format::BF16;

    fn dequantize(&self) -> [f32; 1] {
        [self.to_f32()]
    }
}
