//! Q4_0 and Q4_1: 32 values of 4 bits under one scale.
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

#![expect(missing_docs, reason = "the table describes the fields")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::encode::Encode;
use crate::fit::{Group, Unit, affine, symmetric};
use crate::groups::{Groups, Halves, pack_nibbles, unpack_nibbles};
use crate::{F16Le, Format};

/// A block of Q4_0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_0 {
    pub d: F16Le,
    pub qs: [u8; 16],
}

/// A block of Q4_1.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ4_1 {
    pub d: F16Le,
    pub m: F16Le,
    pub qs: [u8; 16],
}

impl Groups<1> for BlockQ4_0 {
    const FORMAT: Format = Format::Q4_0;
    const OFFSETS: bool = false;
    const UNSIGNED: bool = false;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_nibbles(&self.qs).map(|q| q as i8 - 8)]
    }
}

impl Groups<1> for BlockQ4_1 {
    const FORMAT: Format = Format::Q4_1;
    const OFFSETS: bool = true;
    const UNSIGNED: bool = true;

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
