//! The layout of each quantised format.

use quant::*;
use zerocopy::IntoBytes;

use super::layout::*;
use crate::lanes::{BYTES, LANES, Lanes};

/// What an expression gives for each of 16 rows, by a loop: a closure would be compiled without the instruction set.
macro_rules! of_each {
    ($rows:ident, $row:ident => $what:expr) => {{
        let $row = $rows[0];
        let mut all = [$what; LANES];
        for r in 1..LANES {
            let $row = $rows[r];
            all[r] = $what;
        }
        all
    }};
}

/// Writes 16 F16.
#[inline(always)]
fn put_halves(out: &mut [u8], halves: [F16Le; LANES]) {
    for (to, half) in out.as_chunks_mut().0.iter_mut().zip(&halves) {
        *to = half.0;
    }
}

/// Of vectors of four bytes a row writes the first bytes of all rows, then the second ones, and so on.
#[inline(always)]
fn put_apart<L: Lanes>(lanes: L, out: &mut [u8], vectors: &[L::Bytes]) {
    for (to, &vector) in out.as_chunks_mut().0.iter_mut().zip(vectors) {
        lanes.put_bytes(lanes.bytes_apart(vector), to);
    }
}

/// Writes two F16 of each row, first those of all rows that come first.
#[inline(always)]
fn put_pairs<L: Lanes>(lanes: L, out: &mut [u8], vector: L::Bytes) {
    lanes.put_bytes(lanes.halves_apart(vector), (&mut out[..BYTES]).try_into().expect("64 bytes"));
}

/// Writes the bits of 32 numbers of each row, which are in their order, as a plane of one bit.
#[inline(always)]
fn put_in_order(out: &mut [[u8; BYTES]], rows: [[u8; 4]; LANES]) {
    let mut words = [0; LANES];
    for r in 0..LANES {
        words[r] = u32::from_le_bytes(rows[r]);
    }
    let mut turned = [0; LANES];
    for r in 0..LANES {
        for j in 0..4 {
            // Bit `4s + j` to bit `s` of byte `j`.
            let every = words[r] >> j & 0x1111_1111;
            let pairs = (every | every >> 3) & 0x0303_0303;
            let halves = (pairs | pairs >> 6) & 0x000F_000F;
            turned[r] |= ((halves | halves >> 12) & 0xFF) << (8 * j);
        }
    }
    for r in 0..LANES {
        out[0].as_chunks_mut().0[r] = turned[r].to_le_bytes();
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
    ($block:ty, $kind:ty, low $low:literal, high $high:literal $($qh:ident)?, zero $zero:literal $(, min $m:ident)? $(, table $table:expr)?) => {
        impl Layout<1> for $block {
            type Kind = $kind;
            const LOW: u32 = $low;
            const HIGH: u32 = $high;
            const ZERO: u8 = $zero;
            $(const TABLE: Option<[u8; 16]> = Some($table);)?
            const FACTORS: usize = if <$block as Groups<1>>::OFFSETS { 64 } else { 32 };
            const LOW_RUN: usize = 4 * $low;

            #[inline(always)]
            fn low(&self) -> &[u8] {
                self.qs.as_bytes()
            }

            $(#[inline(always)]
            fn pack_high<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
                put_in_order(out, of_each!(rows, row => row.$qh));
            })?

            #[inline(always)]
            fn pack_factors<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [u8]) {
                put_halves(&mut out[..32], of_each!(rows, row => row.d));
                $(put_halves(&mut out[32..64], of_each!(rows, row => row.$m));)?
            }

            #[inline(always)]
            fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                lanes.put(halves(lanes, from, 0), &mut out.scales[0]);
                if Self::OFFSETS {
                    lanes.put(halves(lanes, from, 32), &mut out.mins[0]);
                }
            }
        }
    };
}

simple!(BlockQ4_0, Plain, low 4, high 0, zero 8);
simple!(BlockQ4_1, PlainMins, low 4, high 0, zero 0, min m);
simple!(BlockQ5_0, Plain, low 4, high 1 qh, zero 16);
simple!(BlockQ5_1, PlainMins, low 4, high 1 qh, zero 0, min m);
simple!(BlockQ8_0, PlainSigned, low 8, high 0, zero 128);
simple!(BlockIQ4_NL, PlainSigned, low 4, high 0, zero 128, table IQ4_TABLE);

/// Formats of 256 values with eight 6-bit scales and minimums in 12 bytes.
macro_rules! scales_mins {
    ($block:ty, $kind:ty, high $high:literal $($qh:ident)?) => {
        impl Layout<8> for $block {
            type Kind = $kind;
            const LOW: u32 = 4;
            const HIGH: u32 = $high;
            const ZERO: u8 = 0;
            const FACTORS: usize = 64 + 12 * LANES;

            const LOW_RUN: usize = 32;

            #[inline(always)]
            fn low(&self) -> &[u8] {
                &self.qs
            }

            $(#[inline(always)]
            fn high(&self) -> &[u8] {
                &self.$qh
            })?

            /// `d`, `dmin` and the scales are the first 16 bytes.
            #[inline(always)]
            fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
                let vectors = lanes.across(of_each!(rows, row => &row.as_bytes().as_chunks().0[0]));
                put_pairs(lanes, out, vectors[0]);
                put_apart(lanes, &mut out[BYTES..], &vectors[1..]);
            }

            #[inline(always)]
            fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = halves(lanes, from, 0);
                let dmin = lanes.mul(halves(lanes, from, 32), lanes.splat(-1.0));
                let packed = from[64..].as_chunks::<BYTES>().0;
                let (low, mid, both) =
                    (lanes.bytes(&packed[0]), lanes.bytes(&packed[1]), lanes.bytes(&packed[2]));
                let (low_top, mid_top) = (lanes.bits(low, 2, 48), lanes.bits(mid, 2, 48));
                let mut codes = [[0; BYTES]; 4];
                lanes.put_bytes(lanes.bits(low, 0, 63), &mut codes[0]);
                lanes.put_bytes(lanes.or(lanes.bits(both, 0, 15), low_top), &mut codes[1]);
                lanes.put_bytes(lanes.bits(mid, 0, 63), &mut codes[2]);
                lanes.put_bytes(lanes.or(lanes.bits(both, 4, 15), mid_top), &mut codes[3]);
                let bytes = codes.as_flattened();
                for g in 0..8 {
                    lanes.put(lanes.mul(d, lanes.unsigned(sixteen(bytes, g))), &mut out.scales[g]);
                    lanes.put(lanes.mul(dmin, lanes.unsigned(sixteen(bytes, 8 + g))), &mut out.mins[g]);
                }
            }
        }
    };
}

scales_mins!(BlockQ4_K, EightMins, high 0);
scales_mins!(BlockQ5_K, EightMins, high 1 qh);

/// Formats of 256 values with signed scales, a byte for each group.
macro_rules! signed_scales {
    ($block:ty, $kind:ty, group $group:literal, low $low:literal in $run:literal of $qs:ident, high $high:literal $(of $qh:ident)?, zero $zero:literal, |$row:ident| $scales:expr $(, table $table:expr)?) => {
        impl Layout<8> for $block {
            type Kind = $kind;
            const LOW: u32 = $low;
            const HIGH: u32 = $high;
            const ZERO: u8 = $zero;
            $(const TABLE: Option<[u8; 16]> = Some($table);)?
            const FACTORS: usize = 32 + 256 / $group * LANES;

            const LOW_RUN: usize = $run;

            #[inline(always)]
            fn low(&self) -> &[u8] {
                self.$qs.as_bytes()
            }

            $(#[inline(always)]
            fn high(&self) -> &[u8] {
                &self.$qh
            })?

            #[inline(always)]
            fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
                put_halves(&mut out[..32], of_each!(rows, row => row.d));
                let mut scales = [[0; 16]; LANES];
                for r in 0..LANES {
                    let $row = rows[r];
                    scales[r][..256 / $group].copy_from_slice($scales.as_bytes());
                }
                put_apart(lanes, &mut out[32..], &lanes.across(scales.each_ref()));
            }

            #[inline(always)]
            fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = halves(lanes, from, 0);
                for g in 0..256 / $group {
                    let scales = bytemuck::cast_ref(sixteen(&from[32..], g));
                    lanes.put(lanes.mul(d, lanes.signed(scales)), &mut out.scales[g]);
                }
            }
        }
    };
}

signed_scales!(BlockQ3_K, Sixteen, group 16, low 2 in 32 of qs, high 1 of hmask, zero 4, |row| row.scales());
signed_scales!(BlockQ6_K, Sixteen, group 16, low 4 in 64 of ql, high 2 of qh, zero 32, |row| row.scales);
signed_scales!(BlockIQ4_XS, EightSigned, group 32, low 4 in 16 of qs, high 0, zero 128, |row| row.scales(), table IQ4_TABLE);

impl Layout<8> for BlockQ2_K {
    type Kind = SixteenMins;
    const LOW: u32 = 2;
    const HIGH: u32 = 0;
    const ZERO: u8 = 0;
    const FACTORS: usize = 64 + 16 * LANES;

    const LOW_RUN: usize = 32;

    #[inline(always)]
    fn low(&self) -> &[u8] {
        &self.qs
    }

    /// `d` and `dmin` are the last four bytes.
    #[inline(always)]
    fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
        let [.., last] = lanes.across(of_each!(rows, row => &row.as_bytes().as_rchunks().1[4]));
        put_pairs(lanes, out, last);
        put_apart(lanes, &mut out[BYTES..], &lanes.across(of_each!(rows, row => &row.scales)));
    }

    #[inline(always)]
    fn factors_of<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
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
