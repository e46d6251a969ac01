//! Weights that are floating-point numbers, in strips of 16 rows, and products with them.
//!
//! A strip is `[cols][16]`, as wide as in the file. A number is summed over the columns in order, whether
//! strips are multiplied as they lie, with few rows of activations, or a slab of two is widened once for
//! many.

use std::ops::Range;

use quant::{Bf16Le, Block, F16Le, F32Le};

use super::activations::{Activations, panels};
use super::product::{DIRECT, load, row_of, store};
use super::{Line, Packed};
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

impl Packed {
    /// Packs `rows` rows of `cols` numbers.
    pub(crate) fn floats<F: Float>(pool: &mut Pool, bytes: &[u8], rows: usize, cols: usize) -> Packed {
        let strip = (cols * size_of::<[F; LANES]>()).div_ceil(BYTES);
        let mut lines: Vec<Line> = bytemuck::zeroed_vec(rows.div_ceil(LANES) * strip);
        let size = size_of::<F>();
        pool.tiles(&mut lines, strip, (1, strip), |mut tile| {
            let s = tile.rows().start;
            let to: &mut [u8] = bytemuck::cast_slice_mut(tile.row(s));
            for (lane, row) in (s * LANES..rows.min((s + 1) * LANES)).enumerate() {
                let from = bytes[row * cols * size..][..cols * size].chunks_exact(size);
                for (k, number) in from.enumerate() {
                    to[(k * LANES + lane) * size..][..size].copy_from_slice(number);
                }
            }
        });
        Packed { lines, strip, factors: 0, rows, cols }
    }

    #[inline(always)]
    fn numbers<F: Float>(&self, s: usize) -> &[[F; LANES]] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.lines[s * self.strip..][..self.strip]);
        F::slice(&bytes[..self.cols * size_of::<[F; LANES]>()]).as_chunks().0
    }
}

/// Computes the tile `[rows of x, rows of weight]`, whole strips but for the weight's last.
#[inline(always)]
pub(crate) fn multiply<L: Lanes, F: Float>(lanes: L, weight: &Packed, x: Activations<'_>, tile: &mut Tile<'_, f32>) {
    let strips = tile.cols().start / LANES..tile.cols().end.div_ceil(LANES);
    let out = |s: usize| s * LANES..weight.rows.min((s + 1) * LANES);
    if x.rows <= DIRECT {
        for s in strips {
            let numbers = weight.numbers::<F>(s);
            for rows in panels(0..x.rows, x.tile) {
                let x = x.floats(&rows, 0..weight.cols);
                let widen = |k: usize| [F::widen(lanes, &numbers[k])];
                match rows.len() {
                    1 => sum::<L, 1, 1>(lanes, weight.cols, widen, x, rows, tile, [out(s)], false),
                    2 => sum::<L, 1, 2>(lanes, weight.cols, widen, x, rows, tile, [out(s)], false),
                    3 => sum::<L, 1, 3>(lanes, weight.cols, widen, x, rows, tile, [out(s)], false),
                    4 => sum::<L, 1, 4>(lanes, weight.cols, widen, x, rows, tile, [out(s)], false),
                    _ => sum::<L, 1, 6>(lanes, weight.cols, widen, x, rows, tile, [out(s)], false),
                }
            }
        }
        return;
    }
    let mut slab = vec![[[0.0; LANES]; 2]; SLAB];
    for first in strips.step_by(2) {
        let pair = first..(first + 2).min(weight.rows.div_ceil(LANES));
        for first in (0..weight.cols).step_by(SLAB) {
            let cols = first..weight.cols.min(first + SLAB);
            for (at, s) in pair.clone().enumerate() {
                for (to, numbers) in slab.iter_mut().zip(&weight.numbers::<F>(s)[cols.clone()]) {
                    lanes.put(F::widen(lanes, numbers), &mut to[at]);
                }
            }
            for rows in panels(0..x.rows, x.tile) {
                let (x, len, more) = (x.floats(&rows, cols.clone()), cols.len(), first > 0);
                if L::PAIRS && rows.len() == 6 && pair.len() == 2 {
                    let widen = |k: usize| [lanes.floats(&slab[k][0]), lanes.floats(&slab[k][1])];
                    let out = [out(pair.start), out(pair.start + 1)];
                    sum::<L, 2, 6>(lanes, len, widen, x, rows.clone(), tile, out, more);
                    continue;
                }
                for (at, s) in pair.clone().enumerate() {
                    let (out, rows) = ([out(s)], rows.clone());
                    let widen = |k: usize| [lanes.floats(&slab[k][at])];
                    match rows.len() {
                        1 => sum::<L, 1, 1>(lanes, len, widen, x, rows, tile, out, more),
                        2 => sum::<L, 1, 2>(lanes, len, widen, x, rows, tile, out, more),
                        3 => sum::<L, 1, 3>(lanes, len, widen, x, rows, tile, out, more),
                        4 => sum::<L, 1, 4>(lanes, len, widen, x, rows, tile, out, more),
                        _ => sum::<L, 1, 6>(lanes, len, widen, x, rows, tile, out, more),
                    }
                }
            }
        }
    }
}

/// The sums over `cols` columns of `R` strips and `C` rows of activations, added to what is there if there
/// is `more` than this.
#[expect(clippy::too_many_arguments, reason = "to be reshaped")]
#[inline(always)]
fn sum<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    cols: usize,
    weights: impl Fn(usize) -> [L::Floats; R],
    x: &[f32],
    rows: Range<usize>,
    tile: &mut Tile<'_, f32>,
    out: [Range<usize>; R],
    more: bool,
) {
    let mut sums = [[lanes.splat(0.0); R]; C];
    if more {
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = load(lanes, rows.start + c, tile, out[r].clone());
            }
        }
    }
    for k in 0..cols {
        let weights = weights(k);
        let x: &[f32; C] = row_of(x, k);
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = lanes.mul_add(weights[r], lanes.splat(x[c]), sums[c][r]);
            }
        }
    }
    for c in 0..C {
        for r in 0..R {
            store(lanes, sums[c][r], rows.start + c, tile, out[r].clone());
        }
    }
}
