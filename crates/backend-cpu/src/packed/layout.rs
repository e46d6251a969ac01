//! How the blocks of 16 rows lie together, by format.
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
    pub(crate) const ZERO: Factors =
        Factors { scales: [[0.0; LANES]; GROUPS], mins: [[0.0; LANES]; GROUPS] };
}

/// A block format whose rows can lie in strips. `G` is the block's number of groups of 32.
pub(crate) trait Layout<const G: usize>: Groups<G> + Sync {
    /// Values under one scale.
    const GROUP: usize;
    /// Bits of the low plane.
    const LOW: u32;
    /// Bits of the high plane; 0 when there is none.
    const HIGH: u32;
    /// What is added to make numbers unsigned.
    const ZERO: u8;
    /// What the unsigned numbers are indices of, if they are.
    const TABLE: Option<[u8; 16]> = None;
    /// Bytes that scales and minimums of 16 rows take.
    const FACTORS: usize;

    /// Writes scales and minimums of 16 rows side by side.
    fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]);

    /// Reads them.
    fn read_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors);

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
            numbers = lanes.bits(numbers, shift, mask(Self::LOW));
        }
        if Self::HIGH > 0 {
            let (vector, shift) = place(step, Self::HIGH);
            let high = lanes.bits(lanes.bytes(&planes[G * Self::LOW as usize + vector]), shift, mask(Self::HIGH));
            numbers = lanes.join(numbers, high, Self::LOW);
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

/// Writes one number of each row.
fn put<const N: usize>(out: &mut [u8], numbers: [[u8; N]; LANES]) {
    out.copy_from_slice(numbers.as_flattened());
}

/// Writes bytes of each row, the first ones of all rows first.
fn put_across<const N: usize>(out: &mut [u8], rows: [[u8; N]; LANES]) {
    for (at, row) in out.chunks_exact_mut(LANES).enumerate() {
        for (to, from) in row.iter_mut().zip(&rows) {
            *to = from[at];
        }
    }
}

/// Sixteen F16 from byte `at` on.
#[inline(always)]
fn halves<L: Lanes>(lanes: L, from: &[u8], at: usize) -> L::Floats {
    let halves = F16Le::slice(&from[at..at + 2 * LANES]);
    lanes.halves(halves.try_into().expect("16 halves"))
}

#[inline(always)]
fn sixteen(from: &[u8], number: usize) -> &[u8; LANES] {
    from[number * LANES..][..LANES].try_into().expect("16 bytes")
}

const ZERO_128: u8 = 128;

const IQ4_TABLE: [u8; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = (IQ4_VALUES[i] as i16 + 128) as u8;
        i += 1;
    }
    table
};

/// Formats of 32 values under one scale, with or without a minimum.
macro_rules! simple {
    ($block:ty, low $low:literal, high $high:literal, zero $zero:expr $(, min $m:ident)? $(, table $table:expr)?) => {
        impl Layout<1> for $block {
            const GROUP: usize = 32;
            const LOW: u32 = $low;
            const HIGH: u32 = $high;
            const ZERO: u8 = $zero;
            $(const TABLE: Option<[u8; 16]> = Some($table);)?
            const FACTORS: usize = if <$block as Groups<1>>::OFFSETS { 64 } else { 32 };

            fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
                put(&mut out[..32], rows.map(|row| row.d.0));
                $(put(&mut out[32..64], rows.map(|row| row.$m.0));)?
            }

            #[inline(always)]
            fn read_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                lanes.put(halves(lanes, from, 0), &mut out.scales[0]);
                if Self::OFFSETS {
                    lanes.put(halves(lanes, from, 32), &mut out.mins[0]);
                }
            }
        }
    };
}

simple!(BlockQ4_0, low 4, high 0, zero 8);
simple!(BlockQ4_1, low 4, high 0, zero 0, min m);
simple!(BlockQ5_0, low 4, high 1, zero 16);
simple!(BlockQ5_1, low 4, high 1, zero 0, min m);
simple!(BlockQ8_0, low 8, high 0, zero ZERO_128);
simple!(BlockIQ4_NL, low 4, high 0, zero ZERO_128, table IQ4_TABLE);

/// Formats of 256 values with eight 6-bit scales and minimums in 12 bytes.
macro_rules! scales_mins {
    ($block:ty, high $high:literal) => {
        impl Layout<8> for $block {
            const GROUP: usize = 32;
            const LOW: u32 = 4;
            const HIGH: u32 = $high;
            const ZERO: u8 = 0;
            const FACTORS: usize = 64 + 12 * LANES;

            fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
                put(&mut out[..32], rows.map(|row| row.d.0));
                put(&mut out[32..64], rows.map(|row| row.dmin.0));
                put_across(&mut out[64..], rows.map(|row| row.scales));
            }

            #[inline(always)]
            fn read_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = halves(lanes, from, 0);
                let dmin = lanes.mul(halves(lanes, from, 32), lanes.splat(-1.0));
                let packed = from[64..].as_chunks::<BYTES>().0;
                let [low, mid, both] = [0, 1, 2].map(|i| lanes.bytes(&packed[i]));
                let top = |bytes| lanes.bits(bytes, 6, 3);
                let codes = [
                    lanes.bits(low, 0, 63),
                    lanes.join(lanes.bits(both, 0, 15), top(low), 4),
                    lanes.bits(mid, 0, 63),
                    lanes.join(lanes.bits(both, 4, 15), top(mid), 4),
                ];
                let mut bytes = [[0; BYTES]; 4];
                for (codes, bytes) in codes.into_iter().zip(&mut bytes) {
                    lanes.put_bytes(codes, bytes);
                }
                let bytes = bytes.as_flattened();
                for g in 0..8 {
                    lanes.put(lanes.mul(d, lanes.unsigned(sixteen(bytes, g))), &mut out.scales[g]);
                    lanes.put(lanes.mul(dmin, lanes.unsigned(sixteen(bytes, 8 + g))), &mut out.mins[g]);
                }
            }
        }
    };
}

scales_mins!(BlockQ4_K, high 0);
scales_mins!(BlockQ5_K, high 1);

/// Formats of 256 values with signed scales, a byte for each group.
macro_rules! signed_scales {
    ($block:ty, group $group:literal, low $low:literal, high $high:literal, zero $zero:expr, |$row:ident| $scales:expr $(, table $table:expr)?) => {
        impl Layout<8> for $block {
            const GROUP: usize = $group;
            const LOW: u32 = $low;
            const HIGH: u32 = $high;
            const ZERO: u8 = $zero;
            $(const TABLE: Option<[u8; 16]> = Some($table);)?
            const FACTORS: usize = 32 + 256 / $group * LANES;

            fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
                put(&mut out[..32], rows.map(|row| row.d.0));
                put_across(&mut out[32..], rows.map(|$row| $scales.map(|scale| scale as u8)));
            }

            #[inline(always)]
            fn read_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = halves(lanes, from, 0);
                for g in 0..256 / $group {
                    let scales = sixteen(&from[32..], g).each_ref().map(|&scale| scale as i8);
                    lanes.put(lanes.mul(d, lanes.signed(&scales)), &mut out.scales[g]);
                }
            }
        }
    };
}

signed_scales!(BlockQ3_K, group 16, low 2, high 1, zero 4, |row| row.scales());
signed_scales!(BlockQ6_K, group 16, low 4, high 2, zero 32, |row| row.scales);
signed_scales!(BlockIQ4_XS, group 32, low 4, high 0, zero ZERO_128, |row| row.scales(), table IQ4_TABLE);

impl Layout<8> for BlockQ2_K {
    const GROUP: usize = 16;
    const LOW: u32 = 2;
    const HIGH: u32 = 0;
    const ZERO: u8 = 0;
    const FACTORS: usize = 64 + 16 * LANES;

    fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
        put(&mut out[..32], rows.map(|row| row.d.0));
        put(&mut out[32..64], rows.map(|row| row.dmin.0));
        put_across(&mut out[64..], rows.map(|row| row.scales));
    }

    #[inline(always)]
    fn read_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
        let d = halves(lanes, from, 0);
        let dmin = lanes.mul(halves(lanes, from, 32), lanes.splat(-1.0));
        for (part, packed) in from[64..].as_chunks::<BYTES>().0.iter().take(4).enumerate() {
            let packed = lanes.bytes(packed);
            let (mut scales, mut mins) = ([0; BYTES], [0; BYTES]);
            lanes.put_bytes(lanes.bits(packed, 0, 15), &mut scales);
            lanes.put_bytes(lanes.bits(packed, 4, 15), &mut mins);
            for g in 0..4 {
                let at = part * 4 + g;
                lanes.put(lanes.mul(d, lanes.unsigned(sixteen(&scales, g))), &mut out.scales[at]);
                lanes.put(lanes.mul(dmin, lanes.unsigned(sixteen(&mins, g))), &mut out.mins[at]);
            }
        }
    }
}
