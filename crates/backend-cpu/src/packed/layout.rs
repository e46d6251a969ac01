//! The packed layout of a strip's blocks.
//!
//! A *step* is one 64-byte vector with four values of each of the 16 rows: byte `4r + j` is value `4s + j` of row `r`.
//! Steps hold unsigned quants: the format's value plus a constant zero point. Their low bits and, for formats of 3, 5 or
//! 6 bits, their high bits are stored in separate *planes*. A vector of a `b`-bit plane holds `8 / b` steps, the first in
//! the lowest bits; of a 3-bit plane, three vectors hold eight steps ([`three_bits`]). The planes of 32 values are
//! adjacent. Scales and minimums are the file's, interleaved by row.

use quant::*;

use crate::lanes::{BYTES, LANES, Lanes};

/// Maximum groups per block.
pub(crate) const GROUPS: usize = 16;

/// Scales and minimums of 16 rows of a block, by group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) scales: [[f32; LANES]; GROUPS],
    pub(crate) mins: [[f32; LANES]; GROUPS],
}

impl Factors {
    pub(crate) const ZERO: Factors = Factors { scales: [[0.0; LANES]; GROUPS], mins: [[0.0; LANES]; GROUPS] };
}

/// How a dot product with a block is summed. Formats of one kind share the kernel.
pub(crate) trait Kind: 'static {
    /// Values per scale.
    const GROUP: usize;
    /// Groups per block of activations.
    const GROUPS: usize;
    /// Whether groups have minimums; otherwise quants have a zero point.
    const MINS: bool;
    /// Whether the zero point is 128.
    const SIGNED: bool;
    /// Groups of 32 values, which have whole vectors in every plane.
    const UNROLL: usize = if Self::GROUP < 32 { 32 / Self::GROUP } else { 1 };
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
    Simple: 1 of 32, mins false, signed false;
    Simple16: 2 of 16, mins false, signed false;
    Simple256: 1 of 256, mins false, signed false;
    SimpleSigned: 1 of 32, mins false, signed true;
    SimpleMins: 1 of 32, mins true, signed false;
    Super8: 8 of 32, mins false, signed false;
    Super8Signed: 8 of 32, mins false, signed true;
    Super8Mins: 8 of 32, mins true, signed false;
    Super16: 16 of 16, mins false, signed false;
    Super16Mins: 16 of 16, mins true, signed false;
}

/// A block format that can be packed in strips. `G` is the number of 32-value groups per block.
pub(crate) trait Layout<const G: usize>: Groups<G> + Sync {
    type Kind: Kind;
    /// Bits per quant in the low plane.
    const LOW: u32;
    /// Bits per quant in the high plane; 0 without one.
    const HIGH: u32;
    /// Zero point; 128 for [`Kind::SIGNED`].
    const ZERO: u8;
    const TABLE: Option<[u8; 16]> = None;
    /// Bytes of the scales and minimums of 16 rows.
    const FACTORS: usize;
    /// Blocks of activations per block.
    const BLOCKS: usize = 32 * G / (Self::Kind::GROUP * Self::Kind::GROUPS);

    /// Bytes of a run of low bits in the file. The first values of a run use the lowest bits of its bytes, the next values
    /// the next bits, and so on. Formats with their own [`Layout::pack_planes`] need neither runs nor fields.
    const LOW_RUN: usize = 0;
    /// Bytes of a run of high bits.
    const HIGH_RUN: usize = 32;

    fn low(&self) -> &[u8] {
        &[]
    }
    fn high(&self) -> &[u8] {
        &[]
    }

    fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]);

    fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors);

    /// Largest value of a step.
    const MAX_WEIGHT: u8 = match Self::TABLE {
        None => mask(Self::LOW + Self::HIGH),
        Some(table) => largest(table),
    };

    /// Vectors per 32 values, both planes.
    const VECTORS: usize = (Self::LOW + Self::HIGH) as usize;

    /// Vectors per block.
    const PLANES: usize = G * Self::VECTORS;

    /// Blocks per *run*. Their scales and minimums fill whole vectors, which precede their planes.
    const RUN: usize = match Self::FACTORS.trailing_zeros() {
        6.. => 1,
        // A loop over eight blocks costs less per block than one over two.
        _ if G == 1 => 8,
        bits => BYTES >> bits,
    };

    /// Vectors of a run's scales and minimums.
    const HEADER: usize = {
        assert!(Self::RUN * Self::FACTORS % BYTES == 0, "whole vectors");
        Self::RUN * Self::FACTORS / BYTES
    };

    /// Packs the planes of 16 rows. The file's quants are unsigned, or signed where the zero point is 128.
    #[inline(always)]
    fn pack_planes<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        match Self::LOW {
            2 => plane::<L, Self, G, 2, false>(lanes, rows, out),
            4 => plane::<L, Self, G, 4, false>(lanes, rows, out),
            8 => plane::<L, Self, G, 8, false>(lanes, rows, out),
            bits => unreachable!("a low plane of {bits} bits"),
        }
        Self::pack_high(lanes, rows, out);
    }

    #[inline(always)]
    fn pack_high<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        match Self::HIGH {
            0 => {}
            1 => plane::<L, Self, G, 1, true>(lanes, rows, out),
            2 => plane::<L, Self, G, 2, true>(lanes, rows, out),
            bits => unreachable!("a high plane of {bits} bits"),
        }
    }

    #[inline(always)]
    fn step<L: Lanes>(lanes: L, planes: &[[u8; BYTES]], step: usize) -> L::Bytes {
        let (planes, step) = (&planes[step / 8 * Self::VECTORS..][..Self::VECTORS], step % 8);
        let mut values = if Self::LOW == 3 {
            three_bits(lanes, planes, step)
        } else {
            let (vector, shift) = place(step, Self::LOW);
            let values = lanes.load_u8(&planes[vector]);
            if Self::LOW < 8 { lanes.bits(values, shift as i32, mask(Self::LOW)) } else { values }
        };
        if Self::HIGH > 0 {
            let (vector, shift) = place(step, Self::HIGH);
            let high = lanes.load_u8(&planes[Self::LOW as usize + vector]);
            let down = shift as i32 - Self::LOW as i32;
            values = lanes.or(values, lanes.bits(high, down, mask(Self::HIGH) << Self::LOW));
        }
        match Self::TABLE {
            None => values,
            Some(table) => lanes.lookup(&table, values),
        }
    }
}

/// Packs the plane of 16 rows from codes, a byte per value in the order of the values.
#[inline(always)]
pub(crate) fn pack_codes<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    rows: &[[[u8; 32]; G]; LANES],
    out: &mut [[u8; BYTES]],
) {
    const { assert!(B::HIGH == 0, "one plane") };
    let bits = B::LOW as usize;
    for (g, out) in out.chunks_exact_mut(bits).enumerate() {
        let mut steps = [lanes.load_u8(&[0; BYTES]); 8];
        for half in 0..2 {
            let mut parts = [&[0; 16]; LANES];
            for r in 0..LANES {
                parts[r] = &rows[r][g].as_chunks().0[half];
            }
            let four = lanes.transpose_4x16(parts);
            for k in 0..4 {
                steps[4 * half + k] = four[k];
            }
        }
        if bits == 3 {
            pack_three_bits(lanes, &steps, out);
        } else {
            pack_steps(lanes, &steps, out);
        }
    }
}

/// Step `step` of the three vectors of 32 values. Each holds two of the first six steps in its low six bits. The first two
/// hold the low two bits of the other two steps above them, the third their top bits.
#[inline(always)]
fn three_bits<L: Lanes>(lanes: L, vectors: &[[u8; BYTES]], step: usize) -> L::Bytes {
    let Some(last) = step.checked_sub(6) else {
        return lanes.bits(lanes.load_u8(&vectors[step / 2]), (step % 2 * 3) as i32, 7);
    };
    let low = lanes.bits(lanes.load_u8(&vectors[last]), 6, 3);
    lanes.or(low, lanes.bits(lanes.load_u8(&vectors[2]), 4 + last as i32, 4))
}

/// Packs eight steps for [`three_bits`].
#[inline(always)]
fn pack_three_bits<L: Lanes>(lanes: L, steps: &[L::Bytes; 8], out: &mut [[u8; BYTES]]) {
    let top = lanes.or(lanes.bits(steps[6], -4, 64), lanes.bits(steps[7], -5, 128));
    let rest = [lanes.bits(steps[6], -6, 192), lanes.bits(steps[7], -6, 192), top];
    for (v, rest) in rest.into_iter().enumerate() {
        let two = lanes.or(lanes.bits(steps[2 * v], 0, 7), lanes.bits(steps[2 * v + 1], -3, 56));
        lanes.store_u8(lanes.or(two, rest), &mut out[v]);
    }
}

/// Packs eight steps into vectors of as many bits per value.
#[inline(always)]
fn pack_steps<L: Lanes>(lanes: L, steps: &[L::Bytes; 8], out: &mut [[u8; BYTES]]) {
    let (bits, n) = (out.len(), 8 / out.len());
    for (v, to) in out.iter_mut().enumerate() {
        let mut vector = lanes.bits(steps[v * n], 0, mask(bits as u32));
        for k in 1..n {
            let shift = k * bits;
            vector =
                lanes.or(vector, lanes.bits(steps[v * n + k], -(shift as i32), mask(bits as u32) << shift));
        }
        lanes.store_u8(vector, to);
    }
}

/// Packs a plane of `BITS` bits per quant.
///
/// `n = 8 / BITS` neighbouring words of a run hold `n` steps in their lowest bits, the next `n` steps in the next bits, and
/// so on. A vector of the plane joins the same bits of all `n` words. `out` holds both planes.
#[inline(always)]
fn plane<L: Lanes, B: Layout<G>, const G: usize, const BITS: usize, const IS_HIGH: bool>(
    lanes: L,
    rows: [&B; LANES],
    out: &mut [[u8; BYTES]],
) {
    let (n, run) = (8 / BITS, if IS_HIGH { B::HIGH_RUN } else { B::LOW_RUN } / 16);
    // Reads 4 vectors at a time, or 8 where one vector of the plane needs 8.
    let many = if n == 8 { 2 } else { 1 };
    let mut words = [lanes.load_u8(&[0; BYTES]); 8];
    for first in (0..G * BITS / 4).step_by(run) {
        for at in (0..run).step_by(many) {
            for i in 0..many {
                let mut parts = [&[0; 16]; LANES];
                for r in 0..LANES {
                    let field = if IS_HIGH { rows[r].high() } else { rows[r].low() };
                    parts[r] = &field.as_chunks().0[first + at + i];
                }
                let four = lanes.transpose_4x16(parts);
                for k in 0..4 {
                    words[4 * i + k] = four[k];
                }
            }
            for place in 0..n {
                let to = 4 * first + place * (4 * run / n) + 4 * at / n;
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
                    // The low plane comes first.
                    let (unit, at) = ((to + v) / BITS, (to + v) % BITS);
                    let at = if IS_HIGH { B::LOW as usize + at } else { at };
                    lanes.store_u8(vector, &mut out[unit * B::VECTORS + at]);
                }
            }
        }
    }
}

/// Vector index and shift of a step in a plane of `bits` bits.
#[inline(always)]
fn place(step: usize, bits: u32) -> (usize, u32) {
    let steps = 8 / bits as usize;
    (step / steps, (step % steps) as u32 * bits)
}

const fn largest(table: [u8; 16]) -> u8 {
    let (mut largest, mut i) = (0, 0);
    while i < 16 {
        largest = if table[i] > largest { table[i] } else { largest };
        i += 1;
    }
    largest
}

#[inline(always)]
const fn mask(bits: u32) -> u8 {
    (0xFF_u16 >> (8 - bits)) as u8
}
