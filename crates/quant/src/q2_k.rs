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

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, affine};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_16, unpack_bits};

blocks! {
    Q2_K: BlockQ2_K { scales: [u8; 16], qs: [u8; 64], d: F16Le, dmin: F16Le }
}

impl Groups<8> for BlockQ2_K {
    const OFFSETS: bool = true;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let scales = scale_16(to_f32(self.d), self.scales.map(|s| s & 15));
        (scales, scale_16(-to_f32(self.dmin), self.scales.map(|s| s >> 4)))
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        std::array::from_fn(|g| unpack_bits(&self.qs, g / 4 * 32, g % 4 * 2, 3).map(|q| q as i8))
    }
}

impl Encode<256> for BlockQ2_K {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockQ2_K {
        let found = affine::scaled::<3, 15, 16, 16>(&Group::split(x, weights), unit);
        let mut qs = [0; 64];
        for (g, codes) in codes(&found.levels, 0.0).iter().enumerate() {
            pack_bits(&mut qs, g / 4 * 32, g % 4 * 2, 3, codes);
        }
        let scales = std::array::from_fn(|j| found.scales[j] | found.mins[j] << 4);
        BlockQ2_K { scales, qs, d: found.d.stored, dmin: found.dmin.stored }
    }
}
