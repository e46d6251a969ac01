//! Q8_0: 32 signed bytes under one scale, `x = d * q`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | signed value `i` |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, F16Le, Format};

/// A block of Q8_0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: F16Le,
    /// Signed values.
    pub qs: [i8; 32],
}

const _: () = assert!(size_of::<BlockQ8_0>() == 34);

impl Block<32> for BlockQ8_0 {
    const FORMAT: Format = Format::Q8_0;

    fn dequantize(&self) -> [f32; 32] {
        let d = self.d.to_f32();
        self.qs.map(|q| d * f32::from(q))
    }
}
