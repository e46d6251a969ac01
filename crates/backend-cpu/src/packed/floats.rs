//! GEMV and GEMM with F32, F16 and BF16 weights, and with quantised weights on f32 activations.
//!
//! A strip is `[cols][16]` in the file's type. GEMV (few activation rows) reads strips directly; GEMM first converts a slab
//! of two strips to f32. Both sum over the columns in order.
//!
//! Quantised weights with f32 activations stay in the file, and their columns are dequantised to F32 strips each time they
//! are read. Each step dequantises all weights, which costs tens of times an 8-bit GEMV and a few times an 8-bit GEMM.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Zeroable;
use quant::{Bf16Le, Block, F16Le, F32Le, Format};
use zerocopy::{FromZeros, IntoBytes};

use super::activations::{Activations, panels};
use super::sums::{groups, load, store, strips};
use super::{Packed, Scratch, Strips, pack_strips};
use crate::lanes::{BYTES, HARDWARE_PREFETCH_SUFFICES, LANES, Lanes, Pair, WithSimd};
use crate::memory::Line;
use crate::pool::{Pool, Tile};

/// Columns dequantised at a time: a multiple of every block size.
const CHUNK: usize = 256;

/// Columns of a slab, which must stay in L2.
const SLAB: usize = 1024;

thread_local! {
    static SCRATCH: Cell<Vec<Pair<[f32; LANES]>>> = const { Cell::new(Vec::new()) };
}

/// A floating-point weight type.
pub(crate) trait Float: Block<1> {
    /// Converts 16 values to f32.
    fn widen<L: Lanes>(lanes: L, values: &[Self; LANES]) -> L::Floats;
}

impl Float for F32Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, values: &[F32Le; LANES]) -> L::Floats {
        lanes.load_f32(&values.map(F32Le::to_f32))
    }
}

impl Float for F16Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, values: &[F16Le; LANES]) -> L::Floats {
        lanes.load_f16(values)
    }
}

impl Float for Bf16Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, values: &[Bf16Le; LANES]) -> L::Floats {
        lanes.load_bf16(values)
    }
}

pub(crate) const fn row_lines<F: Float>(cols: usize) -> usize {
    (cols * size_of::<[F; LANES]>()).div_ceil(BYTES)
}

pub(crate) fn pack<L: Lanes, F: Float>(
    lanes: L,
    pool: &mut Pool,
    bytes: &[u8],
    shape: [usize; 3],
    to: &mut [Line],
) {
    let cols = shape[2];
    pack_strips(pool, bytes, shape, to, |bytes, s, to| {
        let matrix = F::slice(bytes);
        lanes.run(PackFloats { matrix, len: cols, s, cols: 0..cols, to });
    });
}

impl Packed {
    /// Columns `cols` of strip `s`; packs them to `scratch` if the matrix is not packed.
    #[inline(always)]
    pub(super) fn values<'a, L: Lanes, F: Float>(
        &'a self,
        lanes: L,
        s: usize,
        cols: Range<usize>,
        scratch: &'a mut Scratch,
    ) -> &'a [[F; LANES]] {
        let (lines, cols) = match &self.strips {
            Strips::Packed(strips) => (strips.strip(s), cols),
            Strips::Mapped(bytes) => {
                let to = scratch.lines(row_lines::<F>(cols.len()));
                let (matrix, len) = (F::slice(bytes), self.cols);
                lanes.run(PackFloats { matrix, len, s, cols: cols.clone(), to: &mut *to });
                (&*to, 0..cols.len())
            }
            Strips::Quantised(bytes, format) => {
                let to = scratch.lines(cols.len());
                self.dequantise::<L, F>(lanes, (bytes, *format), s, cols.clone(), &mut *to);
                (&*to, 0..cols.len())
            }
        };
        let size = size_of::<[F; LANES]>();
        let bytes: &[u8] = bytemuck::cast_slice(lines);
        F::slice(&bytes[cols.start * size..cols.end * size]).as_chunks().0
    }

    /// Dequantises columns of strip `s`. Not inlined: its stack frame would slow the caller.
    #[inline(never)]
    fn dequantise<L: Lanes, F: Float>(
        &self,
        lanes: L,
        (bytes, format): (&[u8], Format),
        s: usize,
        cols: Range<usize>,
        to: &mut [Line],
    ) {
        for (first, to) in cols.step_by(CHUNK).zip(to.chunks_mut(CHUNK)) {
            let mut matrix = [F32Le::new_zeroed(); LANES * CHUNK];
            let len = to.len();
            for (row, to) in self.strip_outputs(s).zip(matrix.chunks_exact_mut(len)) {
                dequantise(format, bytes, row * self.cols + first, to);
            }
            let matrix = F::slice(matrix[..LANES * len].as_bytes());
            lanes.run(PackFloats { matrix, len, s: 0, cols: 0..len, to });
        }
    }
}

/// Dequantises whole blocks of `bytes`, from value `first` on.
fn dequantise(format: Format, bytes: &[u8], first: usize, to: &mut [F32Le]) {
    let mut values = [0.0; CHUNK];
    let values = &mut values[..to.len()];
    let bytes_of = |values: usize| values / format.block_len() * format.block_bytes();
    format.dequantize(&bytes[bytes_of(first)..][..bytes_of(values.len())], values);
    for (to, number) in to.iter_mut().zip(values) {
        *to = F32Le(number.to_le_bytes());
    }
}

/// Packs columns `cols` of strip `s` of a matrix with rows of `len` values. Missing rows become zeros.
struct PackFloats<'a, F> {
    matrix: &'a [F],
    len: usize,
    s: usize,
    cols: Range<usize>,
    to: &'a mut [Line],
}

impl<F: Float> WithSimd for PackFloats<'_, F> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let PackFloats { matrix, len, s, cols, to } = self;
        let size = size_of::<F>();
        let mut rows = [&[][..]; LANES];
        for r in 0..LANES {
            let first = (s * LANES + r) * len;
            if first < matrix.len() {
                rows[r] = matrix[first + cols.start..first + cols.end].as_bytes();
            }
        }
        let (next, is_whole) =
            (matrix.as_ptr().wrapping_add(LANES * (s + 1) * len).cast::<u8>(), cols.len() == len);
        // 16 bytes of each row make four lines.
        let whole = cols.len() * size / 16;
        for (at, lines) in to.as_chunks_mut::<4>().0.iter_mut().take(whole).enumerate() {
            // A thread that packs whole strips packs the next strip afterwards: prefetch it.
            if is_whole {
                for line in 0..4 {
                    lanes.prefetch(next.wrapping_add((4 * at + line) * BYTES));
                }
            }
            let mut parts = [&[0; 16]; LANES];
            for r in 0..LANES {
                if let Some(part) = rows[r].as_chunks().0.get(at) {
                    parts[r] = part;
                }
            }
            let vectors = lanes.transpose_4x16(parts);
            for k in 0..4 {
                let vector = if size == 2 { lanes.deinterleave_u16(vectors[k]) } else { vectors[k] };
                lanes.store_u8(vector, &mut lines[k].0);
            }
        }
        let to: &mut [u8] = bytemuck::cast_slice_mut(to);
        for col in 16 / size * whole..cols.len() {
            for r in 0..LANES {
                let number = rows[r].get(col * size..(col + 1) * size).unwrap_or(&[0; 4][..size]);
                to[(col * LANES + r) * size..][..size].copy_from_slice(number);
            }
        }
    }
}

/// Maximum activation rows of the GEMV path. It converts a strip once per panel, and waits for memory less often than GEMM.
#[inline(always)]
fn gemv_max_rows<L: Lanes>() -> usize {
    match L::TILE {
        6 if *HARDWARE_PREFETCH_SUFFICES => 48,
        6 => 24,
        _ => 8,
    }
}

/// Computes the tile `[rows of x, rows of weight]`: whole strips, except for the weight's last.
pub(crate) struct Multiply<'a, 't, F> {
    pub(crate) weight: &'a Packed,
    pub(crate) x: Activations<'a>,
    pub(crate) tile: &'a mut Tile<'t, f32>,
    pub(crate) format: PhantomData<F>,
}

impl<F: Float> WithSimd for Multiply<'_, '_, F> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Multiply { weight, x, tile, .. } = self;
        let mut scratch = Scratch::take();
        if x.rows <= gemv_max_rows::<L>() {
            for s in strips(tile) {
                let source = PackedStrip(weight.values::<L, F>(lanes, s, 0..weight.cols, &mut scratch));
                sums(lanes, source, x, 0..weight.cols, tile, &[weight.strip_outputs(s)]);
            }
            return;
        }
        let mut slab = SCRATCH.take();
        slab.resize(SLAB, Pair::zeroed());
        for strips in groups::<L>(tile) {
            for first in (0..weight.cols).step_by(SLAB) {
                let cols = first..weight.cols.min(first + SLAB);
                for (at, s) in strips.clone().enumerate() {
                    let values = weight.values::<L, F>(lanes, s, cols.clone(), &mut scratch);
                    for (to, values) in slab.iter_mut().zip(values) {
                        lanes.store_f32(F::widen(lanes, values), &mut to.0[at]);
                    }
                }
                let [first, second] = weight.pair_outputs(&strips);
                if L::TILE == 6 {
                    sums(lanes, F32Slab(&slab), x, cols, tile, &[first, second]);
                } else {
                    sums(lanes, F32Slab(&slab), x, cols, tile, &[first]);
                }
            }
        }
        SCRATCH.set(slab);
    }
}

/// Source of the weights of up to two strips.
trait Source<L: Lanes, const R: usize>: Copy {
    /// The weights of column `col`, counted from the source's first column.
    fn column(self, lanes: L, col: usize) -> [L::Floats; R];
}

#[derive(Clone, Copy)]
struct PackedStrip<'a, F>(&'a [[F; LANES]]);

/// A slab of two strips, converted to f32.
#[derive(Clone, Copy)]
struct F32Slab<'a>(&'a [Pair<[f32; LANES]>]);

impl<L: Lanes, F: Float> Source<L, 1> for PackedStrip<'_, F> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [F::widen(lanes, &self.0[col])]
    }
}

impl<L: Lanes> Source<L, 1> for F32Slab<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [lanes.load_f32(&self.0[col].0[0])]
    }
}

impl<L: Lanes> Source<L, 2> for F32Slab<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 2] {
        let Pair([first, second]) = &self.0[col];
        [lanes.load_f32(first), lanes.load_f32(second)]
    }
}

/// Accumulates columns `cols` of `R` strips times all activation rows into the tile.
#[inline(always)]
fn sums<L: Lanes, const R: usize>(
    lanes: L,
    source: impl Source<L, R>,
    x: Activations<'_>,
    cols: Range<usize>,
    tile: &mut Tile<'_, f32>,
    out: &[Range<usize>; R],
) {
    for rows in panels(0..x.rows, x.tile) {
        let (first, width, is_first) = (rows.start, rows.len(), cols.start == 0);
        let x = x.floats(&rows, cols.clone());
        match width {
            1 => panel::<L, R, 1>(lanes, source, x, (first, is_first), tile, out),
            2 if L::TILE > 1 => panel::<L, R, 2>(lanes, source, x, (first, is_first), tile, out),
            3 if L::TILE > 1 => panel::<L, R, 3>(lanes, source, x, (first, is_first), tile, out),
            4 if L::TILE > 1 => panel::<L, R, 4>(lanes, source, x, (first, is_first), tile, out),
            5 if L::TILE == 6 => panel::<L, R, 5>(lanes, source, x, (first, is_first), tile, out),
            6 if L::TILE == 6 => panel::<L, R, 6>(lanes, source, x, (first, is_first), tile, out),
            width => unreachable!("a panel of {width} rows"),
        }
    }
}

/// Accumulates `C` activation rows from row `first` on, `x[cols][C]`. `is_first`: the tile is not initialised yet.
#[inline(always)]
fn panel<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    source: impl Source<L, R>,
    x: &[f32],
    (first, is_first): (usize, bool),
    tile: &mut Tile<'_, f32>,
    out: &[Range<usize>; R],
) {
    let mut sums = [[lanes.splat(0.0); R]; C];
    if !is_first {
        sums = load(lanes, first, tile, out);
    }
    for (col, x) in x.as_chunks::<C>().0.iter().enumerate() {
        let weights = source.column(lanes, col);
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = lanes.mul_add(weights[r], lanes.splat(x[c]), sums[c][r]);
            }
        }
    }
    store(lanes, sums, first, tile, out);
}
