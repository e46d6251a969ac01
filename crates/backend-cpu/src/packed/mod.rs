//! Weight matrices packed in strips of 16 rows, and the GEMV and GEMM kernels that read them.
//!
//! A strip stores the scales and minimums of its 16 rows, block by block, followed by their quants (`layout.rs`). It takes
//! as many bytes per weight as the file. A GEMV thread reads two sequential streams.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

pub(crate) mod activations;
mod coded;
pub(crate) mod floats;
mod formats;
mod gemm;
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

/// A matrix in strips.
#[derive(Debug)]
pub(crate) struct Packed {
    strips: Strips,
    rows: usize,
    cols: usize,
}

/// Where the strips of a matrix come from.
#[derive(Debug)]
enum Strips {
    /// Packed, in memory that all matrices of a weight share.
    Packed(PackedStrips),
    /// Rows of the file. A strip is packed each time it is read.
    Mapped(Bytes),
    /// Quantised rows of the file, for F32 kernels. A strip is dequantised each time it is read.
    Quantised(Bytes, Format),
}

/// The packed strips of a matrix.
#[derive(Debug)]
struct PackedStrips {
    lines: Arc<Lines>,
    /// The first cache line of the first strip.
    first: usize,
    /// Cache lines per strip, and how many of them hold factors.
    strip: usize,
    factors: usize,
}

impl PackedStrips {
    #[inline(always)]
    fn strip(&self, s: usize) -> &[Line] {
        &self.lines.all()[self.first + s * self.strip..][..self.strip]
    }
}

impl Packed {
    /// Packs a weight of shape `[count, rows, cols]`; a row is whole blocks.
    pub(crate) fn new<L: Lanes, B: Layout<G>, const G: usize>(
        lanes: L,
        pool: &mut Pool,
        bytes: &[u8],
        shape: [usize; 3],
    ) -> std::io::Result<Vec<Packed>> {
        let cols = shape[2];
        let (blocks, factors, strip) = self::shape::<B, G>(cols);
        Packed::pack_strips(pool, bytes, shape, (strip, factors), |bytes, s, to| {
            let (headers, planes) = to.split_at_mut(factors);
            let (headers, planes) = (bytemuck::cast_slice_mut(headers), bytemuck::cast_slice_mut(planes));
            lanes.run(PackBlocks::<B, G> {
                bytes,
                cols,
                s,
                blocks: 0..blocks,
                headers,
                planes,
                format: PhantomData,
            });
        })
    }

    /// Packs a weight of shape `[count, rows, cols]` into strips of `strip` lines, of which `factors` hold factors. `pack`
    /// gets a matrix's bytes, the strip's index and its destination.
    fn pack_strips(
        pool: &mut Pool,
        bytes: &[u8],
        [count, rows, cols]: [usize; 3],
        (strip, factors): (usize, usize),
        pack: impl Fn(&[u8], usize, &mut [Line]) + Sync,
    ) -> std::io::Result<Vec<Packed>> {
        let strips = rows.div_ceil(LANES);
        let len = count * strips * strip;
        let mut lines = Lines::large(len)?;
        let matrix = bytes.len() / count;
        pool.tiles(&mut lines.all_mut()[..len], strip, (1, strip), |mut tile| {
            let row = tile.rows().start;
            let (number, s) = (row / strips, row % strips);
            pack(&bytes[number * matrix..][..matrix], s, tile.row(row));
        });
        let lines = Arc::new(lines);
        let packed = |number| {
            let strips =
                PackedStrips { lines: lines.clone(), first: number * strips * strip, strip, factors };
            Packed { strips: Strips::Packed(strips), rows, cols }
        };
        Ok((0..count).map(packed).collect())
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

    /// Packed bytes of a `rows` × `cols` matrix.
    pub(crate) fn bytes<B: Layout<G>, const G: usize>(rows: usize, cols: usize) -> usize {
        rows.div_ceil(LANES) * shape::<B, G>(cols).2 * BYTES
    }

    /// The rows of strip `s`, which are columns of the result.
    #[inline(always)]
    fn outputs_of(&self, s: usize) -> Range<usize> {
        s * LANES..self.rows.min((s + 1) * LANES)
    }

    /// The result columns of the first two of `strips`; empty for a missing one.
    #[inline(always)]
    fn outputs_of_two(&self, strips: &Range<usize>) -> [Range<usize>; 2] {
        let first = self.outputs_of(strips.start);
        let second = if strips.len() > 1 { self.outputs_of(strips.start + 1) } else { first.end..first.end };
        [first, second]
    }

    /// Headers (factors) and planes of some blocks of strip `s`; packs them to `scratch` if the matrix is not packed.
    #[inline(always)]
    fn blocks<'a, L: Lanes, B: Layout<G>, const G: usize>(
        &'a self,
        lanes: L,
        s: usize,
        blocks: Range<usize>,
        scratch: &'a mut Scratch,
    ) -> (&'a [u8], &'a [[u8; BYTES]]) {
        match &self.strips {
            Strips::Packed(strips) => {
                let (headers, planes) = strips.strip(s).split_at(strips.factors);
                let (headers, planes) = (bytemuck::cast_slice(headers), bytemuck::cast_slice(planes));
                let part = |size: usize| blocks.start * size..blocks.end * size;
                (&headers[part(B::FACTORS)], &planes[part(B::PLANES)])
            }
            Strips::Mapped(bytes) => {
                let (count, factors, len) = shape::<B, G>(blocks.len() * 32 * G);
                let (headers, planes) = scratch.lines(len).split_at_mut(factors);
                let headers = &mut bytemuck::cast_slice_mut(headers)[..count * B::FACTORS];
                let planes = bytemuck::cast_slice_mut(planes);
                lanes.run(PackBlocks::<B, G> {
                    bytes,
                    cols: self.cols,
                    s,
                    blocks,
                    headers,
                    planes,
                    format: PhantomData,
                });
                (headers, planes)
            }
            Strips::Quantised(..) => unreachable!("only F32 kernels read them"),
        }
    }
}

/// Packs headers and planes of some blocks of strip `s`. Missing rows become zeros.
struct PackBlocks<'a, B, const G: usize> {
    bytes: &'a [u8],
    cols: usize,
    s: usize,
    blocks: Range<usize>,
    headers: &'a mut [u8],
    planes: &'a mut [[u8; BYTES]],
    format: PhantomData<B>,
}

impl<B: Layout<G>, const G: usize> WithSimd for PackBlocks<'_, B, G> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Ok(matrix) = <[B]>::ref_from_bytes(self.bytes) else { panic!("not whole blocks") };
        let (of_row, nothing) = (self.cols / (32 * G), B::new_zeroed());
        let strip = &matrix[self.s * LANES * of_row..];
        let (next, is_whole) = (strip.as_ptr().wrapping_add(LANES * of_row), self.blocks.len() == of_row);
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
                if let Some(block) = strip.get(r * of_row + b) {
                    rows[r] = block;
                }
            }
            B::pack_factors(lanes, rows, &mut self.headers[place * B::FACTORS..][..B::FACTORS]);
            B::pack_planes(lanes, rows, &mut self.planes[place * B::PLANES..][..B::PLANES]);
        }
    }
}

/// Blocks, header lines and total lines of a strip of `cols` columns.
fn shape<B: Layout<G>, const G: usize>(cols: usize) -> (usize, usize, usize) {
    let blocks = cols / (32 * G);
    let factors = (blocks * B::FACTORS).div_ceil(BYTES);
    (blocks, factors, factors + blocks * B::PLANES)
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
        let weight = &(linear.pack)(&mut pool, weights, [1, N, COLS]).expect("enough memory")[0];
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
        assert!(same, "{format}, {rows} rows, {}: mapped", kernels.isa().name());
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
            for rows in [1, 3, 8, 9, 23] {
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
                    let label = format!("{format}, {rows} rows, {}", kernels.isa().name());
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
