//! Tests: packed strips against blocks unpacked value by value.

use std::marker::PhantomData;
use std::sync::Arc;

use quant::*;
use zerocopy::FromBytes;

use crate::lanes::scalar::Scalar;
use crate::lanes::{BYTES, LANES, Lanes, WithSimd};
use crate::memory::{Line, Lines};
use crate::packed::floats::{self, Float};
use crate::packed::layout::{Factors, Kind, Layout};
use crate::packed::{Packed, Scratch, pack, strip_lines};
use crate::pool::Pool;

/// (rows, blocks), with whole and partial strips and runs.
const SHAPES: [(usize, usize); 5] = [(1, 1), (16, 3), (33, 2), (45, 5), (18, 19)];

/// Runs `check` with each instruction set of this CPU.
fn each(check: impl WithSimd + Copy) {
    Scalar.run(check);
    #[cfg(target_arch = "x86_64")]
    {
        use crate::lanes::{avx2::Avx2, avx512::Avx512};
        match Avx2::detect() {
            Some(lanes) => lanes.run(check),
            None => eprintln!("skipped: this CPU has no AVX2"),
        }
        match Avx512::detect() {
            Some(lanes) => lanes.run(check),
            None => eprintln!("skipped: this CPU has no AVX-512 with VNNI"),
        }
    }
}

/// Value `value` of row `r` plus the zero point: byte `4r + j` of a plane's vector belongs to value `4s + j` of row `r`.
fn number<B: Layout<G>, const G: usize>(planes: &[[u8; BYTES]], r: usize, value: usize) -> u8 {
    let of_32 = planes.len() / G;
    let (low, high) = planes[value / 32 * of_32..][..of_32].split_at(B::LOW as usize);
    let bits = |plane: &[[u8; BYTES]], bits: u32| {
        let (step, steps) = (value % 32 / 4, 8 / bits as usize);
        let shift = step % steps * bits as usize;
        u32::from(plane[step / steps][4 * r + value % 4]) >> shift & ((1 << bits) - 1)
    };
    let high = if B::HIGH > 0 { bits(high, B::HIGH) << B::LOW } else { 0 };
    let three_bits = || {
        let step = value % 32 / 4;
        let byte = |vector: usize| u32::from(low[vector][4 * r + value % 4]);
        if step < 6 {
            byte(step / 2) >> (step % 2 * 3) & 7
        } else {
            byte(step - 6) >> 6 | byte(2) >> (step - 2) & 4
        }
    };
    let low = if B::LOW == 3 { three_bits() } else { bits(low, B::LOW) };
    let code = (low | high) as u8;
    // Two codes of a table may stand for the same number.
    B::TABLE.map_or(code, |table| table[usize::from(code)])
}

/// Scales and minimums of block `b`, and its planes. Runs end where scales and minimums fill whole vectors; of blocks of 32
/// values that do not, after eight.
fn parts_of<B: Layout<G>, const G: usize>(blocks: &[[u8; BYTES]], b: usize) -> (&[u8], &[[u8; BYTES]]) {
    let fills = |blocks: &usize| (blocks * B::FACTORS).is_multiple_of(BYTES);
    let run = if G == 1 && !fills(&1) { 8 } else { (1..).find(fills).expect("64 blocks do") };
    let (header, at) = (run * B::FACTORS / BYTES, b % run);
    let (header, planes) = blocks[b / run * (header + run * B::PLANES)..].split_at(header);
    (&header.as_flattened()[at * B::FACTORS..][..B::FACTORS], &planes[at * B::PLANES..][..B::PLANES])
}

/// The matrix that `pack` writes.
fn in_memory(strip: usize, shape: [usize; 3], pack: impl FnOnce(&mut [Line])) -> Packed {
    let len = shape[1].div_ceil(LANES) * strip;
    let mut lines = Lines::large(len).expect("enough memory");
    pack(&mut lines.all_mut()[..len]);
    Packed::all(&Arc::new(lines), 0, strip, shape).pop().expect("one matrix")
}

/// Checks a quantised format.
struct Quantized<B, const G: usize>(PhantomData<B>);

impl<B, const G: usize> Clone for Quantized<B, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, const G: usize> Copy for Quantized<B, G> {}

impl<B: Layout<G>, const G: usize> WithSimd for Quantized<B, G> {
    fn with_simd<L: Lanes>(self, lanes: L) {
        let format = B::FORMAT;
        let nothing = B::new_zeroed();
        for (rows, blocks) in SHAPES {
            let cols = 32 * G * blocks;
            let bytes = testkit::random_matrix(format, rows * cols, 0.1, 7);
            let matrix = <[B]>::ref_from_bytes(&bytes).expect("whole blocks");
            let shape = [1, rows, cols];
            let in_memory = in_memory(strip_lines::<B, G>(cols), shape, |to| {
                pack::<L, B, G>(lanes, &mut Pool::new(1), &bytes, shape, to);
            });
            let mapped = Packed::mapped(bytes.clone().into(), rows, cols);
            // The scratch holds another strip at first.
            let mut scratch = Scratch::take();
            for s in (0..rows.div_ceil(LANES)).rev() {
                let half = blocks / 2 / B::RUN * B::RUN;
                for part in [0..blocks, half..blocks, 0..half] {
                    let mut unused = Scratch::take();
                    let mapped = mapped.blocks::<L, B, G>(lanes, s, part.clone(), &mut scratch);
                    let in_memory = in_memory.blocks::<L, B, G>(lanes, s, part.clone(), &mut unused);
                    assert_eq!(mapped.len(), in_memory.len(), "{format}, {part:?}");
                    for (place, b) in part.enumerate() {
                        let label = format!("{format} [{rows}, {cols}], strip {s}, block {b}");
                        let [(load_factors, planes), in_memory] =
                            [mapped, in_memory].map(|blocks| parts_of::<B, G>(blocks, place));
                        assert!(
                            (load_factors, planes) == in_memory,
                            "{label}: differs from the packed strip"
                        );
                        let of_row = |r| match s * LANES + r {
                            row if row < rows => &matrix[row * blocks + b],
                            _ => &nothing,
                        };
                        let of_rows: [&B; LANES] = std::array::from_fn(of_row);
                        for (r, block) in of_rows.iter().enumerate() {
                            for (value, q) in block.quants().as_flattened().iter().enumerate() {
                                let expected = (i16::from(*q) + i16::from(B::ZERO)) as u8;
                                let found = number::<B, G>(planes, r, value);
                                assert_eq!(found, expected, "{label}, row {r}, value {value}");
                            }
                        }
                        let mut factors = Factors::ZERO;
                        B::load_factors(lanes, load_factors, &mut factors);
                        for (r, block) in of_rows.iter().enumerate() {
                            let (scales, mins) = block.factors(F16Le::to_f32);
                            let groups = B::Kind::GROUPS * B::BLOCKS;
                            let halves = 2 * G / groups;
                            for g in 0..groups {
                                let found = (factors.scales[g][r], factors.mins[g][r]);
                                let expected = (
                                    scales.as_flattened()[g * halves],
                                    if B::Kind::MINS { mins.as_flattened()[g * halves] } else { 0.0 },
                                );
                                assert_eq!(found, expected, "{label}, row {r}, group {g}");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Checks a floating-point format.
struct Floats<F>(PhantomData<F>);

impl<F> Clone for Floats<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Floats<F> {}

impl<F: Float> WithSimd for Floats<F> {
    fn with_simd<L: Lanes>(self, lanes: L) {
        for (rows, _) in SHAPES {
            for cols in [1, 3, 8, 31, 64, 77] {
                let bytes = testkit::random_matrix(F::FORMAT, rows * cols, 0.1, 7);
                let matrix = F::slice(&bytes);
                let shape = [1, rows, cols];
                let in_memory = in_memory(floats::row_lines::<F>(cols), shape, |to| {
                    floats::pack::<L, F>(lanes, &mut Pool::new(1), &bytes, shape, to);
                });
                let mapped = Packed::mapped(bytes.clone().into(), rows, cols);
                let (mut scratch, mut unused) = (Scratch::take(), Scratch::take());
                for s in (0..rows.div_ceil(LANES)).rev() {
                    for part in [0..cols, cols / 2..cols, 0..cols / 2] {
                        let label = format!("{} [{rows}, {cols}], strip {s}, {part:?}", F::FORMAT);
                        let in_memory = in_memory.values::<L, F>(lanes, s, part.clone(), &mut unused);
                        let mapped = mapped.values::<L, F>(lanes, s, part.clone(), &mut scratch);
                        assert_eq!((in_memory.len(), mapped.len()), (part.len(), part.len()), "{label}");
                        for (place, col) in part.enumerate() {
                            for r in 0..LANES {
                                let row = s * LANES + r;
                                let expected = (row < rows).then(|| matrix[row * cols + col].as_bytes());
                                let expected = expected.unwrap_or(&[0; 4][..size_of::<F>()]);
                                for found in [in_memory[place][r], mapped[place][r]] {
                                    assert_eq!(
                                        found.as_bytes(),
                                        expected,
                                        "{label}, row {row}, column {col}"
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn strips_hold_the_values_of_their_rows() {
    each(Quantized::<BlockQ4_0, 1>(PhantomData));
    each(Quantized::<BlockQ4_1, 1>(PhantomData));
    each(Quantized::<BlockQ5_0, 1>(PhantomData));
    each(Quantized::<BlockQ5_1, 1>(PhantomData));
    each(Quantized::<BlockQ8_0, 1>(PhantomData));
    each(Quantized::<BlockQ2_K, 8>(PhantomData));
    each(Quantized::<BlockQ3_K, 8>(PhantomData));
    each(Quantized::<BlockQ4_K, 8>(PhantomData));
    each(Quantized::<BlockQ5_K, 8>(PhantomData));
    each(Quantized::<BlockQ6_K, 8>(PhantomData));
    each(Quantized::<BlockIQ4_NL, 1>(PhantomData));
    each(Quantized::<BlockIQ4_XS, 8>(PhantomData));
    each(Quantized::<BlockMXFP4, 1>(PhantomData));
    each(Quantized::<BlockNVFP4, 2>(PhantomData));
    each(Quantized::<BlockIQ3_XXS, 8>(PhantomData));
    each(Quantized::<BlockIQ3_S, 8>(PhantomData));
    each(Quantized::<BlockIQ2_XXS, 8>(PhantomData));
    each(Quantized::<BlockIQ2_XS, 8>(PhantomData));
    each(Quantized::<BlockIQ2_S, 8>(PhantomData));
    each(Quantized::<BlockIQ1_S, 8>(PhantomData));
    each(Quantized::<BlockIQ1_M, 8>(PhantomData));
    each(Quantized::<BlockTQ1_0, 8>(PhantomData));
    each(Quantized::<BlockTQ2_0, 8>(PhantomData));
    each(Floats::<F32Le>(PhantomData));
    each(Floats::<F16Le>(PhantomData));
    each(Floats::<Bf16Le>(PhantomData));
}
