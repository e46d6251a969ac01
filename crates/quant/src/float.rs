//! F32, F16, BF16: one little-endian value per block.
//!
//! | format | bytes | meaning |
//! |---|---|---|
//! | F32 | 4 | IEEE 754 binary32 |
//! | F16 | 2 | IEEE 754 binary16; also the scale of every quantised block |
//! | BF16 | 2 | the upper half of a binary32 |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, BlockBytes, Format};

macro_rules! floats {
    ($($format:ident: $name:ident($bytes:literal);)+) => {$(
        #[doc = concat!("A little-endian ", stringify!($format), ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name(pub [u8; $bytes]);

        impl BlockBytes for $name {
            const FORMAT: Format = Format::$format;
        }

        impl Block<1> for $name {
            fn dequantize(&self) -> [f32; 1] {
                [self.to_f32()]
            }
        }
    )+};
}

floats! {
    F32: F32Le(4);
    F16: F16Le(2);
    BF16: Bf16Le(2);
}

impl F32Le {
    /// The value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_le_bytes(self.0)
    }

    pub(crate) fn nearest(x: f32) -> F32Le {
        F32Le(x.to_le_bytes())
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
