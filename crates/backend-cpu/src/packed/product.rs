//! Products of strips and panels of activations.
//!
//! Lanes are rows of the weight: a result of 16 neighbouring numbers. Few rows of activations are
//! multiplied with strips as they lie; for many, slabs of strips are unpacked once (`slab.rs`). A number is
//! summed in the same order either way:
//!
//! - of a group, the integer sum of products, exact;
//! - times the scale, added to the sum of the block, and after it the minimum times the sum of the
//!   activations; where a block is one group, the scale is multiplied by that of the activations before;
//! - of a block of several groups, times the scale of the activations, added to the number.

use std::marker::PhantomData;
use std::ops::Range;

use super::activations::{Activations, Panel, panels};
use super::layout::{Factors, Kind, Layout};
use super::{Packed, Scratch, scaled, slab};
use crate::lanes::{BYTES, LANES, Lanes};
use crate::pool::Tile;

/// Rows of activations that are multiplied with strips as they lie, at most.
pub(crate) const DIRECT: usize = 8;

/// Lines between what is read and what is asked for: into the second-level cache, because the processor's own
/// prefetcher sees no more than what was read and leaves a third of the memory's rate unused, and from there
/// into the first-level cache, because the numbers in between are too many to be waited for side by side.
const AHEAD: [usize; 2] = [128, 48];

/// Computes the tile `[rows of x, rows of weight]`, whole strips but for the weight's last.
#[inline(always)]
pub(crate) fn multiply<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    weight: &Packed,
    x: Activations<'_>,
    tile: &mut Tile<'_, f32>,
) {
    if x.rows > DIRECT {
        return slab::multiply::<L, B, G>(lanes, weight, x, tile);
    }
    let mut scratch = Scratch::take();
    for s in strips(tile) {
        let strip = weight.blocks::<L, B, G>(lanes, s, 0..weight.cols / (32 * G), &mut scratch);
        let out = weight.numbers_of(s);
        for rows in panels(0..x.rows, x.tile) {
            match rows.len() {
                1 => direct::<L, B, G, 1>(lanes, strip, &out, x, rows, tile),
                2 if L::TILE > 1 => direct::<L, B, G, 2>(lanes, strip, &out, x, rows, tile),
                3 if L::TILE == 3 => direct::<L, B, G, 3>(lanes, strip, &out, x, rows, tile),
                4 if L::TILE == 6 => direct::<L, B, G, 4>(lanes, strip, &out, x, rows, tile),
                6 if L::TILE == 6 => direct::<L, B, G, 6>(lanes, strip, &out, x, rows, tile),
                width => unreachable!("a panel of {width} rows"),
            }
        }
    }
}

/// The strips whose numbers a tile has.
#[inline(always)]
pub(super) fn strips(tile: &Tile<'_, f32>) -> Range<usize> {
    tile.cols().start / LANES..tile.cols().end.div_ceil(LANES)
}

/// The strips of a tile, as many at a time as a slab holds.
#[inline(always)]
pub(super) fn groups<L: Lanes>(tile: &Tile<'_, f32>) -> impl Iterator<Item = Range<usize>> + use<L> {
    let (Range { start, end }, width) = (strips(tile), if L::TILE == 6 { 2 } else { 1 });
    (start..end).step_by(width).map(move |first| first..end.min(first + width))
}

/// Where the numbers of `R` strips come from: a strip itself, or what was unpacked.
pub(super) trait Source<L: Lanes, const R: usize>: Copy {
    /// Adds the products of group `group` of the block and `x`, `[steps][C]`, to `starts`.
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; R]; C];

    /// Scales and minimums of group `group` of the block.
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
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; 1]; C] {
        let steps = B::Kind::GROUP / 4;
        let mut sums = [[lanes.zero(); 2]; C];
        let mut joined = [[lanes.zero(); 1]; C];
        for c in 0..C {
            sums[c][0] = starts[c];
        }
        if B::LOW == 4 && B::HIGH == 0 && B::TABLE.is_none() {
            let halves = &self.planes[group * steps / 2..][..steps / 2];
            for k in 0..steps / 2 {
                let halves = lanes.bytes(&halves[k]);
                for c in 0..C {
                    sums[c] = lanes.dot_halves(sums[c], halves, [x[2 * k * C + c], x[(2 * k + 1) * C + c]]);
                }
            }
            for c in 0..C {
                joined[c] = [lanes.join(sums[c])];
            }
        } else {
            for k in 0..steps {
                let weights = B::step(lanes, self.planes, group * steps + k);
                for c in 0..C {
                    sums[c][k % 2] = lanes.dot::<SIGNED>(sums[c][k % 2], weights, x[k * C + c]);
                }
            }
            for c in 0..C {
                joined[c] = [lanes.plus(sums[c][0], sums[c][1])];
            }
        }
        joined
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        let groups = B::Kind::GROUPS;
        for line in group * B::PLANES / groups..(group + 1) * B::PLANES / groups {
            lanes.prefetch(self.planes.as_ptr().wrapping_add(line + AHEAD[0]).cast());
            lanes.prefetch_near(self.planes.as_ptr().wrapping_add(line + AHEAD[1]).cast());
        }
        [(lanes.floats(&self.factors.scales[group]), lanes.floats(&self.factors.mins[group]))]
    }
}

/// All columns of a strip, its factors and planes, whose numbers are `out`, with the rows `rows` of activations, of which there are `C`.
#[inline(always)]
fn direct<L: Lanes, B: Layout<G>, const G: usize, const C: usize>(
    lanes: L,
    (heads, planes): (&[u8], &[[u8; BYTES]]),
    out: &Range<usize>,
    x: Activations<'_>,
    rows: Range<usize>,
    tile: &mut Tile<'_, f32>,
) {
    let cols = x.cols;
    let x = x.panel(&rows, 0..cols, scaled::<B, G>());
    let mut sums = [[lanes.splat(0.0); 1]; C];
    let mut factors = Factors::ZERO;
    for b in 0..cols / (32 * G) {
        B::factors_of(lanes, &heads[b * B::FACTORS..][..B::FACTORS], &mut factors);
        let planes = &planes[b * B::PLANES..][..B::PLANES];
        let source = Lying::<B, G> { planes, factors: &factors, format: PhantomData };
        block::<L, B::Kind, 1, C>(lanes, &mut sums, source, x, b);
    }
    store(lanes, sums, rows.start, tile, std::array::from_ref(out));
}

/// Adds the products of block `b` of the panel's columns to `sums`: for each row of the panel a number of
/// each strip.
#[inline(always)]
pub(super) fn block<L: Lanes, K: Kind, const R: usize, const C: usize>(
    lanes: L,
    sums: &mut [[L::Floats; R]; C],
    source: impl Source<L, R>,
    x: Panel<'_>,
    b: usize,
) {
    let steps = K::GROUP / 4;
    let x_scales: &[f32; C] = row_of(x.scales, b);
    let mut of_block = [[lanes.splat(0.0); R]; C];
    for g in 0..K::GROUPS {
        let at = b * K::GROUPS + g;
        let mut starts = [lanes.zero(); C];
        if !K::MINS {
            let numbers: &[i32; C] = row_of(x.starts, at);
            for c in 0..C {
                starts[c] = if K::SIGNED {
                    lanes.start::<true>(numbers[c])
                } else {
                    lanes.start::<false>(numbers[c])
                };
            }
        }
        let steps = &x.steps[at * steps * C..][..steps * C];
        let ints = if K::SIGNED {
            source.sums::<true, C>(lanes, starts, g, steps)
        } else {
            source.sums::<false, C>(lanes, starts, g, steps)
        };
        let factors = source.factors(lanes, g);
        let x_sums: &[f32; C] = if K::MINS { row_of(x.sums, at) } else { &[0.0; C] };
        for r in 0..R {
            let (scale, min) = factors[r];
            for c in 0..C {
                let to = if K::GROUPS == 1 { &mut sums[c][r] } else { &mut of_block[c][r] };
                let scale = if K::GROUPS == 1 { lanes.mul(scale, lanes.splat(x_scales[c])) } else { scale };
                *to = lanes.mul_add(lanes.to_floats(ints[c][r]), scale, *to);
                if K::MINS {
                    *to = lanes.mul_add(min, lanes.splat(x_sums[c]), *to);
                }
            }
        }
    }
    if K::GROUPS > 1 {
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = lanes.mul_add(of_block[c][r], lanes.splat(x_scales[c]), sums[c][r]);
            }
        }
    }
}

/// Row `row` of rows of `C` numbers.
#[inline(always)]
pub(crate) fn row_of<T, const C: usize>(rows: &[T], row: usize) -> &[T; C] {
    rows[row * C..][..C].try_into().expect("rows of C numbers")
}

/// Writes `C` rows from row `first` on: of each strip the numbers `out`, which may be fewer than 16 or none.
#[inline(always)]
pub(super) fn store<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    sums: [[L::Floats; R]; C],
    first: usize,
    tile: &mut Tile<'_, f32>,
    out: &[Range<usize>; R],
) {
    for c in 0..C {
        for r in 0..R {
            let to = part(tile, first + c, &out[r]);
            if let Ok(to) = <&mut [f32; LANES]>::try_from(&mut *to) {
                lanes.put(sums[c][r], to);
            } else {
                let mut numbers = [0.0; LANES];
                lanes.put(sums[c][r], &mut numbers);
                to.copy_from_slice(&numbers[..to.len()]);
            }
        }
    }
}

/// Reads what [`store`] has written.
#[inline(always)]
pub(super) fn load<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    first: usize,
    tile: &mut Tile<'_, f32>,
    out: &[Range<usize>; R],
) -> [[L::Floats; R]; C] {
    let mut sums = [[lanes.splat(0.0); R]; C];
    for c in 0..C {
        for r in 0..R {
            let from = part(tile, first + c, &out[r]);
            sums[c][r] = if let Ok(from) = <&[f32; LANES]>::try_from(&*from) {
                lanes.floats(from)
            } else {
                let mut numbers = [0.0; LANES];
                numbers[..from.len()].copy_from_slice(from);
                lanes.floats(&numbers)
            };
        }
    }
    sums
}

/// The numbers `out` of row `row` of the result.
#[inline(always)]
fn part<'a>(tile: &'a mut Tile<'_, f32>, row: usize, out: &Range<usize>) -> &'a mut [f32] {
    let first = tile.cols().start;
    &mut tile.row(row)[out.start - first..out.end - first]
}
