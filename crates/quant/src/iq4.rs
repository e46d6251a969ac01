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

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::symmetric::{self, Levels};
use crate::fit::{Group, Unit};
use crate::groups::{Groups, Halves, pack_nibbles, scale_32, unpack_nibbles};

/// The codebook of IQ4_NL and IQ4_XS.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

blocks! {
    IQ4_NL: BlockIQ4_NL { d: F16Le, qs: [u8; 16] }
    IQ4_XS: BlockIQ4_XS { d: F16Le, scales_h: [u8; 2], scales_l: [u8; 4], qs: [[u8; 16]; 8] }
}

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

/// Codebook values of 16 bytes of indices.
fn lookup(qs: &[u8; 16]) -> [i8; 32] {
    unpack_nibbles(qs).map(|q| IQ4_VALUES[usize::from(q)])
}

impl Groups<1> for BlockIQ4_NL {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [lookup(&self.qs)]
    }
}

impl Groups<8> for BlockIQ4_XS {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (scale_32(to_f32(self.d), self.scales()), [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        self.qs.each_ref().map(lookup)
    }
}

/// The codebook as quantisation levels.
struct Codebook;

impl Levels for Codebook {
    const GUESSES: &'static [f32] = &[
        -150.0, -140.0, -132.0, -127.0, -122.0, -116.0, -110.0, -104.0, 90.0, 97.0, 103.0, 108.0, 113.0,
        119.0, 126.0, 135.0,
    ];
    const REACH: i32 = 1;

    /// Adds up the steps whose midpoint is below `v`; branch-free, so that it vectorises.
    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        const LEVELS: [f32; 16] = {
            let mut levels = [0.0; 16];
            let mut i = 0;
            while i < 16 {
                levels[i] = IQ4_VALUES[i] as f32;
                i += 1;
            }
            levels
        };
        let mut level = LEVELS[0];
        let mut i = 0;
        while i < 15 {
            let (low, high) = (LEVELS[i], LEVELS[i + 1]);
            level += if v > (low + high) / 2.0 { high - low } else { 0.0 };
            i += 1;
        }
        level
    }
}

/// The inverse of [`lookup`] for values of the codebook.
fn indices(levels: &[f32; 32]) -> [u8; 16] {
    pack_nibbles(
        &levels.map(|level| IQ4_VALUES.iter().filter(|&&value| f32::from(value) < level).count() as u8),
    )
}

impl Encode<32> for BlockIQ4_NL {
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockIQ4_NL {
        let (d, levels) = symmetric::single::<Codebook, 32>(&Group::new(*x, *weights), unit);
        BlockIQ4_NL { d: d.stored, qs: indices(&levels) }
    }
}

impl Encode<256> for BlockIQ4_XS {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ4_XS {
        let found = symmetric::scaled::<Codebook, 32, 8, 32>(&Group::split(x, weights), unit);
        let (mut scales_h, mut scales_l) = ([0; 2], [0; 4]);
        for (j, scale) in found.scales.into_iter().enumerate() {
            let scale = (scale + 32) as u8;
            scales_l[j / 2] |= (scale & 15) << (j % 2 * 4);
            scales_h[j / 4] |= scale >> 4 << (j % 4 * 2);
        }
        BlockIQ4_XS { d: found.d.stored, scales_h, scales_l, qs: found.levels.each_ref().map(indices) }
    }
}
