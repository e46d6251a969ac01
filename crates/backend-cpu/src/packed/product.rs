//! Products of strips and panels of activations.
//!
//! Lanes are rows of the weight: a result of 16 neighbouring numbers. Few rows of activations are
//! multiplied with strips as they lie; for many, a slab of two strips is unpacked once and multiplied with
//! panel after panel. A number is summed in the same order either way:
//!
//! - of a group, the integer sum of products, exact;
//! - times the scale, added to the sum of the block, and the minimum times the sum of the activations after
//!   it; where a block is one group, the scale is multiplied by that of the activations before;
//! - of a block of several groups, times the scale of the activations, added to the number.

use std::marker::PhantomData;
use std::ops::Range;

use super::activations::{Activations, Panel, panels};
use super::layout::{Factors, GROUPS, Layout};
use super::{Packed, scaled};
use crate::lanes::{BYTES, LANES, Lanes};
use crate::pool::Tile;

/// Rows of activations that are multiplied with strips as they lie, at most.
pub(crate) const DIRECT: usize = 8;

/// Columns of a slab: what is unpacked stays in the first-level cache with a panel beside it.
const SLAB: usize = 1024;

/// Computes the tile `[rows of x, rows of weight]`, whole strips but for the weight's last.
#[inline(always)]
pub(crate) fn multiply<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    weight: &Packed,
    x: Activations<'_>,
    tile: &mut Tile<'_, f32>,
) {
    let strips = tile.cols().start / LANES..tile.cols().end.div_ceil(LANES);
    if x.rows <= DIRECT {
        for s in strips {
            let cols = s * LANES..weight.rows.min((s + 1) * LANES);
            for rows in panels(0..x.rows, x.tile) {
                match rows.len() {
                    1 => direct::<L, B, G, 1>(lanes, weight, s, x, rows, tile, cols.clone()),
                    2 => direct::<L, B, G, 2>(lanes, weight, s, x, rows, tile, cols.clone()),
                    3 => direct::<L, B, G, 3>(lanes, weight, s, x, rows, tile, cols.clone()),
                    _ => direct::<L, B, G, 4>(lanes, weight, s, x, rows, tile, cols.clone()),
                }
            }
        }
        return;
    }
    let mut slab = Slab::new();
    for s in strips.step_by(2) {
        let pair = s..(s + 2).min(weight.rows.div_ceil(LANES));
        for first in (0..weight.cols).step_by(SLAB) {
            let cols = first..weight.cols.min(first + SLAB);
            for (at, s) in pair.clone().enumerate() {
                slab.unpack::<L, B, G>(lanes, weight, s, at, cols.clone());
            }
            for rows in panels(0..x.rows, x.tile) {
                let panel = x.panel(&rows, cols.clone(), scaled::<B, G>());
                let strip = |s: usize| s * LANES..weight.rows.min((s + 1) * LANES);
                if L::PAIRS && rows.len() == 6 && pair.len() == 2 {
                    let out = [strip(pair.start), strip(pair.start + 1)];
                    slab.multiply::<L, B, G, 2, 6>(lanes, 0, panel, rows.clone(), tile, out, first > 0);
                    continue;
                }
                for (at, s) in pair.clone().enumerate() {
                    let (out, rows, more) = ([strip(s)], rows.clone(), first > 0);
                    match rows.len() {
                        1 => slab.multiply::<L, B, G, 1, 1>(lanes, at, panel, rows, tile, out, more),
                        2 => slab.multiply::<L, B, G, 1, 2>(lanes, at, panel, rows, tile, out, more),
                        3 => slab.multiply::<L, B, G, 1, 3>(lanes, at, panel, rows, tile, out, more),
                        4 => slab.multiply::<L, B, G, 1, 4>(lanes, at, panel, rows, tile, out, more),
                        _ => slab.multiply::<L, B, G, 1, 6>(lanes, at, panel, rows, tile, out, more),
                    }
                }
            }
        }
    }
}

/// Where the numbers of `R` strips come from: a strip itself, or what was unpacked.
trait Source<L: Lanes, const R: usize>: Copy {
    /// Adds the products of four steps from `step` of the columns at hand.
    fn dot<const ZERO: u8, const C: usize>(self, lanes: L, sums: &mut [[L::Ints; R]; C], step: usize, x: &[[i8; 4]]);
    /// Scales and minimums of group `group` of the columns at hand.
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); R];
}

/// A block of a strip as it lies, and its factors.
struct Lying<'a, B, const G: usize> {
    planes: &'a [[u8; BYTES]],
    factors: &'a Factors,
    format: PhantomData<B>,
}

impl<B, const G: usize> Clone for Lying<'_, B, G> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, const G: usize> Copy for Lying<'_, B, G> {}

impl<L: Lanes, B: Layout<G>, const G: usize> Source<L, 1> for Lying<'_, B, G> {
    #[inline(always)]
    fn dot<const ZERO: u8, const C: usize>(self, lanes: L, sums: &mut [[L::Ints; 1]; C], step: usize, x: &[[i8; 4]]) {
        for k in 0..4 {
            let weights = B::step(lanes, self.planes, step + k);
            for c in 0..C {
                sums[c][0] = lanes.dot::<ZERO>(sums[c][0], weights, x[k * C + c]);
            }
        }
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        [(lanes.floats(&self.factors.scales[group]), lanes.floats(&self.factors.mins[group]))]
    }
}

/// Adds the products of a block to `sums`, for each row of the panel one number of each strip.
#[inline(always)]
fn block<L: Lanes, B: Layout<G>, const G: usize, const R: usize, const C: usize>(
    lanes: L,
    sums: &mut [[L::Floats; R]; C],
    source: impl Source<L, R>,
    x: Panel<'_>,
    b: usize,
) {
    let (groups, steps) = (32 * G / B::GROUP, B::GROUP / 4);
    let mut of_block = [[lanes.splat(0.0); R]; C];
    for g in 0..groups {
        let at = b * groups + g;
        let mut ints = [[lanes.start::<0>(0); R]; C];
        if !B::OFFSETS && B::ZERO > 0 {
            let starts: &[i32; C] = row_of(x.starts, at);
            for c in 0..C {
                ints[c] = [start::<L, B, G>(lanes, starts[c]); R];
            }
        }
        for k in (0..steps).step_by(4) {
            let x = &x.steps[(at * steps + k) * C..][..4 * C];
            if B::ZERO == 128 {
                source.dot::<128, C>(lanes, &mut ints, g * steps + k, x);
            } else {
                source.dot::<0, C>(lanes, &mut ints, g * steps + k, x);
            }
        }
        let factors = source.factors(lanes, g);
        let x_scales: &[f32; C] = row_of(x.scales, b);
        let x_sums: &[f32; C] = if B::OFFSETS { row_of(x.sums, at) } else { &[0.0; C] };
        for r in 0..R {
            let (scale, min) = factors[r];
            for c in 0..C {
                let to = if groups == 1 { &mut sums[c][r] } else { &mut of_block[c][r] };
                let scale = if groups == 1 { lanes.mul(scale, lanes.splat(x_scales[c])) } else { scale };
                *to = lanes.mul_add(lanes.to_floats(ints[c][r]), scale, *to);
                if B::OFFSETS {
                    *to = lanes.mul_add(min, lanes.splat(x_sums[c]), *to);
                }
            }
        }
    }
    if groups > 1 {
        let x_scales: &[f32; C] = row_of(x.scales, b);
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = lanes.mul_add(of_block[c][r], lanes.splat(x_scales[c]), sums[c][r]);
            }
        }
    }
}

/// Row `row` of rows of `C` numbers.
#[inline(always)]
pub(super) fn row_of<T, const C: usize>(rows: &[T], row: usize) -> &[T; C] {
    rows[row * C..][..C].try_into().expect("rows of C numbers")
}

#[inline(always)]
fn start<L: Lanes, B: Layout<G>, const G: usize>(lanes: L, start: i32) -> L::Ints {
    if B::ZERO == 128 { lanes.start::<128>(start) } else { lanes.start::<0>(start) }
}

/// All columns of strip `s` with all rows of activations, of which there are `C`.
#[inline(always)]
fn direct<L: Lanes, B: Layout<G>, const G: usize, const C: usize>(
    lanes: L,
    weight: &Packed,
    s: usize,
    x: Activations<'_>,
    rows: Range<usize>,
    tile: &mut Tile<'_, f32>,
    out: Range<usize>,
) {
    let x = x.panel(&rows, 0..weight.cols, scaled::<B, G>());
    let (heads, planes) = weight.strip(s);
    let mut sums = [[lanes.splat(0.0); 1]; C];
    let mut factors = Factors::ZERO;
    for b in 0..weight.cols / (32 * G) {
        B::read_factors(lanes, &heads[b * B::FACTORS..][..B::FACTORS], &mut factors);
        let planes = &planes[b * B::PLANES..][..B::PLANES];
        let source = Lying::<B, G> { planes, factors: &factors, format: PhantomData };
        block::<L, B, G, 1, C>(lanes, &mut sums, source, x, b);
    }
    for c in 0..C {
        store(lanes, sums[c][0], rows.start + c, tile, out.clone());
    }
}

/// Writes the numbers `out` of row `row`.
#[inline(always)]
pub(super) fn store<L: Lanes>(lanes: L, sum: L::Floats, row: usize, tile: &mut Tile<'_, f32>, out: Range<usize>) {
    let first = tile.cols().start;
    let to = &mut tile.row(row)[out.start - first..out.end - first];
    match to.try_into() {
        Ok(to) => lanes.put(sum, to),
        Err(_) => {
            let mut numbers = [0.0; LANES];
            lanes.put(sum, &mut numbers);
            let len = out.len();
            tile.row(row)[out.start - first..out.end - first].copy_from_slice(&numbers[..len]);
        }
    }
}

/// Reads them.
#[inline(always)]
pub(super) fn load<L: Lanes>(lanes: L, row: usize, tile: &mut Tile<'_, f32>, out: Range<usize>) -> L::Floats {
    let first = tile.cols().start;
    let from = &tile.row(row)[out.start - first..out.end - first];
    match from.try_into() {
        Ok(from) => lanes.floats(from),
        Err(_) => {
            let mut numbers = [0.0; LANES];
            numbers[..from.len()].copy_from_slice(from);
            lanes.floats(&numbers)
        }
    }
}

/// Two strips' columns, unpacked.
struct Slab {
    /// `[steps][2]`.
    steps: Vec<[[u8; BYTES]; 2]>,
    /// `[groups][2]`.
    scales: Vec<[[f32; LANES]; 2]>,
    mins: Vec<[[f32; LANES]; 2]>,
}

impl Slab {
    fn new() -> Slab {
        Slab {
            steps: vec![[[0; BYTES]; 2]; SLAB / 4],
            scales: vec![[[0.0; LANES]; 2]; SLAB / 16],
            mins: vec![[[0.0; LANES]; 2]; SLAB / 16],
        }
    }

    /// Unpacks the columns `cols` of strip `s` to place `at`.
    #[inline(always)]
    fn unpack<L: Lanes, B: Layout<G>, const G: usize>(
        &mut self,
        lanes: L,
        weight: &Packed,
        s: usize,
        at: usize,
        cols: Range<usize>,
    ) {
        let (heads, planes) = weight.strip(s);
        let mut factors = Factors::ZERO;
        let (groups, steps) = (32 * G / B::GROUP, 8 * G);
        let first = cols.start / (32 * G);
        for b in first..cols.end / (32 * G) {
            B::read_factors(lanes, &heads[b * B::FACTORS..][..B::FACTORS], &mut factors);
            let planes = &planes[b * B::PLANES..][..B::PLANES];
            let to = &mut self.steps[(b - first) * steps..][..steps];
            for (step, to) in to.iter_mut().enumerate() {
                lanes.put_bytes(B::step(lanes, planes, step), &mut to[at]);
            }
            for g in 0..groups.min(GROUPS) {
                self.scales[(b - first) * groups + g][at] = factors.scales[g];
                self.mins[(b - first) * groups + g][at] = factors.mins[g];
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "to be reshaped")]
    #[inline(always)]
    fn multiply<L: Lanes, B: Layout<G>, const G: usize, const R: usize, const C: usize>(
        &self,
        lanes: L,
        at: usize,
        x: Panel<'_>,
        rows: Range<usize>,
        tile: &mut Tile<'_, f32>,
        out: [Range<usize>; R],
        more: bool,
    ) where
        for<'a> Unpacked<'a>: Source<L, R>,
    {
        let mut sums = [[lanes.splat(0.0); R]; C];
        if more {
            for c in 0..C {
                for r in 0..R {
                    sums[c][r] = load(lanes, rows.start + c, tile, out[r].clone());
                }
            }
        }
        let (groups, steps) = (32 * G / B::GROUP, 8 * G);
        for b in 0..x.scales.len() / C {
            let source = Unpacked {
                steps: &self.steps[b * steps..][..steps],
                scales: &self.scales[b * groups..][..groups],
                mins: &self.mins[b * groups..][..groups],
                at,
            };
            block::<L, B, G, R, C>(lanes, &mut sums, source, x, b);
        }
        for c in 0..C {
            for r in 0..R {
                store(lanes, sums[c][r], rows.start + c, tile, out[r].clone());
            }
        }
    }
}

/// A block of a slab.
#[derive(Clone, Copy)]
struct Unpacked<'a> {
    steps: &'a [[[u8; BYTES]; 2]],
    scales: &'a [[[f32; LANES]; 2]],
    mins: &'a [[[f32; LANES]; 2]],
    at: usize,
}

impl<L: Lanes> Source<L, 1> for Unpacked<'_> {
    #[inline(always)]
    fn dot<const ZERO: u8, const C: usize>(self, lanes: L, sums: &mut [[L::Ints; 1]; C], step: usize, x: &[[i8; 4]]) {
        for k in 0..4 {
            let weights = lanes.bytes(&self.steps[step + k][self.at]);
            for c in 0..C {
                sums[c][0] = lanes.dot::<ZERO>(sums[c][0], weights, x[k * C + c]);
            }
        }
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        [(lanes.floats(&self.scales[group][self.at]), lanes.floats(&self.mins[group][self.at]))]
    }
}

impl<L: Lanes> Source<L, 2> for Unpacked<'_> {
    #[inline(always)]
    fn dot<const ZERO: u8, const C: usize>(self, lanes: L, sums: &mut [[L::Ints; 2]; C], step: usize, x: &[[i8; 4]]) {
        let weights = self.steps[step..][..4].try_into().expect("four steps");
        lanes.dot_pairs::<ZERO, C>(sums, weights, x);
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 2] {
        let (scales, mins) = (&self.scales[group], &self.mins[group]);
        [(lanes.floats(&scales[0]), lanes.floats(&mins[0])), (lanes.floats(&scales[1]), lanes.floats(&mins[1]))]
    }
}
