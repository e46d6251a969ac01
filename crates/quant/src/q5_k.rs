//! Q5_K: 256 values of 5 bits; groups of 32 with a 6-bit scale and a 6-bit minimum.
//!
//! Group `j` holds values `32j..32j + 32`: `x = (d * scale[j]) * q - dmin * min[j]`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale of the scales |
//! | 2 | `dmin` | F16 scale of the minimums |
//! | 4 | `scales[12]` | packed as in Q4_K |
//! | 16 | `qh[32]` | bit `v / 32` of byte `v % 32` is bit 4 of value `v` |
//! | 48 | `qs[128]` | bits 0 to 3, laid out as in Q4_K |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::q4_k::{nibbles, scales_mins};
use crate::{Block, F16Le, Format};

/// A block of Q5_K.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_K {
    /// Scale of the scales.
    pub d: F16Le,
    /// Scale of the minimums.
    pub dmin: F16Le,
    /// Packed scales and minimums; see [`BlockQ5_K::scales_mins`].
    pub scales: [u8; 12],
    /// High bits.
    pub qh: [u8; 32],
    /// Low nibbles.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockQ5_K>() == 176);

impl BlockQ5_K {
    /// Scale and minimum of each group of 32, from 0 to 63.
    pub fn scales_mins(&self) -> ([u8; 8], [u8; 8]) {
        scales_mins(&self.scales)
    }
}

impl Block<256> for BlockQ5_K {
    const FORMAT: Format = Format::Q5_K;

    fn dequantize(&self) -> [f32; 256] {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let (scales, mins) = self.scales_mins();
        let (scale, min) = (scales.map(|s| d * f32::from(s)), mins.map(|m| dmin * f32::from(m)));
        let low = nibbles(&self.qs);
        std::array::from_fn(|v| {
            let high = self.qh[v % 32] >> (v / 32) & 1;
            scale[v / 32] * f32::from(low[v] | high << 4) - min[v / 32]
        })
    }
}
