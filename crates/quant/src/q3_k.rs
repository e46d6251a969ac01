//! Q3_K: 256 values of 3 bits; groups of 16 with a 6-bit scale.
//!
//! Group `j` holds values `16j..16j + 16`: `x = (d * (scale[j] - 32)) * (q - 4)`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `hmask[32]` | bit `v / 32` of byte `v % 32` is bit 2 of value `v` |
//! | 32 | `qs[64]` | bits 0 and 1: value `128h + 32s + i` (`i < 32`) is bits `2s..2s + 2` of byte `32h + i` |
//! | 96 | `scales[12]` | bits 0 to 3 of `scale[j]`: low (`j < 8`) or high nibble of byte `j % 8`; bits 4 and 5: bits `2(j / 4)..` of byte `8 + j % 4` |
//! | 108 | `d` | F16 scale of the scales |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, symmetric};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_16, unpack_bits};

blocks! {
    Q3_K: BlockQ3_K { hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: F16Le }
}

impl BlockQ3_K {
    /// The scale of each group of 16, from -32 to 31.
    #[inline]
    pub fn scales(&self) -> [i8; 16] {
        std::array::from_fn(|j| {
            let low = self.scales[j % 8] >> (j / 8 * 4) & 15;
            let high = self.scales[8 + j % 4] >> (j / 4 * 2) & 3;
            (low | high << 4) as i8 - 32
        })
    }
}

impl Groups<8> for BlockQ3_K {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (scale_16(to_f32(self.d), self.scales()), [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        std::array::from_fn(|g| {
            let low = unpack_bits(&self.qs, g / 4 * 32, g % 4 * 2, 3);
            let high = unpack_bits(&self.hmask, 0, g, 1);
            std::array::from_fn(|i| (low[i] | high[i] << 2) as i8 - 4)
        })
    }
}

impl Encode<256> for BlockQ3_K {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockQ3_K {
        type Levels = symmetric::Integers<4>;
        let found = symmetric::scaled::<Levels, 32, 16, 16>(&Group::split(x, weights), unit);
        let (mut hmask, mut qs, mut scales) = ([0; 32], [0; 64], [0; 12]);
        for (g, codes) in codes(&found.levels, 4.0).iter().enumerate() {
            pack_bits(&mut qs, g / 4 * 32, g % 4 * 2, 3, codes);
            pack_bits(&mut hmask, 0, g, 1, &codes.map(|code| code >> 2));
        }
        for (j, scale) in found.scales.into_iter().enumerate() {
            let scale = (scale + 32) as u8;
            scales[j % 8] |= (scale & 15) << (j / 8 * 4);
            scales[8 + j % 4] |= scale >> 4 << (j / 4 * 2);
        }
        BlockQ3_K { hmask, qs, scales, d: found.d.stored }
    }
}
