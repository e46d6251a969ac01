//! Weights that are floating-point numbers, in strips of 16 rows, and products with them.
//!
//! A strip is `[cols][16]`, as wide as in the file. A number is summed over the columns in order, whether
//! strips are multiplied as they lie, with few rows of activations, or a slab of two is widened once for
//! many.

use std::ops::Range;

use quant::{Bf16Le, Block, F16Le, F32Le};

use super::Packed;
use super::activations::{Activations, panels};
use super::memory::Lines;
use super::product::{DIRECT, load, store, strips};
use crate::lanes::{BYTES, LANES, Lanes};
use crate::pool::{Pool, Tile};

/// Columns of a slab: what is widened stays in the first-level cache.
const SLAB: usize = 256;

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
    /// Bytes that `rows` rows of `cols` numbers take.
    pub(crate) fn bytes_of_floats<F: Float>(rows: usize, cols: usize) -> usize {
        rows.div_ceil(LANES) * lines_of::<F>(cols) * BYTES
    }

    /// Packs `rows` rows of `cols` numbers.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn floats<F: Float>(
        pool: &mut Pool,
        bytes: &[u8],
        rows: usize,
        cols: usize,
    ) -> std::io::Result<Packed> {
        let strip = lines_of::<F>(cols);
        let len = rows.div_ceil(LANES) * strip;
        let mut lines = Lines::new(len)?;
        let size = size_of::<F>();
        pool.tiles(&mut lines.all_mut()[..len], strip, (1, strip), |mut tile| {
            let s = tile.rows().start;
            let to: &mut [u8] = bytemuck::cast_slice_mut(tile.row(s));
            for (lane, row) in (s * LANES..rows.min((s + 1) * LANES)).enumerate() {
                let from = bytes[row * cols * size..][..cols * size].chunks_exact(size);
                for (k, number) in from.enumerate() {
                    to[(k * LANES + lane) * size..][..size].copy_from_slice(number);
                }
            }
        });
        Ok(Packed { lines, strip, factors: 0, rows, cols })
    }

    #[inline(always)]
    fn numbers<F: Float>(&self, s: usize) -> &[[F; LANES]] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.lines.all()[s * self.strip..][..self.strip]);
        F::slice(&bytes[..self.cols * size_of::<[F; LANES]>()]).as_chunks().0
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
    let all = 0..weight.cols;
    if x.rows <= DIRECT {
        for s in strips(tile) {
            let out = [weight.numbers_of(s), 0..0];
            sums::<L, 1>(lanes, Lying(weight.numbers::<F>(s)), x, all.clone(), tile, out);
        }
        return;
    }
    let mut slab = vec![[[0.0; LANES]; 2]; SLAB];
    let (strips, width) = (strips(tile), if L::TILE == 6 { 2 } else { 1 });
    for first in strips.clone().step_by(width) {
        let strips = first..strips.end.min(first + width);
        let end = tile.cols().end;
        let out = [0, 1].map(|at| match strips.clone().nth(at) {
            Some(s) => weight.numbers_of(s),
            None => end..end,
        });
        for first in all.clone().step_by(SLAB) {
            let cols = first..all.end.min(first + SLAB);
            for (at, s) in strips.clone().enumerate() {
                for (to, numbers) in slab.iter_mut().zip(&weight.numbers::<F>(s)[cols.clone()]) {
                    lanes.put(F::widen(lanes, numbers), &mut to[at]);
                }
            }
            if L::TILE == 6 {
                sums::<L, 2>(lanes, Widened(&slab), x, cols, tile, out.clone());
            } else {
                sums::<L, 1>(lanes, Widened(&slab), x, cols, tile, out.clone());
            }
        }
    }
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
struct Widened<'a>(&'a [[[f32; LANES]; 2]]);

impl<L: Lanes, F: Float> Source<L, 1> for Lying<'_, F> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [F::widen(lanes, &self.0[col])]
    }
}

impl<L: Lanes> Source<L, 1> for Widened<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 1] {
        [lanes.floats(&self.0[col][0])]
    }
}

impl<L: Lanes> Source<L, 2> for Widened<'_> {
    #[inline(always)]
    fn column(self, lanes: L, col: usize) -> [L::Floats; 2] {
        let [first, second] = &self.0[col];
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
    out: [Range<usize>; 2],
) {
    for rows in panels(0..x.rows, x.tile) {
        let width = rows.len();
        let panel = Panel { x: x.floats(&rows, cols.clone()), rows, more: cols.start > 0, out: &out };
        match width {
            1 => panel.sum::<L, R, 1>(lanes, source, tile),
            2 if L::TILE > 1 => panel.sum::<L, R, 2>(lanes, source, tile),
            3 if L::TILE == 3 => panel.sum::<L, R, 3>(lanes, source, tile),
            4 if L::TILE == 6 => panel.sum::<L, R, 4>(lanes, source, tile),
            6 if L::TILE == 6 => panel.sum::<L, R, 6>(lanes, source, tile),
            width => unreachable!("a panel of {width} rows"),
        }
    }
}

/// Some rows of activations, `[cols][rows]`, and where their sums go.
struct Panel<'a> {
    x: &'a [f32],
    rows: Range<usize>,
    more: bool,
    out: &'a [Range<usize>; 2],
}

impl Panel<'_> {
    #[inline(always)]
    fn sum<L: Lanes, const R: usize, const C: usize>(
        self,
        lanes: L,
        source: impl Source<L, R>,
        tile: &mut Tile<'_, f32>,
    ) {
        let mut sums = [[lanes.splat(0.0); R]; C];
        if self.more {
            for c in 0..C {
                for r in 0..R {
                    sums[c][r] = load(lanes, self.rows.start + c, tile, self.out[r].clone());
                }
            }
        }
        for (col, x) in self.x.as_chunks::<C>().0.iter().enumerate() {
            let weights = source.column(lanes, col);
            for c in 0..C {
                for r in 0..R {
                    sums[c][r] = lanes.mul_add(weights[r], lanes.splat(x[c]), sums[c][r]);
                }
            }
        }
        for c in 0..C {
            for r in 0..R {
                store(lanes, sums[c][r], self.rows.start + c, tile, self.out[r].clone());
            }
        }
    }
}
