//! F32, F16, BF16: one little-endian number, a block of one value.
//!
//! | format | bytes | meaning |
//! |---|---|---|
//! | F32 | 4 | IEEE 754 binary32 |
//! | F16 | 2 | IEEE 754 binary16; also the scale of every quantised block |
//! | BF16 | 2 | the upper half of a binary32 |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, Format};

/// A stored F32.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct F32Le(pub [u8; 4]);

/// A stored F16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct F16Le(pub [u8; 2]);

/// A stored BF16.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Bf16Le(pub [u8; 2]);

impl F32Le {
    /// The number.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_le_bytes(self.0)
    }
}

impl F16Le {
    /// The number; every F16 is also an `f32`.
    #[inline]
    pub fn to_f32(self) -> f32 {
        half::f16::from_le_bytes(self.0).to_f32()
    }
}

impl Bf16Le {
    /// The number; every BF16 is also an `f32`.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(self.0)) << 16)
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

impl F16Le {
    /// The F16 nearest to `x`; the largest there is instead of infinity.
    pub fn nearest(x: f32) -> F16Le {
        const LARGEST: f32 = 65504.0;
        F16Le(half::f16::from_f32(x.clamp(-LARGEST, LARGEST)).to_le_bytes())
    }
}

impl Bf16Le {
    /// The BF16 nearest to `x`; the largest there is instead of infinity.
    pub fn nearest(x: f32) -> Bf16Le {
        const LARGEST: f32 = f32::from_bits(0x7F7F_0000);
        Bf16Le(half::bf16::from_f32(x.clamp(-LARGEST, LARGEST)).to_le_bytes())
    }
}
