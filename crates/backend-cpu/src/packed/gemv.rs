//! GEMV with quantised weights.
//!
//! The activation rows of a few panels use the GEMV path, which multiplies packed weights directly, a strip by panel after
//! panel. Larger batches use the GEMM path (`gemm.rs`), which first unpacks a slab of weights to int8. Both sum in the same
//! order (`sums.rs`).

use std::marker::PhantomData;
use std::ops::Range;

use super::activations::{Activations, panels};
use super::layout::{Factors, Kind, Layout};
use super::sums::{Source, block, store, strips};
use super::{Packed, Scratch, gemm, parts, runs, scaled};
use crate::lanes::{BYTES, HARDWARE_PREFETCH_SUFFICES, Lanes, WithSimd};
use crate::pool::Tile;

/// Prefetch distances in cache lines: into L2, because Intel's hardware prefetchers alone reach only two thirds of the
/// memory bandwidth, and from L2 into L1, because out-of-order execution cannot cover the L2 latency.
const PREFETCH_LINES: [usize; 2] = [128, 48];

/// Maximum activation rows of the GEMV path. With AVX2, unpacking a strip's bits again for each panel costs less than writing
/// them to a slab and reading it: for four panels of nibbles, or two in other formats.
#[inline(always)]
const fn max_rows<L: Lanes, B: Layout<G>, const G: usize>() -> usize {
    match L::TILE {
        4 if is_nibbles::<B, G>() => 16,
        4 => 8,
        panel => panel,
    }
}

/// Whether quants are the nibbles of one plane.
#[inline(always)]
const fn is_nibbles<B: Layout<G>, const G: usize>() -> bool {
    B::LOW == 4 && B::HIGH == 0 && B::TABLE.is_none()
}

/// Prefetches what follows `lines` at these distances.
#[inline(always)]
fn prefetch_lines(lanes: impl Lanes, lines: &[[u8; BYTES]]) {
    for line in lines {
        lanes.prefetch(std::ptr::from_ref(line).wrapping_add(PREFETCH_LINES[0]).cast());
        lanes.prefetch_near(std::ptr::from_ref(line).wrapping_add(PREFETCH_LINES[1]).cast());
    }
}

/// Computes the tile `[rows of x, rows of weight]`: whole strips, except for the weight's last.
pub(crate) struct Multiply<'a, 't, B, const G: usize> {
    pub(crate) weight: &'a Packed,
    pub(crate) x: Activations<'a>,
    pub(crate) tile: &'a mut Tile<'t, f32>,
    pub(crate) format: PhantomData<B>,
}

impl<B: Layout<G>, const G: usize> WithSimd for Multiply<'_, '_, B, G> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Multiply { weight, x, tile, .. } = self;
        if x.rows > max_rows::<L, B, G>() {
            return gemm::multiply::<L, B, G>(lanes, weight, x, tile);
        }
        let (mut scratch, mut factors) = (Scratch::take(), Factors::ZERO);
        for s in strips(tile) {
            let strip = weight.blocks::<L, B, G>(lanes, s, 0..weight.cols / (32 * G), &mut scratch);
            let out = weight.strip_outputs(s);
            for rows in panels(0..x.rows, x.tile) {
                match rows.len() {
                    1 => gemv::<L, B, G, 1>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    2 if L::TILE > 1 => gemv::<L, B, G, 2>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    3 if L::TILE > 1 => gemv::<L, B, G, 3>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    4 if L::TILE > 1 => gemv::<L, B, G, 4>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    5 if L::TILE == 6 => gemv::<L, B, G, 5>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    6 if L::TILE == 6 => gemv::<L, B, G, 6>(lanes, strip, &mut factors, &out, x, &rows, tile),
                    rows => unreachable!("a panel of {rows} rows"),
                }
            }
        }
    }
}

/// The groups of a packed block, from `first` on, that share a block of activations.
struct PackedBlock<'a, B, const G: usize> {
    planes: &'a [[u8; BYTES]],
    factors: &'a Factors,
    first: usize,
    prefetch: bool,
    format: PhantomData<B>,
}

impl<B, const G: usize> Clone for PackedBlock<'_, B, G> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, const G: usize> Copy for PackedBlock<'_, B, G> {}

impl<L: Lanes, B: Layout<G>, const G: usize> Source<L, 1> for PackedBlock<'_, B, G> {
    #[inline(always)]
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; 1]; C] {
        let (steps, group) = (B::Kind::GROUP / 4, self.first + group);
        let mut joined = [[lanes.acc_zero(); 1]; C];
        if is_nibbles::<B, G>() {
            let vectors = &self.planes[group * steps / 2..][..steps / 2];
            let sums = lanes.dot_nibbles(starts, vectors, x);
            for c in 0..C {
                joined[c] = [sums[c]];
            }
        } else {
            // Enough sums that the latency of a product hides behind others, and no more than registers hold.
            let (unit, most) = if steps > 8 { (8, 4) } else { (steps, 2) };
            let chains = if C > 4 { 1 } else { most.min(L::CHAINS) };
            let mut sums = [[lanes.acc_zero(); C]; 4];
            sums[0] = starts;
            let x = x.as_chunks::<C>().0;
            // Loops of at most 8 steps are unrolled, so that the shifts are constants.
            for first in (0..steps).step_by(unit) {
                for k in (0..unit).step_by(2) {
                    let at = group * steps + first + k;
                    let weights = [B::step(lanes, self.planes, at), B::step(lanes, self.planes, at + 1)];
                    let x = x[first + k..][..2].as_array().expect("two steps");
                    lanes.dot_two::<SIGNED, C>(&mut sums[k / 2 % chains], weights, x, B::MAX_WEIGHT);
                }
            }
            for c in 0..C {
                let [s0, s1, s2, s3] = [sums[0][c], sums[1][c], sums[2][c], sums[3][c]];
                joined[c] = [lanes.add_i32(lanes.add_i32(s0, s1), lanes.add_i32(s2, s3))];
            }
        }
        joined
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        let group = self.first + group;
        let unroll = B::Kind::UNROLL;
        if self.prefetch && group.is_multiple_of(unroll) {
            // Per 32 values, whole vectors.
            let vectors = unroll * B::Kind::GROUP / 32 * B::VECTORS;
            prefetch_lines(lanes, &self.planes[group / unroll * vectors..][..vectors]);
        }
        [(lanes.load_f32(&self.factors.scales[group]), lanes.load_f32(&self.factors.mins[group]))]
    }
}

/// Multiplies all columns of a strip by the `C` activation rows `rows` and writes the result columns `out`.
#[inline(always)]
fn gemv<L: Lanes, B: Layout<G>, const G: usize, const C: usize>(
    lanes: L,
    strip: &[[u8; BYTES]],
    factors: &mut Factors,
    out: &Range<usize>,
    x: Activations<'_>,
    rows: &Range<usize>,
    tile: &mut Tile<'_, f32>,
) {
    let x = x.panel(rows, 0..x.cols, scaled::<B, G>());
    let mut sums = [[lanes.splat(0.0); 1]; C];
    let mut b = 0;
    // Only the first panel prefetches: later ones find the strip in the cache.
    let prefetch = !*HARDWARE_PREFETCH_SUFFICES && rows.start == 0;
    for run in runs::<B, G>(strip) {
        let (header, planes) = parts::<B, G>(run);
        if prefetch {
            prefetch_lines(lanes, &run[..B::HEADER]);
        }
        for (at, planes) in planes.chunks_exact(B::PLANES).enumerate() {
            B::load_factors(lanes, &header[at * B::FACTORS..][..B::FACTORS], factors);
            for part in 0..B::BLOCKS {
                let first = part * B::Kind::GROUPS;
                let source = PackedBlock::<B, G> { planes, factors, first, prefetch, format: PhantomData };
                block::<L, B::Kind, 1, C>(lanes, &mut sums, source, x, b);
                b += 1;
            }
        }
    }
    store(lanes, sums, rows.start, tile, std::array::from_ref(out));
}
