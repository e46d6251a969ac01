//! Q5_0 and Q5_1: 32 values of 5 bits under one scale.
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

#![expect(missing_docs, reason = "the table describes the fields")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::encode::Encode;
use crate::fit::{Group, Unit, affine, symmetric};
use crate::groups::{Groups, Halves, pack_nibbles, unpack_nibbles};
use crate::{F16Le, Format};

/// A block of Q5_0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_0 {
    pub d: F16Le,
    pub qh: [u8; 4],
    pub qs: [u8; 16],
}

/// A block of Q5_1.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ5_1 {
    pub d: F16Le,
    pub m: F16Le,
    pub qh: [u8; 4],
    pub qs: [u8; 16],
}

/// Unpacks 5-bit quants in the order of the values.
fn unpack_5bit(qh: [u8; 4], qs: &[u8; 16]) -> [u8; 32] {
    let low = unpack_nibbles(qs);
    std::array::from_fn(|i| low[i] | (qh[i / 8] >> (i % 8) & 1) << 4)
}

impl Groups<1> for BlockQ5_0 {
    const FORMAT: Format = Format::Q5_0;
    const OFFSETS: bool = false;
    const UNSIGNED: bool = false;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_5bit(self.qh, &self.qs).map(|q| q as i8 - 16)]
    }
}

impl Groups<1> for BlockQ5_1 {
    const FORMAT: Format = Format::Q5_1;
    const OFFSETS: bool = true;
    const UNSIGNED: bool = true;

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
