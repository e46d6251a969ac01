//! Weights that are floating-point numbers, in strips of 16 rows, and products with them.
//!
//! A strip is `[cols][16]`, as wide as in the file. A number is summed over the columns in order, whether
//! strips are multiplied as they lie, with few rows of activations, or a slab of two is widened once for
//! many.
//!
//! Quantised weights that are to meet activations of f32 go the same way: they stay in the file, and a strip of F32 is
//! made of some of their columns whenever these are read. That is the work of dequantising all weights for each step:
//! tens of times what a row takes with activations of 8 bits, and a few times what many rows take.

use std::cell::Cell;
use std::ops::Range;

use bytemuck::Zeroable;
use quant::{Bf16Le, Block, F16Le, F32Le, Format};
use zerocopy::{FromZeros, IntoBytes};

use super::activations::{Activations, panels};
use super::product::DIRECT;
use super::sums::{groups, load, store, strips};
use super::{Packed, Scratch, Strips};
use crate::lanes::{BYTES, LANES, Lanes, Pair, Work};
use crate::memory::Line;
use crate::pool::{Pool, Tile};

/// Columns that are dequantised at a time: whole blocks of every format.
const CHUNK: usize = 256;

/// Columns of a slab: what is widened fills a part of the second-level cache.
const SLAB: usize = 1024;

thread_local! {
    /// The slab of each thread, kept from task to task.
    static SCRATCH: Cell<Vec<Pair<[f32; LANES]>>> = const { Cell::new(Vec::new()) };
}

/// A number whose rows can lie in strips.
pub(crate) trait Float: Block<1> {
    /// Sixteen of them.
    fn widen<L: Lanes>(lanes: L, numbers: &[Self; LANES]) -> L::Floats;
}

impl Float for F32Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, numbers: &[F32Le; LANES]) -> L::Floats {
        lanes.floats(&numbers.map(F32Le::to_f32))
    }
}

impl Float for F16Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, numbers: &[F16Le; LANES]) -> L::Floats {
        lanes.halves(numbers)
    }
}

impl Float for Bf16Le {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, numbers: &[Bf16Le; LANES]) -> L::Floats {
        lanes.brains(numbers)
    }
}

/// Lines of a strip of `cols` columns.
fn lines_of<F: Float>(cols: usize) -> usize {
    (cols * size_of::<[F; LANES]>()).div_ceil(BYTES)
}

impl Packed {
    /// Bytes that `rows` rows of `cols` numbers of one matrix take.
    pub(crate) fn bytes_of_floats<F: Float>(rows: usize, cols: usize) -> usize {
        rows.div_ceil(LANES) * lines_of::<F>(cols) * BYTES
    }

    /// Packs `count` matrices of `rows` rows of `cols` numbers.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn floats<L: Lanes, F: Float>(
        lanes: L,
        pool: &mut Pool,
        bytes: &[u8],
        shape: [usize; 3],
    ) -> std::io::Result<Vec<Packed>> {
        let cols = shape[2];
        Packed::pack_strips(pool, bytes, shape, (lines_of::<F>(cols), 0), |bytes, s, to| {
            let matrix = F::slice(bytes);
            lanes.run(PackNumbers { matrix, len: cols, s, cols: 0..cols, to });
        })
    }

    /// Some columns of strip `s`, which are packed to `scratch` if they are not kept.
    #[inline(always)]
    pub(super) fn numbers<'a, L: Lanes, F: Float>(
        &'a self,
        lanes: L,
        s: usize,
        cols: Range<usize>,
        scratch: &'a mut Scratch,
    ) -> &'a [[F; LANES]] {
        let (lines, cols) = match &self.strips {
            Strips::Packed(strips) => (strips.strip(s), cols),
            Strips::Mapped(bytes) => {
                let to = scratch.lines(lines_of::<F>(cols.len()));
                let (matrix, len) = (F::slice(bytes), self.cols);
                lanes.run(PackNumbers { matrix, len, s, cols: cols.clone(), to: &mut *to });
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

    /// Writes some columns of strip `s` of quantised weights; apart from what is inlined, where its stack costs time.
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
            for (row, to) in self.numbers_of(s).zip(matrix.chunks_exact_mut(len)) {
                dequantise(format, bytes, row * self.cols + first, to);
            }
            let matrix = F::slice(matrix[..LANES * len].as_bytes());
            lanes.run(PackNumbers { matrix, len, s: 0, cols: 0..len, to });
        }
    }
}

/// Writes the numbers of `bytes` from the `first` on, whole blocks of `format`.
fn dequantise(format: Format, bytes: &[u8], first: usize, to: &mut [F32Le]) {
    let mut numbers = [0.0; CHUNK];
    let numbers = &mut numbers[..to.len()];
    let bytes_of = |values: usize| values / format.block_len() * format.block_bytes();
    format.dequantize(&bytes[bytes_of(first)..][..bytes_of(numbers.len())], numbers);
    for (to, number) in to.iter_mut().zip(numbers) {
        *to = F32Le(number.to_le_bytes());
    }
}

/// Writes the columns `cols` of strip `s` of a matrix, whose rows are `len` numbers. Rows that are not there are zeros.
struct PackNumbers<'a, F> {
    matrix: &'a [F],
    len: usize,
    s: usize,
    cols: Range<usize>,
    to: &'a mut [Line],
}

impl<F: Float> Work for PackNumbers<'_, F> {
    #[inline(always)]
    fn work<L: Lanes>(self, lanes: L) {
        let PackNumbers { matrix, len, s, cols, to } = self;
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
        // Four lines come of 16 bytes of each row.
        let whole = cols.len() * size / 16;
        for (at, lines) in to.as_chunks_mut::<4>().0.iter_mut().take(whole).enumerate() {
            // A thread that packs whole strips goes on with the one after this.
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
            let vectors = lanes.across(parts);
            for k in 0..4 {
                let vector = if size == 2 { lanes.halves_apart(vectors[k]) } else { vectors[k] };
                lanes.put_bytes(vector, &mut lines[k].0);
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

/// Computes the tile `[rows of x, rows of weight]`, whole strips but for the weight's last.
#[inline(always)]
pub(crate) fn multiply<L: Lanes, F: Float>(
    lanes: L,
    weight: &Packed,
    x: Activations<'_>,
    tile: &mut Tile<'_, f32>,
) {
    let mut scratch = Scratch::take();
    if x.rows <= DIRECT {
        for s in strips(tile) {
            let source = Lying(weight.numbers::<L, F>(lanes, s, 0..weight.cols, &mut scratch));
            sums(lanes, source, x, 0..weight.cols, tile, &[weight.numbers_of(s)]);
        }
        return;
    }
    let mut slab = SCRATCH.take();
    slab.resize(SLAB, Pair::zeroed());
    for strips in groups::<L>(tile) {
        for first in (0..weight.cols).step_by(SLAB) {
            let cols = first..weight.cols.min(first + SLAB);
            for (at, s) in strips.clone().enumerate() {
                let numbers = weight.numbers::<L, F>(lanes, s, cols.clone(), &mut scratch);
                for (to, numbers) in slab.iter_mut().zip(numbers) {
                    lanes.put(F::widen(lanes, numbers), &mut to.0[at]);
                }
            }
            let [first, second] = weight.numbers_of_two(&strips);
            if L::TILE == 6 {
                sums(lanes, Widened(&slab), x, cols, tile, &[first, second]);
            } else {
                sums(lanes, Widened(&slab), x, cols, tile, &[first]);
            }
        }
    }
    SCRATCH.set(slab);
}

/// Where the numbers of up to two strips come from.
trait Source<L: Lanes, const R: usize>: Copy {
    /// Those of column `col` of the columns at hand.
    fn column(self, lanes: L, col: usize) -> [L::Floats; R];
}

/// A strip as it lies.
#[derive(Clone, Copy)]
struct Lying<'a, F>(&'a [[F; LANES]]);

/// A slab of two.
#[derive(Clone, Copy)]
struct Widened<'a>(&'a [Pair<[f32; LANES]>]);

impl<L: Lanes, F: Float> Source<L, 1> for Lying<'_, F> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [F::widen(lanes, &self.0[col])]
    }
}

impl<L: Lanes> Source<L, 1> for Widened<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [lanes.floats(&self.0[col].0[0])]
    }
}

impl<L: Lanes> Source<L, 2> for Widened<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 2] {
        let Pair([first, second]) = &self.0[col];
        [lanes.floats(first), lanes.floats(second)]
    }
}

/// Adds the sums over the columns `cols` of `R` strips and all rows of activations to what is there.
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
            3 if L::TILE == 3 => panel::<L, R, 3>(lanes, source, x, (first, is_first), tile, out),
            4 if L::TILE == 6 => panel::<L, R, 4>(lanes, source, x, (first, is_first), tile, out),
            6 if L::TILE == 6 => panel::<L, R, 6>(lanes, source, x, (first, is_first), tile, out),
            width => unreachable!("a panel of {width} rows"),
        }
    }
}

/// The same of `C` rows from row `first` on, `[cols][C]`; `is_first` says that nothing is there yet.
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
