//! GEMV and GEMM: products of strips and panels of activations.
//!
//! Up to 8 activation rows use the GEMV path, which multiplies packed weights directly. Larger batches use the GEMM path,
//! which first unpacks a slab of weights to int8 so that it stays in L2 (`slab.rs`). Either way a number is summed in the order that `sums.rs` says.

use std::marker::PhantomData;
use std::ops::Range;

use super::activations::{Activations, panels};
use super::layout::{Factors, Kind, Layout};
use super::sums::{Source, block, store, strips};
use super::{Packed, Scratch, scaled, slab};
use crate::lanes::{BYTES, Lanes};
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
