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

use crate::groups::{Groups, Halves, nibbles, of_32};
use crate::{F16Le, Format};

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
    #[inline]
    pub fn scales(&self) -> [i8; 8] {
        std::array::from_fn(|j| {
            let low = self.scales_l[j / 2] >> (j % 2 * 4) & 15;
            let high = self.scales_h[j / 4] >> (j % 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        })
    }
}

/// The values that 16 bytes of indices stand for.
fn lookup(qs: &[u8; 16]) -> [i8; 32] {
    nibbles(qs).map(|q| IQ4_VALUES[usize::from(q)])
}

impl Groups<1> for BlockIQ4_NL {
    const FORMAT: Format = Format::IQ4_NL;
    const OFFSETS: bool = false;
    const UNSIGNED: bool = false;

    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[wide(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [lookup(&self.qs)]
    }
}

impl Groups<8> for BlockIQ4_XS {
    const FORMAT: Format = Format::IQ4_XS;
    const OFFSETS: bool = false;
    const UNSIGNED: bool = false;

    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (of_32(wide(self.d), self.scales()), [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        self.qs.each_ref().map(lookup)
    }
}
