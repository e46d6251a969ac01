//! Weight matrices packed in strips of 16 rows, and the GEMV and GEMM kernels that read them.
//!
//! A strip is a sequence of runs: the scales and minimums of some blocks of its 16 rows, followed by their quants
//! (`layout.rs`). It takes as many bytes per weight as the file, and a GEMV thread reads it from its first byte to its last:
//! AMD's hardware prefetchers lose a third of the memory bandwidth if scales and quants are two streams.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

pub(crate) mod activations;
mod coded;
pub(crate) mod floats;
mod formats;
pub(crate) mod gemm;
pub(crate) mod gemv;
pub(crate) mod layout;
mod sums;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use quant::Format;
use zerocopy::FromBytes;

use crate::lanes::{BYTES, LANES, Lanes, WithSimd};
use crate::memory::{Line, Lines, Scratch};
use crate::pool::Pool;
use activations::Q8Layout;
use layout::{Kind, Layout};

#[derive(Debug)]
pub(crate) struct Packed {
    strips: Strips,
    rows: usize,
    cols: usize,
}

#[derive(Debug)]
enum Strips {
    /// Packed, in memory that all matrices of a weight share.
    Packed(PackedStrips),
    /// Rows of the file. A strip is packed each time it is read.
    Mapped(Bytes),
    /// Quantised rows of the file, for F32 kernels. A strip is dequantised each time it is read.
    Quantised(Bytes, Format),
}

#[derive(Debug)]
struct PackedStrips {
    /// Memory that all weights of a model share.
    lines: Arc<Lines>,
    first: usize,
    /// Cache lines per strip.
    strip: usize,
}

impl PackedStrips {
    #[inline(always)]
    fn strip(&self, s: usize) -> &[Line] {
        &self.lines.all()[self.first + s * self.strip..][..self.strip]
    }

    #[inline(always)]
    fn blocks<B: Layout<G>, const G: usize>(&self, s: usize, blocks: Range<usize>) -> &[[u8; BYTES]] {
        &bytemuck::cast_slice(self.strip(s))[vectors::<B, G>(blocks.start)..vectors::<B, G>(blocks.end)]
    }
}

/// Packs a weight of shape `[count, rows, cols]` to `to`; a row is whole blocks.
pub(crate) fn pack<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    pool: &mut Pool,
    bytes: &[u8],
    shape: [usize; 3],
    to: &mut [Line],
) {
    let cols = shape[2];
    let blocks = cols / (32 * G);
    pack_strips(pool, bytes, shape, to, |bytes, s, to| {
        let (blocks, to) = (0..blocks, bytemuck::cast_slice_mut(to));
        lanes.run(PackBlocks::<B, G> { bytes, cols, s, blocks, to, format: PhantomData });
    });
}

/// Packs a weight of shape `[count, rows, cols]` to `to`. `pack` gets a matrix's bytes, the strip's index and its
/// destination.
fn pack_strips(
    pool: &mut Pool,
    bytes: &[u8],
    [count, rows, _]: [usize; 3],
    to: &mut [Line],
    pack: impl Fn(&[u8], usize, &mut [Line]) + Sync,
) {
    let (strips, matrix) = (rows.div_ceil(LANES), bytes.len() / count);
    let strip = to.len() / (count * strips);
    pool.tiles(to, strip, (1, strip), |mut tile| {
        let row = tile.rows().start;
        let (number, s) = (row / strips, row % strips);
        pack(&bytes[number * matrix..][..matrix], s, tile.row(row));
    });
}

pub(crate) const fn strip_lines<B: Layout<G>, const G: usize>(cols: usize) -> usize {
    vectors::<B, G>(cols / (32 * G))
}

impl Packed {
    /// The matrices of a weight of shape `[count, rows, cols]` whose strips of `strip` lines begin at line `first`.
    pub(crate) fn all(
        lines: &Arc<Lines>,
        first: usize,
        strip: usize,
        [count, rows, cols]: [usize; 3],
    ) -> Vec<Packed> {
        let matrix = rows.div_ceil(LANES) * strip;
        let of = |number| PackedStrips { lines: lines.clone(), first: first + number * matrix, strip };
        (0..count).map(|number| Packed { strips: Strips::Packed(of(number)), rows, cols }).collect()
    }

    /// A matrix that is packed strip by strip each time it is read.
    pub(crate) fn mapped(bytes: Bytes, rows: usize, cols: usize) -> Packed {
        Packed { strips: Strips::Mapped(bytes), rows, cols }
    }

    /// A quantised matrix that is dequantised each time it is read, for F32 kernels.
    pub(crate) fn quantised(format: Format, bytes: Bytes, rows: usize, cols: usize) -> Packed {
        Packed { strips: Strips::Quantised(bytes, format), rows, cols }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether strips are in memory as kernels read them.
    fn is_packed(&self) -> bool {
        matches!(self.strips, Strips::Packed(_))
    }

    /// The rows of strip `s`, which are columns of the result.
    #[inline(always)]
    fn strip_outputs(&self, s: usize) -> Range<usize> {
        s * LANES..self.rows.min((s + 1) * LANES)
    }

    /// The result columns of the first two of `strips`; empty for a missing one.
    #[inline(always)]
    fn pair_outputs(&self, strips: &Range<usize>) -> [Range<usize>; 2] {
        let first = self.strip_outputs(strips.start);
        let second =
            if strips.len() > 1 { self.strip_outputs(strips.start + 1) } else { first.end..first.end };
        [first, second]
    }

    /// Some blocks of strip `s`, from the first of a run on; packs them to `scratch` if the matrix is not packed.
    #[inline(always)]
    fn blocks<'a, L: Lanes, B: Layout<G>, const G: usize>(
        &'a self,
        lanes: L,
        s: usize,
        blocks: Range<usize>,
        scratch: &'a mut Scratch,
    ) -> &'a [[u8; BYTES]] {
        debug_assert!(blocks.start.is_multiple_of(B::RUN), "whole runs");
        match &self.strips {
            Strips::Packed(strips) => strips.blocks::<B, G>(s, blocks),
            Strips::Mapped(bytes) => {
                let to = bytemuck::cast_slice_mut(scratch.lines(vectors::<B, G>(blocks.len())));
                let (cols, format) = (self.cols, PhantomData);
                lanes.run(PackBlocks::<B, G> { bytes, cols, s, blocks, to, format });
                to
            }
            Strips::Quantised(..) => unreachable!("only F32 kernels read them"),
        }
    }

    /// What [`Packed::blocks`] would read; nothing beyond the last strip, and nothing if the matrix is not packed.
    #[inline(always)]
    fn packed_blocks<B: Layout<G>, const G: usize>(&self, s: usize, blocks: Range<usize>) -> &[[u8; BYTES]] {
        match &self.strips {
            Strips::Packed(strips) if s * LANES < self.rows => strips.blocks::<B, G>(s, blocks),
            _ => &[],
        }
    }
}

/// Packs some blocks of strip `s`, from the first of a run on. Missing rows become zeros.
struct PackBlocks<'a, B, const G: usize> {
    bytes: &'a [u8],
    cols: usize,
    s: usize,
    blocks: Range<usize>,
    to: &'a mut [[u8; BYTES]],
    format: PhantomData<B>,
}

impl<B: Layout<G>, const G: usize> WithSimd for PackBlocks<'_, B, G> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Ok(matrix) = <[B]>::ref_from_bytes(self.bytes) else { panic!("not whole blocks") };
        let (row_blocks, nothing) = (self.cols / (32 * G), B::new_zeroed());
        let strip = &matrix[self.s * LANES * row_blocks..];
        let (next, is_whole) =
            (strip.as_ptr().wrapping_add(LANES * row_blocks), self.blocks.len() == row_blocks);
        for (place, b) in self.blocks.enumerate() {
            // A thread that packs whole strips packs the next strip afterwards: prefetch it.
            if is_whole {
                let ahead = next.wrapping_add(LANES * b).cast::<u8>();
                for line in (0..LANES * size_of::<B>()).step_by(BYTES) {
                    lanes.prefetch(ahead.wrapping_add(line));
                }
            }
            let mut rows = [&nothing; LANES];
            for r in 0..LANES {
                if let Some(block) = strip.get(r * row_blocks + b) {
                    rows[r] = block;
                }
            }
            let run = place / B::RUN * (B::HEADER + B::RUN * B::PLANES);
            let (header, planes) = self.to[run..].split_at_mut(B::HEADER);
            let (header, at) = (header.as_flattened_mut(), place % B::RUN);
            B::pack_factors(lanes, rows, &mut header[at * B::FACTORS..][..B::FACTORS]);
            B::pack_planes(lanes, rows, &mut planes[at * B::PLANES..][..B::PLANES]);
        }
    }
}

/// Vectors of the first `blocks` blocks of a strip.
#[inline(always)]
const fn vectors<B: Layout<G>, const G: usize>(blocks: usize) -> usize {
    blocks.div_ceil(B::RUN) * B::HEADER + blocks * B::PLANES
}

/// The runs of [`Packed::blocks`]. The last one may be shorter.
#[inline(always)]
fn runs<B: Layout<G>, const G: usize>(blocks: &[[u8; BYTES]]) -> std::slice::Chunks<'_, [u8; BYTES]> {
    blocks.chunks(B::HEADER + B::RUN * B::PLANES)
}

/// Scales and minimums of the blocks of a run, [`Layout::FACTORS`] bytes each, and their planes.
#[inline(always)]
fn parts<B: Layout<G>, const G: usize>(run: &[[u8; BYTES]]) -> (&[u8], &[[u8; BYTES]]) {
    let (header, planes) = run.split_at(B::HEADER);
    (header.as_flattened(), planes)
}

/// The activation layout that weights of a quantised format need.
pub(crate) const fn scaled<B: Layout<G>, const G: usize>() -> Q8Layout {
    let zero = if B::Kind::MINS { None } else { Some(B::ZERO) };
    Q8Layout { block: 32 * G / B::BLOCKS, group: B::Kind::GROUP, zero }
}

#[cfg(test)]
mod tests {
    mod layout;

    use quant::Format;

    use super::Packed;
    use super::activations::Activations;
    use crate::kernels::{Isa, Kernels};
    use crate::pool::Pool;

    /// Output columns; the last strip is partial.
    const N: usize = 45;
    /// Input columns: more than two slabs, the last one smaller.
    const COLS: usize = 2560;

    /// `x` times a weight of `format`; checks that packed and mapped weights give the same bits.
    fn product(kernels: &Kernels, format: Format, weights: &[u8], x: &[f32], rows: usize) -> Vec<f32> {
        let (linear, tile, mut pool) = (kernels.linear(format), kernels.tile, Pool::new(1));
        let weight = &linear.packed(&mut pool, weights, [1, N, COLS]).expect("enough memory")[0];
        let mut words = vec![0; rows * linear.form.words(COLS)];
        (kernels.pack)(x, rows, tile, linear.form, &mut words);
        let x = Activations { words: &words, rows, cols: COLS, tile };
        let mut product = |weight: &Packed| {
            let mut out = vec![f32::NAN; rows * N];
            pool.tiles(&mut out, N, (rows, 64), |mut tile| (linear.multiply)(weight, x, &mut tile));
            out
        };
        let (out, mapped) = (product(weight), product(&Packed::mapped(weights.to_vec().into(), N, COLS)));
        let same = out.iter().zip(&mapped).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{format}, {rows} rows, {}: mapped", kernels.isa.name());
        out
    }

    /// `x` times the weight with f32 activations.
    fn f32_product(kernels: &Kernels, format: Format, weights: &[u8], x: &[f32], rows: usize) -> Vec<f32> {
        let (linear, tile) = (kernels.linear(Format::F32), kernels.tile);
        let weight = Packed::quantised(format, weights.to_vec().into(), N, COLS);
        let mut words = vec![0; rows * linear.form.words(COLS)];
        (kernels.pack)(x, rows, tile, linear.form, &mut words);
        let x = Activations { words: &words, rows, cols: COLS, tile };
        let mut out = vec![f32::NAN; rows * N];
        Pool::new(1).tiles(&mut out, N, (rows, 64), |mut tile| (linear.multiply)(&weight, x, &mut tile));
        out
    }

    fn nmse(a: &[f32], b: &[f32]) -> f64 {
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
        error / a.iter().map(|&a| square(a)).sum::<f64>()
    }

    /// Instruction sets differ only by rounding, and a row has the same bits alone and in a batch.
    #[test]
    fn matmul_agrees_with_dequantised_weights_across_instruction_sets_and_batches() {
        for format in Format::ALL {
            let weights = testkit::random_matrix(format, N * COLS, 0.1, 5);
            let mut exact = vec![0.0; N * COLS];
            format.dequantize(&weights, &mut exact);
            for rows in [1, 2, 3, 5, 8, 14, 22, 23, 53, 65] {
                let x: Vec<f32> =
                    (0..rows * COLS).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect();
                let dot = |i: usize| {
                    let (x, w) = (&x[i / N * COLS..][..COLS], &exact[i % N * COLS..][..COLS]);
                    x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32
                };
                let truth: Vec<f32> = (0..rows * N).map(dot).collect();
                let limit = if format.block_len() > 1 { 5e-4 } else { 1e-10 };
                let mut first: Option<Vec<f32>> = None;
                for kernels in Isa::ALL.into_iter().filter_map(Kernels::new) {
                    let label = format!("{format}, {rows} rows, {}", kernels.isa.name());
                    let found = product(&kernels, format, &weights, &x, rows);
                    let error = nmse(&truth, &found);
                    assert!(error < limit, "{label}: NMSE {error:e}");
                    let error = nmse(first.get_or_insert_with(|| found.clone()), &found);
                    assert!(error < 1e-10, "{label}: NMSE {error:e} to scalar code");
                    if format.block_len() > 1 {
                        let exact_x = f32_product(&kernels, format, &weights, &x, rows);
                        let error = nmse(&truth, &exact_x);
                        assert!(error < 1e-10, "{label}, activations of f32: NMSE {error:e}");
                    }
                    let last = rows - 1;
                    let alone = product(&kernels, format, &weights, &x[last * COLS..], 1);
                    let among = &found[last * N..];
                    assert!(
                        alone.iter().zip(among).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{label}: bits"
                    );
                }
            }
        }
    }
}
