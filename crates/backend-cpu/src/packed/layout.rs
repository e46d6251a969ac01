//! How the blocks of 16 rows lie together.
//!
//! The values of a group, four of each row at a time, make one vector of 64 bytes, a *step*: byte `4r + j`
//! is value `4s + j` of row `r`. Steps hold unsigned numbers: what the format means plus a constant zero
//! point. Their low bits and, where there are more than a byte divides into, their high bits lie in planes
//! of their own: a plane of `b` bits has `8 / b` steps in each vector, the first in the lowest bits. Scales
//! and minimums are those of the file, row beside row.

use quant::*;

use crate::lanes::{BYTES, LANES, Lanes};

/// Groups of a block, at most.
pub(crate) const GROUPS: usize = 16;

/// Scales and minimums of 16 rows of a block as floats, by group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) scales: [[f32; LANES]; GROUPS],
    pub(crate) mins: [[f32; LANES]; GROUPS],
}

impl Factors {
    pub(crate) const ZERO: Factors = Factors { scales: [[0.0; LANES]; GROUPS], mins: [[0.0; LANES]; GROUPS] };
}

/// How products are summed: what formats of the same kind share.
pub(crate) trait Kind: 'static {
    /// Values under one scale.
    const GROUP: usize;
    /// Groups of a block.
    const GROUPS: usize;
    /// Whether groups have minimums; if not, numbers have a zero point.
    const MINS: bool;
    /// Whether the zero point is 128.
    const SIGNED: bool;
}

macro_rules! kinds {
    ($($name:ident: $groups:literal of $group:literal, mins $mins:literal, signed $signed:literal;)*) => {$(
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $name {}

        impl Kind for $name {
            const GROUP: usize = $group;
            const GROUPS: usize = $groups;
            const MINS: bool = $mins;
            const SIGNED: bool = $signed;
        }
    )*};
}

kinds! {
    Plain: 1 of 32, mins false, signed false;
    PlainSigned: 1 of 32, mins false, signed true;
    PlainMins: 1 of 32, mins true, signed false;
    EightSigned: 8 of 32, mins false, signed true;
    EightMins: 8 of 32, mins true, signed false;
    Sixteen: 16 of 16, mins false, signed false;
    SixteenMins: 16 of 16, mins true, signed false;
}

/// A block format whose rows can lie in strips. `G` is the block's number of groups of 32.
pub(crate) trait Layout<const G: usize>: Groups<G> + Sync {
    /// How products with it are summed.
    type Kind: Kind;
    /// Bits of the low plane.
    const LOW: u32;
    /// Bits of the high plane; 0 when there is none.
    const HIGH: u32;
    /// What is added to make numbers unsigned; 128 where they are [`Kind::SIGNED`].
    const ZERO: u8;
    /// What the unsigned numbers are indices of, if they are.
    const TABLE: Option<[u8; 16]> = None;
    /// Bytes that scales and minimums of 16 rows take.
    const FACTORS: usize;

    /// Writes scales and minimums of 16 rows side by side.
    fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]);

    /// Reads them.
    fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors);

    /// Vectors of both planes of a block.
    const PLANES: usize = G * 8 * (Self::LOW + Self::HIGH) as usize / 8;

    /// The unsigned numbers of a block.
    fn numbers(&self) -> [[u8; 32]; G] {
        self.quants().map(|group| {
            group.map(|q| {
                let number = (i16::from(q) + i16::from(Self::ZERO)) as u8;
                match Self::TABLE {
                    None => number,
                    Some(table) => table.iter().position(|&x| x == number).unwrap_or(0) as u8,
                }
            })
        })
    }

    /// Writes the planes of 16 rows, four bytes of a row at a time.
    fn pack_planes(rows: &[&Self; LANES], out: &mut [[[u8; 4]; LANES]]) {
        let (low, high) = out.split_at_mut(G * Self::LOW as usize);
        for (r, block) in rows.iter().enumerate() {
            for (step, numbers) in block.numbers().as_flattened().as_chunks::<4>().0.iter().enumerate() {
                let numbers = u32::from_le_bytes(*numbers);
                let put = |plane: &mut [[[u8; 4]; LANES]], bits: u32, numbers: u32| {
                    let (vector, shift) = place(step, bits);
                    let bytes = &mut plane[vector][r];
                    *bytes = (u32::from_le_bytes(*bytes) | numbers << shift).to_le_bytes();
                };
                let each = |mask: u8| u32::from_le_bytes([mask; 4]);
                put(low, Self::LOW, numbers & each(mask(Self::LOW)));
                if Self::HIGH > 0 {
                    put(high, Self::HIGH, numbers >> Self::LOW & each(mask(Self::HIGH)));
                }
            }
        }
    }

    /// Step `step` of a block's planes.
    #[inline(always)]
    fn step<L: Lanes>(lanes: L, planes: &[[u8; BYTES]], step: usize) -> L::Bytes {
        let (vector, shift) = place(step, Self::LOW);
        let mut numbers = lanes.bytes(&planes[vector]);
        if Self::LOW < 8 {
            numbers = lanes.bits(numbers, shift as i32, mask(Self::LOW));
        }
        if Self::HIGH > 0 {
            let (vector, shift) = place(step, Self::HIGH);
            let high = lanes.bytes(&planes[G * Self::LOW as usize + vector]);
            let down = shift as i32 - Self::LOW as i32;
            numbers = lanes.or(numbers, lanes.bits(high, down, mask(Self::HIGH) << Self::LOW));
        }
        match Self::TABLE {
            None => numbers,
            Some(table) => lanes.lookup(&table, numbers),
        }
    }
}

/// Vector and shift of a step in a plane of `bits` bits.
#[inline(always)]
fn place(step: usize, bits: u32) -> (usize, u32) {
    let steps = 8 / bits as usize;
    (step / steps, (step % steps) as u32 * bits)
}

#[inline(always)]
const fn mask(bits: u32) -> u8 {
    (0xFF_u16 >> (8 - bits)) as u8
}
