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

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, affine};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_32, unpack_bits};
use crate::q4_k::{pack_scales_mins, scales_mins};

blocks! {
    Q5_K: BlockQ5_K { d: F16Le, dmin: F16Le, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128] }
}

impl BlockQ5_K {
    /// Scale and minimum of each group of 32, from 0 to 63.
    #[inline]
    pub fn scales_mins(&self) -> ([u8; 8], [u8; 8]) {
        scales_mins(&self.scales)
    }
}

impl Groups<8> for BlockQ5_K {
    const OFFSETS: bool = true;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let (scales, mins) = self.scales_mins();
        (scale_32(to_f32(self.d), scales), scale_32(-to_f32(self.dmin), mins))
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        let mut quants = [[0; 32]; 8];
        for (g, quants) in quants.iter_mut().enumerate() {
            let low = unpack_bits(&self.qs, g / 2 * 32, g % 2 * 4, 15);
            let high = unpack_bits(&self.qh, 0, g, 1);
            for ((quant, low), high) in quants.iter_mut().zip(low).zip(high) {
                *quant = (low | high << 4) as i8;
            }
        }
        quants
    }
}

impl Encode<256> for BlockQ5_K {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockQ5_K {
        let found = affine::scaled::<31, 63, 8, 32>(&Group::split(x, weights), unit);
        let (mut qh, mut qs) = ([0; 32], [0; 128]);
        for (g, codes) in codes(&found.levels, 0.0).iter().enumerate() {
            pack_bits(&mut qs, g / 2 * 32, g % 2 * 4, 15, codes);
            pack_bits(&mut qh, 0, g, 1, &codes.map(|code| code >> 4));
        }
        let scales = pack_scales_mins(&found.scales, &found.mins);
        BlockQ5_K { d: found.d.stored, dmin: found.dmin.stored, scales, qh, qs }
    }
}
