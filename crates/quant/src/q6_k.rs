//! Q6_K: 256 values of 6 bits; groups of 16 with a signed 8-bit scale.
//!
//! Group `j` holds values `16j..16j + 16`: `x = (d * scales[j]) * (q - 32)`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `ql[128]` | bits 0 to 3: value `128h + i` (`i < 64`) is the low, `128h + 64 + i` the high nibble of byte `64h + i` |
//! | 128 | `qh[64]` | bits 4 and 5: value `128h + 32s + i` (`i < 32`) is bits `2s..2s + 2` of byte `32h + i` |
//! | 192 | `scales[16]` | signed scales |
//! | 208 | `d` | F16 scale of the scales |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, symmetric};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_16, unpack_bits};

blocks! {
    Q6_K: BlockQ6_K { ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: F16Le }
}

impl Groups<8> for BlockQ6_K {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        (scale_16(to_f32(self.d), self.scales), [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        let mut quants = [[0; 32]; 8];
        for (g, quants) in quants.iter_mut().enumerate() {
            let (half, part) = (g / 4, g % 4);
            let low = unpack_bits(&self.ql, half * 64 + part % 2 * 32, part / 2 * 4, 15);
            let high = unpack_bits(&self.qh, half * 32, part * 2, 3);
            for ((quant, low), high) in quants.iter_mut().zip(low).zip(high) {
                *quant = (low | high << 4) as i8 - 32;
            }
        }
        quants
    }
}

impl Encode<256> for BlockQ6_K {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockQ6_K {
        type Levels = symmetric::Integers<32>;
        let found = symmetric::scaled::<Levels, 128, 16, 16>(&Group::split(x, weights), unit);
        let (mut ql, mut qh) = ([0; 128], [0; 64]);
        for (g, codes) in codes(&found.levels, 32.0).iter().enumerate() {
            let (half, part) = (g / 4, g % 4);
            pack_bits(&mut ql, half * 64 + part % 2 * 32, part / 2 * 4, 15, codes);
            pack_bits(&mut qh, half * 32, part * 2, 3, &codes.map(|code| code >> 4));
        }
        BlockQ6_K { ql, qh, scales: found.scales, d: found.d.stored }
    }
}
