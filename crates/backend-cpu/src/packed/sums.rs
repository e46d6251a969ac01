//! The summation order that GEMV and GEMM share, and stores to the result.
//!
//! Lanes are rows of the weight, so a vector holds 16 neighbouring results. Each result is summed in one order:
//!
//! - a group's integer dot product is exact;
//! - it is multiplied by the group's scale and added to the block's sum, followed by the minimum times the sum of the
//!   activations. If a block is one group, the scale is first multiplied by the activations' scale;
//! - a block of several groups is multiplied by the activations' scale and added to the result.

use std::ops::Range;

use super::activations::Panel;
use super::layout::Kind;
use crate::lanes::{LANES, Lanes};
use crate::pool::Tile;

#[inline(always)]
pub(super) fn strips(tile: &Tile<'_, f32>) -> Range<usize> {
    tile.cols().start / LANES..tile.cols().end.div_ceil(LANES)
}

/// The strips of a tile, in chunks of a slab's strips.
#[inline(always)]
pub(super) fn groups<L: Lanes>(tile: &Tile<'_, f32>) -> impl Iterator<Item = Range<usize>> + use<L> {
    let (Range { start, end }, width) = (strips(tile), if L::TILE == 6 { 2 } else { 1 });
    (start..end).step_by(width).map(move |first| first..end.min(first + width))
}

/// Source of the weights of `R` strips: a packed strip or an unpacked slab.
pub(super) trait Source<L: Lanes, const R: usize>: Copy {
    /// Accumulates the integer dot products of group `group` and `x`, `[steps][C]`, onto `starts`.
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

/// Accumulates block `b` of the panel into `sums`, one result per panel row and strip.
#[inline(always)]
pub(super) fn block<L: Lanes, K: Kind, const R: usize, const C: usize>(
    lanes: L,
    sums: &mut [[L::Floats; R]; C],
    source: impl Source<L, R>,
    x: Panel<'_>,
    b: usize,
) {
    let x_scales: &[f32; C] = row_chunk(x.scales, b);
    let mut block_sums = [[lanes.splat(0.0); R]; C];
    // Two groups of 16 values at a time: the shifts of a step are constants only per 32 values.
    for g in (0..K::GROUPS).step_by(K::UNROLL) {
        group::<L, K, R, C>(lanes, [&mut *sums, &mut block_sums], source, x, (b, g));
        if K::UNROLL == 2 {
            group::<L, K, R, C>(lanes, [&mut *sums, &mut block_sums], source, x, (b, g + 1));
        }
    }
    if K::GROUPS > 1 {
        for c in 0..C {
            for r in 0..R {
                sums[c][r] = lanes.mul_add(block_sums[c][r], lanes.splat(x_scales[c]), sums[c][r]);
            }
        }
    }
}

/// Accumulates group `g` of block `b` into the results if it is the whole block, else into the block's sums.
#[inline(always)]
fn group<L: Lanes, K: Kind, const R: usize, const C: usize>(
    lanes: L,
    [sums, block_sums]: [&mut [[L::Floats; R]; C]; 2],
    source: impl Source<L, R>,
    x: Panel<'_>,
    (b, g): (usize, usize),
) {
    let (steps, at) = (K::GROUP / 4, b * K::GROUPS + g);
    let x_scales: &[f32; C] = row_chunk(x.scales, b);
    let mut starts = [lanes.acc_zero(); C];
    if !K::MINS {
        let values: &[i32; C] = row_chunk(x.starts, at);
        for c in 0..C {
            starts[c] = if K::SIGNED {
                lanes.acc_init::<true>(values[c])
            } else {
                lanes.acc_init::<false>(values[c])
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
    let x_sums: &[f32; C] = if K::MINS { row_chunk(x.sums, at) } else { &[0.0; C] };
    for r in 0..R {
        let (scale, min) = factors[r];
        for c in 0..C {
            let to = if K::GROUPS == 1 { &mut sums[c][r] } else { &mut block_sums[c][r] };
            let scale = if K::GROUPS == 1 { lanes.mul(scale, lanes.splat(x_scales[c])) } else { scale };
            *to = lanes.mul_add(lanes.to_f32(ints[c][r]), scale, *to);
            if K::MINS {
                *to = lanes.mul_add(min, lanes.splat(x_sums[c]), *to);
            }
        }
    }
}

#[inline(always)]
pub(crate) fn row_chunk<T, const C: usize>(rows: &[T], row: usize) -> &[T; C] {
    rows[row * C..][..C].try_into().expect("rows of C values")
}

/// Stores `C` rows from row `first` on to the result columns `out` of each strip, which may be fewer than 16.
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
                lanes.store_f32(sums[c][r], to);
            } else {
                let mut values = [0.0; LANES];
                lanes.store_f32(sums[c][r], &mut values);
                to.copy_from_slice(&values[..to.len()]);
            }
        }
    }
}

/// Loads what [`store`] has stored.
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
                lanes.load_f32(from)
            } else {
                let mut values = [0.0; LANES];
                values[..from.len()].copy_from_slice(from);
                lanes.load_f32(&values)
            };
        }
    }
    sums
}

/// Columns `out` of row `row` of the result.
#[inline(always)]
fn part<'a>(tile: &'a mut Tile<'_, f32>, row: usize, out: &Range<usize>) -> &'a mut [f32] {
    let first = tile.cols().start;
    &mut tile.row(row)[out.start - first..out.end - first]
}
