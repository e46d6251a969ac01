//! The K-quants: 256 values in groups of 16 or 32, whose scales are integers under one F16.
//!
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
//!
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
//!
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
//!
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
//!
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
use crate::fit::{Group, Unit, affine, symmetric};
use crate::groups::{Groups, Halves, codes, pack_bits, scale_16, scale_32, unpack_bits};

blocks! {
    Q2_K: BlockQ2_K { scales: [u8; 16], qs: [u8; 64], d: F16Le, dmin: F16Le }
    Q3_K: BlockQ3_K { hmask: [u8; 32], qs: [u8; 64], scales: [u8; 12], d: F16Le }
    Q4_K: BlockQ4_K { d: F16Le, dmin: F16Le, scales: [u8; 12], qs: [u8; 128] }
    Q5_K: BlockQ5_K { d: F16Le, dmin: F16Le, scales: [u8; 12], qh: [u8; 32], qs: [u8; 128] }
    Q6_K: BlockQ6_K { ql: [u8; 128], qh: [u8; 64], scales: [i8; 16], d: F16Le }
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
