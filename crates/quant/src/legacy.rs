//! The formats of 32 values under one scale: Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.
//!
//! Q4_0, `x = d * (q - 8)`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[16]` | low nibble of byte `i` is value `i`, high nibble value `i + 16` |
//!
//! Q4_1, `x = d * q + m`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `m` | F16 minimum |
//! | 4 | `qs[16]` | as in Q4_0 |
//!
//! Q5_0, `x = d * (q - 16)`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qh[4]` | little-endian word; bit `i` is bit 4 of value `i` |
//! | 6 | `qs[16]` | bits 0 to 3: low nibble of byte `i` is value `i`, high nibble value `i + 16` |
//!
//! Q5_1, `x = d * q + m`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `m` | F16 minimum |
//! | 4 | `qh[4]` | as in Q5_0 |
//! | 8 | `qs[16]` | as in Q5_0 |
//!
//! Q8_0, `x = d * q`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | signed bytes; byte `i` is value `i` |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit, affine, inverse, round_within, symmetric};
use crate::groups::{Groups, Halves, pack_nibbles, unpack_nibbles};

blocks! {
    Q4_0: BlockQ4_0 { d: F16Le, qs: [u8; 16] }
    Q4_1: BlockQ4_1 { d: F16Le, m: F16Le, qs: [u8; 16] }
    Q5_0: BlockQ5_0 { d: F16Le, qh: [u8; 4], qs: [u8; 16] }
    Q5_1: BlockQ5_1 { d: F16Le, m: F16Le, qh: [u8; 4], qs: [u8; 16] }
    Q8_0: BlockQ8_0 { d: F16Le, qs: [i8; 32] }
}

impl Groups<1> for BlockQ4_0 {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_nibbles(&self.qs).map(|q| q as i8 - 8)]
    }
}

impl Groups<1> for BlockQ4_1 {
    const OFFSETS: bool = true;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[to_f32(self.m); 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_nibbles(&self.qs).map(|q| q as i8)]
    }
}

impl Encode<32> for BlockQ4_0 {
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockQ4_0 {
        let (d, levels) = symmetric::single::<symmetric::Integers<8>, 32>(&Group::new(*x, *weights), unit);
        BlockQ4_0 { d: d.stored, qs: pack_nibbles(&levels.map(|q| (q + 8.0) as u8)) }
    }
}

impl Encode<32> for BlockQ4_1 {
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockQ4_1 {
        let (d, m, levels) = affine::single::<15, 32>(&Group::new(*x, *weights), unit);
        BlockQ4_1 { d: d.stored, m: m.stored, qs: pack_nibbles(&levels.map(|q| q as u8)) }
    }
}

fn unpack_5bit(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let low = unpack_nibbles(qs);
    std::array::from_fn(|i| low[i] | (qh[i / 8] >> (i % 8) & 1) << 4)
}

impl Groups<1> for BlockQ5_0 {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_5bit(self.qh, &self.qs).map(|q| q as i8 - 16)]
    }
}

impl Groups<1> for BlockQ5_1 {
    const OFFSETS: bool = true;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[to_f32(self.m); 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_5bit(self.qh, &self.qs).map(|q| q as i8)]
    }
}

fn pack_5bit(values: &[u8; 32]) -> ([u8; 4], [u8; 16]) {
    let high = values.iter().rev().fold(0u32, |high, value| high << 1 | u32::from(value >> 4));
    (high.to_le_bytes(), pack_nibbles(&values.map(|value| value & 15)))
}

impl Encode<32> for BlockQ5_0 {
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockQ5_0 {
        let (d, levels) = symmetric::single::<symmetric::Integers<16>, 32>(&Group::new(*x, *weights), unit);
        let (qh, qs) = pack_5bit(&levels.map(|q| (q + 16.0) as u8));
        BlockQ5_0 { d: d.stored, qh, qs }
    }
}

impl Encode<32> for BlockQ5_1 {
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockQ5_1 {
        let (d, m, levels) = affine::single::<31, 32>(&Group::new(*x, *weights), unit);
        let (qh, qs) = pack_5bit(&levels.map(|q| q as u8));
        BlockQ5_1 { d: d.stored, m: m.stored, qh, qs }
    }
}

impl Groups<1> for BlockQ8_0 {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [self.qs]
    }
}

/// Rounds with `d = max |x| / 127`: with 255 levels, a scale search gains nothing.
impl Encode<32> for BlockQ8_0 {
    fn encode(x: &[f32; 32], _: &[f32; 32], unit: Unit) -> BlockQ8_0 {
        let largest = x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest });
        let d = unit.f16_scale(largest / 127.0);
        let by = inverse(d.value);
        BlockQ8_0 { d: d.stored, qs: x.map(|x| round_within(x * by, -127.0, 127.0) as i8) }
    }
}
