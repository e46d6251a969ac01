//! The packed layout of each quantised format.

use quant::*;
use zerocopy::IntoBytes;

use super::layout::*;
use crate::lanes::{BYTES, LANES, Lanes};

/// Evaluates an expression for each of 16 rows. A loop, because a closure would not inherit the target features.
macro_rules! each_row {
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
pub(super) use each_row;

#[inline(always)]
pub(super) fn store_f16(out: &mut [u8], halves: [F16Le; LANES]) {
    for (to, half) in out.as_chunks_mut().0.iter_mut().zip(&halves) {
        *to = half.0;
    }
}

/// Writes vectors with bytes grouped: byte 0 of all rows, then byte 1, and so on.
#[inline(always)]
pub(super) fn store_grouped<L: Lanes>(lanes: L, out: &mut [u8], vectors: &[L::Bytes]) {
    for (to, &vector) in out.as_chunks_mut().0.iter_mut().zip(vectors) {
        lanes.store_u8(lanes.deinterleave_u8(vector), to);
    }
}

/// Writes two F16 per row: the first of all rows, then the second of all rows.
#[inline(always)]
fn store_f16_pairs<L: Lanes>(lanes: L, out: &mut [u8], vector: L::Bytes) {
    lanes.store_u8(lanes.deinterleave_u16(vector), (&mut out[..BYTES]).try_into().expect("64 bytes"));
}

/// Packs 32 sequential bits per row into a 1-bit plane.
#[inline(always)]
fn pack_bits(out: &mut [u8; BYTES], rows: [[u8; 4]; LANES]) {
    let mut words = [0; LANES];
    for r in 0..LANES {
        words[r] = u32::from_le_bytes(rows[r]);
    }
    let mut bits = [0; LANES];
    for r in 0..LANES {
        for j in 0..4 {
            // Moves bit `4s + j` to bit `s` of byte `j`.
            let every = words[r] >> j & 0x1111_1111;
            let pairs = (every | every >> 3) & 0x0303_0303;
            let halves = (pairs | pairs >> 6) & 0x000F_000F;
            bits[r] |= ((halves | halves >> 12) & 0xFF) << (8 * j);
        }
    }
    for r in 0..LANES {
        out.as_chunks_mut().0[r] = bits[r].to_le_bytes();
    }
}

/// Loads 16 F16 at byte offset `at`.
#[inline(always)]
pub(super) fn load_f16<L: Lanes>(lanes: L, from: &[u8], at: usize) -> L::Floats {
    let halves = F16Le::slice(&from[at..at + 2 * LANES]);
    lanes.load_f16(halves.try_into().expect("16 halves"))
}

#[inline(always)]
pub(super) fn sixteen(from: &[u8], number: usize) -> &[u8; LANES] {
    from[number * LANES..][..LANES].try_into().expect("16 bytes")
}

/// The lookup table of codes: quants plus `zero`.
pub(super) const fn table(quants: [i8; 16], zero: u8) -> [u8; 16] {
    let (mut table, mut i) = ([0; 16], 0);
    while i < 16 {
        table[i] = (quants[i] as i16 + zero as i16) as u8;
        i += 1;
    }
    table
}

/// Formats with one scale, and possibly a minimum, per block of 32.
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
                pack_bits(&mut out[Self::LOW as usize], each_row!(rows, row => row.$qh));
            })?

            #[inline(always)]
            fn pack_factors<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [u8]) {
                store_f16(&mut out[..32], each_row!(rows, row => row.d));
                $(store_f16(&mut out[32..64], each_row!(rows, row => row.$m));)?
            }

            #[inline(always)]
            fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                lanes.store_f32(load_f16(lanes, from, 0), &mut out.scales[0]);
                if Self::OFFSETS {
                    lanes.store_f32(load_f16(lanes, from, 32), &mut out.mins[0]);
                }
            }
        }
    };
}

simple!(BlockQ4_0, Simple, low 4, high 0, zero 8);
simple!(BlockQ4_1, SimpleMins, low 4, high 0, zero 0, min m);
simple!(BlockQ5_0, Simple, low 4, high 1 qh, zero 16);
simple!(BlockQ5_1, SimpleMins, low 4, high 1 qh, zero 0, min m);
simple!(BlockQ8_0, SimpleSigned, low 8, high 0, zero 128);
simple!(BlockIQ4_NL, SimpleSigned, low 4, high 0, zero 128, table table(IQ4_VALUES, 128));

/// K-quants with eight 6-bit scales and minimums in 12 bytes.
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

            /// The first 16 bytes are `d`, `dmin` and the scales.
            #[inline(always)]
            fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
                let vectors = lanes.transpose_4x16(each_row!(rows, row => &row.as_bytes().as_chunks().0[0]));
                store_f16_pairs(lanes, out, vectors[0]);
                store_grouped(lanes, &mut out[BYTES..], &vectors[1..]);
            }

            #[inline(always)]
            fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = load_f16(lanes, from, 0);
                let dmin = lanes.mul(load_f16(lanes, from, 32), lanes.splat(-1.0));
                let packed = from[64..].as_chunks::<BYTES>().0;
                let (low, mid, both) =
                    (lanes.load_u8(&packed[0]), lanes.load_u8(&packed[1]), lanes.load_u8(&packed[2]));
                let (low_top, mid_top) = (lanes.bits(low, 2, 48), lanes.bits(mid, 2, 48));
                let mut codes = [[0; BYTES]; 4];
                lanes.store_u8(lanes.bits(low, 0, 63), &mut codes[0]);
                lanes.store_u8(lanes.or(lanes.bits(both, 0, 15), low_top), &mut codes[1]);
                lanes.store_u8(lanes.bits(mid, 0, 63), &mut codes[2]);
                lanes.store_u8(lanes.or(lanes.bits(both, 4, 15), mid_top), &mut codes[3]);
                let bytes = codes.as_flattened();
                for g in 0..8 {
                    lanes.store_f32(lanes.mul(d, lanes.u8_to_f32(sixteen(bytes, g))), &mut out.scales[g]);
                    lanes.store_f32(lanes.mul(dmin, lanes.u8_to_f32(sixteen(bytes, 8 + g))), &mut out.mins[g]);
                }
            }
        }
    };
}

scales_mins!(BlockQ4_K, Super8Mins, high 0);
scales_mins!(BlockQ5_K, Super8Mins, high 1 qh);

/// Super-block formats with one signed 8-bit scale per group.
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
                store_f16(&mut out[..32], each_row!(rows, row => row.d));
                let mut scales = [[0; 16]; LANES];
                for r in 0..LANES {
                    let $row = rows[r];
                    scales[r][..256 / $group].copy_from_slice($scales.as_bytes());
                }
                store_grouped(lanes, &mut out[32..], &lanes.transpose_4x16(scales.each_ref()));
            }

            #[inline(always)]
            fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                let d = load_f16(lanes, from, 0);
                for g in 0..256 / $group {
                    let scales = bytemuck::cast_ref(sixteen(&from[32..], g));
                    lanes.store_f32(lanes.mul(d, lanes.i8_to_f32(scales)), &mut out.scales[g]);
                }
            }
        }
    };
}

signed_scales!(BlockQ3_K, Super16, group 16, low 2 in 32 of qs, high 1 of hmask, zero 4, |row| row.scales());
signed_scales!(BlockQ6_K, Super16, group 16, low 4 in 64 of ql, high 2 of qh, zero 32, |row| row.scales);
signed_scales!(BlockIQ4_XS, Super8Signed, group 32, low 4 in 16 of qs, high 0, zero 128, |row| row.scales(), table table(IQ4_VALUES, 128));

impl Layout<8> for BlockQ2_K {
    type Kind = Super16Mins;
    const LOW: u32 = 2;
    const HIGH: u32 = 0;
    const ZERO: u8 = 0;
    const FACTORS: usize = 64 + 16 * LANES;

    const LOW_RUN: usize = 32;

    #[inline(always)]
    fn low(&self) -> &[u8] {
        &self.qs
    }

    /// The last four bytes are `d` and `dmin`.
    #[inline(always)]
    fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
        let [.., last] = lanes.transpose_4x16(each_row!(rows, row => &row.as_bytes().as_rchunks().1[4]));
        store_f16_pairs(lanes, out, last);
        store_grouped(lanes, &mut out[BYTES..], &lanes.transpose_4x16(each_row!(rows, row => &row.scales)));
    }

    #[inline(always)]
    fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
        let d = load_f16(lanes, from, 0);
        let dmin = lanes.mul(load_f16(lanes, from, 32), lanes.splat(-1.0));
        for (part, packed) in from[64..].as_chunks::<BYTES>().0.iter().take(4).enumerate() {
            let packed = lanes.load_u8(packed);
            let (mut scales, mut mins) = ([0; BYTES], [0; BYTES]);
            lanes.store_u8(lanes.bits(packed, 0, 15), &mut scales);
            lanes.store_u8(lanes.bits(packed, 4, 15), &mut mins);
            for g in 0..4 {
                let at = part * 4 + g;
                lanes.store_f32(lanes.mul(d, lanes.u8_to_f32(sixteen(&scales, g))), &mut out.scales[at]);
                lanes.store_f32(lanes.mul(dmin, lanes.u8_to_f32(sixteen(&mins, g))), &mut out.mins[at]);
            }
        }
    }
}
