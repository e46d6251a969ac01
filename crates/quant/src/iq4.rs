//! IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 unevenly spaced values.
//!
//! IQ4_NL, 32 values, `x = d * IQ4_VALUES[q]`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[16]` | low nibble of byte `i` is value `i`, high nibble value `i + 16` |
//!
//! IQ4_XS, 256 values in groups of 32 with a 6-bit scale, `x = (d * (scale[j] - 32)) * IQ4_VALUES[q]`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale of the scales |
//! | 2 | `scales_h[2]` | little-endian word; bits `2j..2j + 2` are bits 4 and 5 of `scale[j]` |
//! | 4 | `scales_l[4]` | bits 0 to 3: low nibble of byte `i` is `scale[2i]`, high nibble `scale[2i + 1]` |
//! | 8 | `qs[128]` | group `j` is bytes `16j..16j + 16`, laid out as in IQ4_NL |

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::q4::nibbles;
use crate::{Block, F16Le, Format};

/// The values that the 4-bit numbers of IQ4_NL and IQ4_XS stand for.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// A block of IQ4_NL.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIQ4_NL {
    /// Scale.
    pub d: F16Le,
    /// Indices.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockIQ4_NL>() == 18);

/// A block of IQ4_XS.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockIQ4_XS {
    /// Scale of the scales.
    pub d: F16Le,
    /// High bits of the scales; see [`BlockIQ4_XS::scales`].
    pub scales_h: [u8; 2],
    /// Low bits of the scales.
    pub scales_l: [u8; 4],
    /// Indices, a row for each group.
    pub qs: [[u8; 16]; 8],
}

const _: () = assert!(size_of::<BlockIQ4_XS>() == 136);

impl BlockIQ4_XS {
    /// The scale of each group of 32, from -32 to 31.
    pub fn scales(&self) -> [i8; 8] {
        std::array::from_fn(|j| {
            let low = self.scales_l[j / 2] >> (j % 2 * 4) & 15;
            let high = self.scales_h[j / 4] >> (j % 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        })
    }
}

fn lookup(scale: f32, qs: &[u8; 16]) -> [f32; 32] {
    nibbles(qs).map(|q| scale * f32::from(IQ4_VALUES[usize::from(q)]))
}

impl Block<32> for BlockIQ4_NL {
    const FORMAT: Format = Format::IQ4_NL;

    fn dequantize(&self) -> [f32; 32] {
        lookup(self.d.to_f32(), &self.qs)
    }
}

impl Block<256> for BlockIQ4_XS {
    const FORMAT: Format = Format::IQ4_XS;

    fn dequantize(&self) -> [f32; 256] {
        let d = self.d.to_f32();
        let scales = self.scales();
        let mut out = [0.0; 256];
        for (j, values) in out.as_chunks_mut().0.iter_mut().enumerate() {
            *values = lookup(d * f32::from(scales[j]), &self.qs[j]);
        }
        out
    }
}
