//! The layout of each quantised format.

use quant::*;

use super::layout::*;
use crate::lanes::{BYTES, LANES, Lanes};

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

/// Writes what K-quants with minimums have: `d`, `dmin` and the bytes of scales and minimums.
fn put_mins<const N: usize>(
    out: &mut [u8],
    d: [F16Le; LANES],
    dmin: [F16Le; LANES],
    scales: [[u8; N]; LANES],
) {
    put(&mut out[..32], d.map(|d| d.0));
    put(&mut out[32..64], dmin.map(|dmin| dmin.0));
    put_across(&mut out[64..], scales);
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
    ($block:ty, $kind:ty, low $low:literal, high $high:literal, zero $zero:literal $(, min $m:ident)? $(, table $table:expr)?) => {
        impl Layout<1> for $block {
            type Kind = $kind;
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
simple!(BlockQ5_0, Plain, low 4, high 1, zero 16);
simple!(BlockQ5_1, PlainMins, low 4, high 1, zero 0, min m);
simple!(BlockQ8_0, PlainSigned, low 8, high 0, zero 128);
simple!(BlockIQ4_NL, PlainSigned, low 4, high 0, zero 128, table IQ4_TABLE);

/// Formats of 256 values with eight 6-bit scales and minimums in 12 bytes.
macro_rules! scales_mins {
    ($block:ty, $kind:ty, high $high:literal) => {
        impl Layout<8> for $block {
            type Kind = $kind;
            const LOW: u32 = 4;
            const HIGH: u32 = $high;
            const ZERO: u8 = 0;
            const FACTORS: usize = 64 + 12 * LANES;

            fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
                put_mins(out, rows.map(|row| row.d), rows.map(|row| row.dmin), rows.map(|row| row.scales));
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
scales_mins!(BlockQ5_K, EightMins, high 1);

/// Formats of 256 values with signed scales, a byte for each group.
macro_rules! signed_scales {
    ($block:ty, $kind:ty, group $group:literal, low $low:literal, high $high:literal, zero $zero:literal, |$row:ident| $scales:expr $(, table $table:expr)?) => {
        impl Layout<8> for $block {
            type Kind = $kind;
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

signed_scales!(BlockQ3_K, Sixteen, group 16, low 2, high 1, zero 4, |row| row.scales());
signed_scales!(BlockQ6_K, Sixteen, group 16, low 4, high 2, zero 32, |row| row.scales);
signed_scales!(BlockIQ4_XS, EightSigned, group 32, low 4, high 0, zero 128, |row| row.scales(), table IQ4_TABLE);

impl Layout<8> for BlockQ2_K {
    type Kind = SixteenMins;
    const LOW: u32 = 2;
    const HIGH: u32 = 0;
    const ZERO: u8 = 0;
    const FACTORS: usize = 64 + 16 * LANES;

    fn pack_factors(rows: &[&Self; LANES], out: &mut [u8]) {
        put_mins(out, rows.map(|row| row.d), rows.map(|row| row.dmin), rows.map(|row| row.scales));
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
