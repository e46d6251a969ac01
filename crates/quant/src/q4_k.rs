//! Q4_K: 256 values of 4 bits; groups of 32 with a 6-bit scale and a 6-bit minimum.
//!
//! Group `j` holds values `32j..32j + 32`: `x = (d * scale[j]) * q - dmin * min[j]`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale of the scales |
//! | 2 | `dmin` | F16 scale of the minimums |
//! | 4 | `scales[12]` | for `j < 4`: `scale[j]` and `min[j]` are the low 6 bits of bytes `j` and `4 + j`; `scale[4 + j]` and `min[4 + j]` are the low and high nibble of byte `8 + j`, with the top 2 bits of bytes `j` and `4 + j` above |
//! | 16 | `qs[128]` | value `64h + i` (`i < 32`) is the low, `64h + 32 + i` the high nibble of byte `32h + i` |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, affine};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_32, unpack_bits};

blocks! {
    Q4_K: BlockQ4_K { d: F16Le, dmin: F16Le, scales: [u8; 12], qs: [u8; 128] }
}

impl BlockQ4_K {
    /// Scale and minimum of each group of 32, from 0 to 63.
    #[inline]
    pub fn scales_mins(&self) -> ([u8; 8], [u8; 8]) {
        scales_mins(&self.scales)
    }
}

/// Unpacks the 6-bit scales and minimums of Q4_K and Q5_K.
#[inline]
pub(crate) fn scales_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        let (s, m, both) = (packed[j], packed[4 + j], packed[8 + j]);
        scales[j] = s & 63;
        mins[j] = m & 63;
        scales[4 + j] = both & 15 | s >> 6 << 4;
        mins[4 + j] = both >> 4 | m >> 6 << 4;
    }
    (scales, mins)
}

impl Groups<8> for BlockQ4_K {
    const OFFSETS: bool = true;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let (scales, mins) = self.scales_mins();
        (scale_32(to_f32(self.d), scales), scale_32(-to_f32(self.dmin), mins))
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        std::array::from_fn(|g| unpack_bits(&self.qs, g / 2 * 32, g % 2 * 4, 15).map(|q| q as i8))
    }
}

pub(crate) fn pack_scales_mins(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = scales[j] | scales[4 + j] >> 4 << 6;
        packed[4 + j] = mins[j] | mins[4 + j] >> 4 << 6;
        packed[8 + j] = scales[4 + j] & 15 | mins[4 + j] << 4;
    }
    packed
}

impl Encode<256> for BlockQ4_K {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockQ4_K {
        let found = affine::scaled::<15, 63, 8, 32>(&Group::split(x, weights), unit);
        let mut qs = [0; 128];
        for (g, codes) in codes(&found.levels, 0.0).iter().enumerate() {
            pack_bits(&mut qs, g / 2 * 32, g % 2 * 4, 15, codes);
        }
        let scales = pack_scales_mins(&found.scales, &found.mins);
        BlockQ4_K { d: found.d.stored, dmin: found.dmin.stored, scales, qs }
    }
}
