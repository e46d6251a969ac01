//! Q2_K: 256 values of 2 bits; groups of 16 with a 4-bit scale and a 4-bit minimum.
//!
//! Group `j` holds values `16j..16j + 16`: `x = (d * scale[j]) * q - dmin * min[j]`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `scales[16]` | byte `j`: low nibble `scale[j]`, high nibble `min[j]` |
//! | 16 | `qs[64]` | value `128h + 32s + i` (`i < 32`) is bits `2s..2s + 2` of byte `32h + i` |
//! | 80 | `d` | F16 scale of the scales |
//! | 82 | `dmin` | F16 scale of the minimums |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, F16Le, Format};

/// A block of Q2_K.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ2_K {
    /// Scales and minimums.
    pub scales: [u8; 16],
    /// 2-bit values.
    pub qs: [u8; 64],
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
}

const _: () = assert!(size_of::<BlockQ2_K>() == 84);

/// The 2-bit numbers of Q2_K and Q3_K in the order of their values.
pub(crate) fn pairs(qs: &[u8; 64]) -> [u8; 256] {
    std::array::from_fn(|v| qs[v / 128 * 32 + v % 32] >> (v % 128 / 32 * 2) & 3)
}

impl Block<256> for BlockQ2_K {
    const FORMAT: Format = Format::Q2_K;

    fn dequantize(&self) -> [f32; 256] {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let scale = self.scales.map(|s| d * f32::from(s & 15));
        let min = self.scales.map(|s| dmin * f32::from(s >> 4));
        let q = pairs(&self.qs);
        std::array::from_fn(|v| scale[v / 16] * f32::from(q[v]) - min[v / 16])
    }
}
