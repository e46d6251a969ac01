//! GEMM with quantised weights.
//!
//! A *slab* is some columns of one or two strips, unpacked to int8 quants and f32 factors once and multiplied by every
//! activation panel. Unpacking depends on the format, multiplication only on the format's [`Kind`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Zeroable;

use super::activations::{Activations, Q8Layout, panels};
use super::layout::{Factors, Kind, Layout};
use super::sums::{Source, block, groups, load, store};
use super::{Packed, Scratch, parts, runs, scaled};
use crate::lanes::{BYTES, LANES, Lanes, Pair, WithSimd};
use crate::pool::Tile;

/// Maximum columns of a slab: two strips and a panel must stay in L2. Narrower slabs reload accumulators more often: 1024
/// columns cost 10 % of the speed.
const COLS: usize = if cfg!(test) { 1024 } else { 3072 };

/// Maximum slabs per panel pass. A panel is reused from L1 by all slabs and writes contiguous columns. A task has two slabs
/// of two strips, or four of one.
const SLABS: usize = 4;

thread_local! {
    /// Reused by all tasks of a thread: fresh memory of this size would page-fault.
    static SCRATCH: Cell<[Slab; SLABS]> = Cell::default();
}

#[inline(always)]
pub(super) fn multiply<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    weight: &Packed,
    x: Activations<'_>,
    tile: &mut Tile<'_, f32>,
) {
    // Slabs of equal size, whole runs.
    let width = weight.cols.div_ceil(weight.cols.div_ceil(COLS)).next_multiple_of(32 * G * B::RUN);
    let mut slabs = SCRATCH.take();
    let strips: Vec<Range<usize>> = groups::<L>(tile).collect();
    for strips in strips.chunks(SLABS) {
        for first in (0..weight.cols).step_by(width) {
            let cols = first..weight.cols.min(first + width);
            for (slab, strips) in slabs.iter_mut().zip(strips) {
                slab.make_room::<B, G>(width, weight.outputs_of_two(strips));
                for (at, s) in strips.clone().enumerate() {
                    slab.unpack::<L, B, G>(lanes, weight, s, at, cols.clone());
                }
            }
            let (slabs, form) = (&slabs[..strips.len()], scaled::<B, G>());
            lanes.run(Panels::<B::Kind> { slabs, x, form, cols, tile, kind: PhantomData });
        }
    }
    SCRATCH.set(slabs);
}

/// Some columns of up to two strips, unpacked.
#[derive(Default)]
struct Slab {
    /// Largest possible quant.
    max_weight: u8,
    steps: Vec<Pair<[u8; BYTES]>>,
    scales: Vec<Pair<[f32; LANES]>>,
    mins: Vec<Pair<[f32; LANES]>>,
    /// Result columns of each strip.
    out: [Range<usize>; 2],
}

impl Slab {
    /// Prepares for `width` columns of two strips with result columns `out`; a missing strip has none.
    fn make_room<B: Layout<G>, const G: usize>(&mut self, width: usize, out: [Range<usize>; 2]) {
        self.max_weight = B::MAX_WEIGHT;
        self.steps.resize(width / 4, Pair::zeroed());
        self.scales.resize(width / B::Kind::GROUP, Pair::zeroed());
        self.mins.resize(width / B::Kind::GROUP, Pair::zeroed());
        self.out = out;
    }

    /// Unpacks columns `cols` of strip `s` as strip `strip` of the slab.
    #[inline(always)]
    fn unpack<L: Lanes, B: Layout<G>, const G: usize>(
        &mut self,
        lanes: L,
        weight: &Packed,
        s: usize,
        strip: usize,
        cols: Range<usize>,
    ) {
        let (groups, steps) = (B::Kind::GROUPS * B::BLOCKS, 8 * G);
        let blocks = cols.start / (32 * G)..cols.end / (32 * G);
        let (mut place, mut scratch) = (0, Scratch::take());
        let mut factors = Factors::ZERO;
        for run in runs::<B, G>(weight.blocks::<L, B, G>(lanes, s, blocks, &mut scratch)) {
            let (header, planes) = parts::<B, G>(run);
            for (at, planes) in planes.chunks_exact(B::PLANES).enumerate() {
                B::factors_of(lanes, &header[at * B::FACTORS..][..B::FACTORS], &mut factors);
                for (step, to) in self.steps[place * steps..][..steps].iter_mut().enumerate() {
                    lanes.store_u8(B::step(lanes, planes, step), &mut to.0[strip]);
                }
                for g in 0..groups {
                    self.scales[place * groups + g].0[strip] = factors.scales[g];
                    self.mins[place * groups + g].0[strip] = factors.mins[g];
                }
                place += 1;
            }
        }
    }
}

/// Multiplies the slabs of columns `cols` by all panels.
struct Panels<'a, 't, K> {
    slabs: &'a [Slab],
    x: Activations<'a>,
    form: Q8Layout,
    cols: Range<usize>,
    tile: &'a mut Tile<'t, f32>,
    kind: PhantomData<K>,
}

impl<K: Kind> WithSimd for Panels<'_, '_, K> {
    #[inline(always)]
    fn with_simd<L: Lanes>(mut self, lanes: L) {
        for rows in panels(0..self.x.rows, self.x.tile) {
            for slab in self.slabs {
                let rows = rows.clone();
                match rows.len() {
                    6 if L::TILE == 6 => self.panel::<L, 2, 6>(lanes, slab, rows),
                    4 if L::TILE == 6 => self.panel::<L, 2, 4>(lanes, slab, rows),
                    2 if L::TILE == 6 => self.panel::<L, 2, 2>(lanes, slab, rows),
                    1 if L::TILE == 6 => self.panel::<L, 2, 1>(lanes, slab, rows),
                    3 if L::TILE == 3 => self.panel::<L, 1, 3>(lanes, slab, rows),
                    2 if L::TILE == 3 => self.panel::<L, 1, 2>(lanes, slab, rows),
                    1 if L::TILE < 6 => self.panel::<L, 1, 1>(lanes, slab, rows),
                    width => unreachable!("a panel of {width} rows"),
                }
            }
        }
    }
}

impl<K: Kind> Panels<'_, '_, K> {
    /// Accumulates `R` strips times the `C` activation rows `rows` onto the result of earlier columns.
    #[inline(always)]
    fn panel<L: Lanes, const R: usize, const C: usize>(&mut self, lanes: L, slab: &Slab, rows: Range<usize>)
    where
        for<'a> SlabBlock<'a>: Source<L, R>,
    {
        let out: &[Range<usize>; R] = slab.out[..R].try_into().expect("one strip or two");
        let mut sums = [[lanes.splat(0.0); R]; C];
        if self.cols.start > 0 {
            sums = load(lanes, rows.start, self.tile, out);
        }
        let x = self.x.panel(&rows, self.cols.clone(), self.form);
        let steps = K::GROUPS * K::GROUP / 4;
        for b in 0..x.scales.len() / C {
            let source = SlabBlock {
                max_weight: slab.max_weight,
                steps: &slab.steps[b * steps..][..steps],
                scales: &slab.scales[b * K::GROUPS..][..K::GROUPS],
                mins: &slab.mins[b * K::GROUPS..][..K::GROUPS],
            };
            block::<L, K, R, C>(lanes, &mut sums, source, x, b);
        }
        store(lanes, sums, rows.start, self.tile, out);
    }
}

/// A block of a slab.
#[derive(Clone, Copy)]
struct SlabBlock<'a> {
    /// Largest possible quant.
    max_weight: u8,
    steps: &'a [Pair<[u8; BYTES]>],
    scales: &'a [Pair<[f32; LANES]>],
    mins: &'a [Pair<[f32; LANES]>],
}

impl<L: Lanes> Source<L, 1> for SlabBlock<'_> {
    #[inline(always)]
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; 1]; C] {
        let steps = x.len() / C;
        let mut sums = starts;
        lanes.dot_steps::<SIGNED, C>(&mut sums, &self.steps[group * steps..][..steps], x, self.max_weight);
        let mut of_strip = [[lanes.acc_zero(); 1]; C];
        for c in 0..C {
            of_strip[c] = [sums[c]];
        }
        of_strip
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        [(lanes.load_f32(&self.scales[group].0[0]), lanes.load_f32(&self.mins[group].0[0]))]
    }
}

impl<L: Lanes> Source<L, 2> for SlabBlock<'_> {
    #[inline(always)]
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; 2]; C] {
        let steps = x.len() / C;
        let mut sums = [[lanes.acc_zero(); 2]; C];
        for c in 0..C {
            sums[c] = [starts[c]; 2];
        }
        for k in (0..steps).step_by(4) {
            let weights = self.steps[group * steps + k..][..4].try_into().expect("four steps");
            lanes.dot_pairs::<SIGNED, C>(&mut sums, weights, &x[k * C..][..4 * C]);
        }
        sums
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 2] {
        let (Pair(scales), Pair(mins)) = (&self.scales[group], &self.mins[group]);
        // Not `map`: its closure would not inherit the target features.
        [
            (lanes.load_f32(&scales[0]), lanes.load_f32(&mins[0])),
            (lanes.load_f32(&scales[1]), lanes.load_f32(&mins[1])),
        ]
    }
}
