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

    /// Bytes of a run of the low bits, as they lie in the file: a run's first numbers have the lowest bits of its
    /// bytes, as many numbers after them the next bits, and so on.
    const LOW_RUN: usize;
    /// The same of the high bits.
    const HIGH_RUN: usize = 32;

    /// The runs of the low bits.
    fn low(&self) -> &[u8];
    /// Those of the high bits.
    fn high(&self) -> &[u8] {
        &[]
    }

    /// Writes scales and minimums of 16 rows side by side.
    fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]);

    /// Reads them.
    fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors);

    /// Vectors of both planes of a block.
    const PLANES: usize = G * 8 * (Self::LOW + Self::HIGH) as usize / 8;

    /// Writes the planes of 16 rows. Numbers in the file are unsigned, or signed where the zero point is 128.
    #[inline(always)]
    fn pack_planes<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        let (low, high) = out.split_at_mut(G * Self::LOW as usize);
        match Self::LOW {
            2 => plane::<L, Self, G, 2, false>(lanes, rows, low),
            4 => plane::<L, Self, G, 4, false>(lanes, rows, low),
            8 => plane::<L, Self, G, 8, false>(lanes, rows, low),
            bits => unreachable!("a low plane of {bits} bits"),
        }
        Self::pack_high(lanes, rows, high);
    }

    /// Writes the high plane, if there is one.
    #[inline(always)]
    fn pack_high<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        match Self::HIGH {
            0 => {}
            1 => plane::<L, Self, G, 1, true>(lanes, rows, out),
            2 => plane::<L, Self, G, 2, true>(lanes, rows, out),
            bits => unreachable!("a high plane of {bits} bits"),
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

/// Writes a plane of `BITS` bits.
///
/// `n` words of a run, next to each other, hold `n` steps in their lowest bits, as many in the next bits, and so on;
/// a vector of the plane has what is in the same bits of all of them.
#[inline(always)]
fn plane<L: Lanes, B: Layout<G>, const G: usize, const BITS: usize, const IS_HIGH: bool>(
    lanes: L,
    rows: [&B; LANES],
    out: &mut [[u8; BYTES]],
) {
    let (n, run) = (8 / BITS, if IS_HIGH { B::HIGH_RUN } else { B::LOW_RUN } / 16);
    // Vectors that are read at once: 4, but 8 where a vector of the plane needs them all.
    let many = if n == 8 { 2 } else { 1 };
    let mut words = [lanes.bytes(&[0; BYTES]); 8];
    for first in (0..out.len() / 4).step_by(run) {
        for at in (0..run).step_by(many) {
            for i in 0..many {
                let mut parts = [&[0; 16]; LANES];
                for r in 0..LANES {
                    let field = if IS_HIGH { rows[r].high() } else { rows[r].low() };
                    parts[r] = &field.as_chunks().0[first + at + i];
                }
                let four = lanes.across(parts);
                for k in 0..4 {
                    words[4 * i + k] = four[k];
                }
            }
            for place in 0..n {
                let to = &mut out[4 * first + place * (4 * run / n) + 4 * at / n..][..4 * many / n];
                for v in 0..4 * many / n {
                    let (mask, shift) = (mask(BITS as u32), (place * BITS) as i32);
                    let mut vector = lanes.bits(words[v * n], shift, mask);
                    for k in 1..n {
                        let shift = shift - (k * BITS) as i32;
                        vector = lanes.or(vector, lanes.bits(words[v * n + k], shift, mask << (k * BITS)));
                    }
                    if B::Kind::SIGNED && B::TABLE.is_none() {
                        vector = lanes.flip(vector, B::ZERO);
                    }
                    lanes.put_bytes(vector, &mut to[v]);
                }
            }
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
