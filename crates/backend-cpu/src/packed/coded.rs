//! The packed layout of formats whose file stores no planes: grids, ternary values, MXFP4 and NVFP4.
//!
//! A grid's vectors are looked up when a weight is packed; each value becomes a code of 3 or 4 bits, sign included. GEMV would
//! otherwise gather them from tables of up to 16 KB. Packed weights are larger than the file's: 3.1 to 3.3 bits per weight
//! for IQ1 and IQ2, 4.2 for IQ3, 2.1 for TQ1_0.

use quant::*;

use super::formats::{each_row, load_f16, sixteen, store_f16, store_grouped, table};
use super::layout::*;
use crate::lanes::{BYTES, LANES, Lanes};

/// Formats of a grid. Headers are the F16 scale, then the groups' scales as nibbles, two groups per byte.
macro_rules! grids {
    ($block:ty, $kind:ty, low $low:literal, zero $zero:literal) => {
        impl Layout<8> for $block {
            type Kind = $kind;
            const LOW: u32 = $low;
            const HIGH: u32 = 0;
            const ZERO: u8 = $zero;
            const TABLE: Option<[u8; 16]> = Some(table(<$block>::QUANTS, $zero));
            const FACTORS: usize = 32 + <$kind>::GROUPS / 2 * LANES;

            #[inline(always)]
            fn pack_planes<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
                pack_codes::<L, Self, 8>(lanes, &each_row!(rows, row => row.codes()), out);
            }

            #[inline(always)]
            fn pack_factors<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [u8]) {
                const STRIDE: usize = 16 / <$kind>::GROUPS;
                store_f16(&mut out[..32], each_row!(rows, row => row.d()));
                let mut scales = [[0; 16]; LANES];
                for r in 0..LANES {
                    let row_scales = rows[r].scales();
                    for pair in 0..<$kind>::GROUPS / 2 {
                        let at = 2 * pair * STRIDE;
                        scales[r][pair] = row_scales[at] | row_scales[at + STRIDE] << 4;
                    }
                }
                store_grouped(lanes, &mut out[32..], &lanes.transpose_4x16(scales.each_ref()));
            }

            #[inline(always)]
            fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                // `d * UNIT * (2 s + 1)`, which is exact.
                let d = lanes.mul(load_f16(lanes, from, 0), lanes.splat(<$block>::UNIT));
                let twice = lanes.add(d, d);
                for (part, packed) in from[32..].as_chunks::<BYTES>().0.iter().enumerate() {
                    let packed = lanes.load_u8(packed);
                    let (mut even, mut odd) = ([0; BYTES], [0; BYTES]);
                    lanes.store_u8(lanes.bits(packed, 0, 15), &mut even);
                    lanes.store_u8(lanes.bits(packed, 4, 15), &mut odd);
                    for g in 0..4 {
                        let at = part * 8 + 2 * g;
                        let (even, odd) = (sixteen(&even, g), sixteen(&odd, g));
                        let even = lanes.mul_add(lanes.u8_to_f32(even), twice, d);
                        let odd = lanes.mul_add(lanes.u8_to_f32(odd), twice, d);
                        lanes.store_f32(even, &mut out.scales[at]);
                        lanes.store_f32(odd, &mut out.scales[at + 1]);
                    }
                }
            }
        }
    };
}

grids!(BlockIQ1_S, Super8, low 3, zero 9);
grids!(BlockIQ1_M, Super16, low 3, zero 9);
grids!(BlockIQ2_XXS, Super8, low 3, zero 43);
grids!(BlockIQ2_XS, Super16, low 3, zero 43);
grids!(BlockIQ2_S, Super16, low 3, zero 43);
grids!(BlockIQ3_XXS, Super8, low 4, zero 62);
grids!(BlockIQ3_S, Super8, low 4, zero 15);

/// Ternary formats: one F16 scale per block, and quants of two bits.
macro_rules! ternary {
    ($block:ty, $($body:item)*) => {
        impl Layout<8> for $block {
            type Kind = Simple256;
            const LOW: u32 = 2;
            const HIGH: u32 = 0;
            const ZERO: u8 = 1;
            const FACTORS: usize = 32;

            $($body)*

            #[inline(always)]
            fn pack_factors<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [u8]) {
                store_f16(out, each_row!(rows, row => row.d));
            }

            #[inline(always)]
            fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
                lanes.store_f32(load_f16(lanes, from, 0), &mut out.scales[0]);
            }
        }
    };
}

ternary! {
    BlockTQ1_0,
    #[inline(always)]
    fn pack_planes<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        pack_codes::<L, Self, 8>(lanes, &each_row!(rows, row => row.codes()), out);
    }
}

ternary! {
    BlockTQ2_0,
    const LOW_RUN: usize = 32;

    #[inline(always)]
    fn low(&self) -> &[u8] {
        &self.qs
    }
}

/// Headers are the exponents of 16 rows.
impl Layout<1> for BlockMXFP4 {
    type Kind = Simple;
    const LOW: u32 = 4;
    const HIGH: u32 = 0;
    const ZERO: u8 = 12;
    const TABLE: Option<[u8; 16]> = Some(table(MXFP4_VALUES, 12));
    const FACTORS: usize = LANES;
    const LOW_RUN: usize = 16;

    #[inline(always)]
    fn low(&self) -> &[u8] {
        &self.qs
    }

    #[inline(always)]
    fn pack_factors<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [u8]) {
        out.copy_from_slice(&each_row!(rows, row => row.e));
    }

    #[inline(always)]
    fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
        lanes.store_f32(lanes.exponents_to_f32(sixteen(from, 0)), &mut out.scales[0]);
    }
}

/// Headers are the codes of the scales of 16 rows, group by group.
impl Layout<2> for BlockNVFP4 {
    type Kind = Simple16;
    const LOW: u32 = 4;
    const HIGH: u32 = 0;
    const ZERO: u8 = 12;
    const TABLE: Option<[u8; 16]> = Some(table(MXFP4_VALUES, 12));
    const FACTORS: usize = 4 * LANES;

    #[inline(always)]
    fn pack_planes<L: Lanes>(lanes: L, rows: [&Self; LANES], out: &mut [[u8; BYTES]]) {
        pack_codes::<L, Self, 2>(lanes, &each_row!(rows, row => row.codes()), out);
    }

    #[inline(always)]
    fn pack_factors<L: Lanes>(_: L, rows: [&Self; LANES], out: &mut [u8]) {
        for r in 0..LANES {
            for g in 0..4 {
                out[g * LANES + r] = if rows[r].d[g] == 0x7F { 0 } else { rows[r].d[g] };
            }
        }
    }

    /// The bits of E4M3, seven places up, are an F16 of `2^-8` times its value.
    #[inline(always)]
    fn load_factors<L: Lanes>(lanes: L, from: &[u8], out: &mut Factors) {
        for g in 0..4 {
            let codes = sixteen(from, g);
            let mut halves = [F16Le([0; 2]); LANES];
            for r in 0..LANES {
                halves[r] = F16Le((u16::from(codes[r] & 0x7F) << 7).to_le_bytes());
            }
            let scales = lanes.mul(lanes.load_f16(&halves), lanes.splat(128.0));
            lanes.store_f32(scales, &mut out.scales[g]);
        }
    }
}
