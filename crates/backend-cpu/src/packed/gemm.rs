//! GEMM with quantised weights.
//!
//! A *slab* is some columns of one or two strips, unpacked to int8 quants and f32 factors once and multiplied by every
//! activation panel. Unpacking depends on the format, multiplication only on the format's [`Kind`]. While a slab is
//! multiplied, the packed weights of the next one are prefetched.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Zeroable;

use super::activations::{Activations, Q8Layout, panels};
use super::layout::{Factors, Kind, Layout};
use super::sums::{Source, block, groups, store};
use super::{Packed, Scratch, parts, runs, scaled};
use crate::lanes::{BYTES, LANES, Lanes, Pair, WithSimd};
use crate::pool::Tile;

/// Activation rows up to which a slab is read from L1 and has [`FEW_COLS`] columns: the memory is the limit, so the prefetches of
/// the next slab must be evenly spread.
pub(crate) const FEW_ROWS: usize = 64;

/// Columns of a slab for few rows: two strips and a panel fit into L1.
const FEW_COLS: usize = 512;

/// Maximum columns of a slab for more rows: two strips and a panel must stay in L2. Narrower slabs reload activations and sums
/// more often: 512 columns cost 10 % of the speed at 512 rows.
const COLS: usize = if cfg!(test) { 1024 } else { 3072 };

/// Maximum slabs per panel pass for more rows. A panel is reused from L1 by all slabs and writes contiguous columns. A task
/// has two slabs of two strips, or four of one.
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
    // Packing a strip for each read is fastest in one go.
    let few = x.rows <= FEW_ROWS && weight.is_packed();
    let (most_cols, most_slabs) = if few { (FEW_COLS, 1) } else { (COLS, SLABS) };
    // Slabs of equal size, whole runs.
    let width = weight.cols.div_ceil(weight.cols.div_ceil(most_cols)).next_multiple_of(32 * G * B::RUN);
    let blocks = |cols: &Range<usize>| cols.start / (32 * G)..cols.end / (32 * G);
    let mut slabs = SCRATCH.take();
    let strips: Vec<Range<usize>> = groups::<L>(tile).collect();
    for strips in strips.chunks(most_slabs) {
        for first in (0..weight.cols).step_by(width) {
            let cols = first..weight.cols.min(first + width);
            // The next columns, or the next strips from their first column on. The same thread often computes them, too.
            let (next, far) = match cols.end {
                end if end < weight.cols => (end..weight.cols.min(end + width), 0),
                _ => (0..weight.cols.min(width), strips[strips.len() - 1].end - strips[0].start),
            };
            let mut ahead = [[&[][..]; 2]; SLABS];
            for ((slab, ahead), strips) in slabs.iter_mut().zip(&mut ahead).zip(strips) {
                slab.make_room::<B, G>(x.rows, width, weight.pair_outputs(strips));
                for (at, s) in strips.clone().enumerate() {
                    slab.unpack::<L, B, G>(lanes, weight, s, at, blocks(&cols));
                    ahead[at] = weight.packed_blocks::<B, G>(s + far, blocks(&next));
                }
            }
            let (slabs, form) = (&mut slabs[..strips.len()], scaled::<B, G>());
            lanes.run(Panels::<B::Kind> { slabs, ahead, x, form, cols, tile, kind: PhantomData });
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
    /// Results of the columns so far, by activation row. In the result matrix, rows are far apart and compete for the same
    /// cache sets.
    sums: Vec<Pair<[f32; LANES]>>,
}

impl Slab {
    /// Prepares for `rows` activation rows and `width` columns of two strips with result columns `out`; a missing strip has
    /// none.
    fn make_room<B: Layout<G>, const G: usize>(&mut self, rows: usize, width: usize, out: [Range<usize>; 2]) {
        self.max_weight = B::MAX_WEIGHT;
        self.steps.resize(width / 4, Pair::zeroed());
        self.scales.resize(width / B::Kind::GROUP, Pair::zeroed());
        self.mins.resize(width / B::Kind::GROUP, Pair::zeroed());
        self.sums.resize(rows, Pair::zeroed());
        self.out = out;
    }

    /// Unpacks blocks of strip `s` as strip `strip` of the slab.
    #[inline(always)]
    fn unpack<L: Lanes, B: Layout<G>, const G: usize>(
        &mut self,
        lanes: L,
        weight: &Packed,
        s: usize,
        strip: usize,
        blocks: Range<usize>,
    ) {
        let (groups, steps) = (B::Kind::GROUPS * B::BLOCKS, 8 * G);
        let (mut place, mut scratch) = (0, Scratch::take());
        let mut factors = Factors::ZERO;
        for run in runs::<B, G>(weight.blocks::<L, B, G>(lanes, s, blocks, &mut scratch)) {
            let (header, planes) = parts::<B, G>(run);
            for (at, planes) in planes.chunks_exact(B::PLANES).enumerate() {
                B::load_factors(lanes, &header[at * B::FACTORS..][..B::FACTORS], &mut factors);
                let to = self.steps[place * steps..][..steps].as_chunks_mut::<8>().0;
                for (to, planes) in to.iter_mut().zip(planes.chunks_exact(B::VECTORS)) {
                    // Unrolled, so that the shifts are constants.
                    for step in 0..8 {
                        lanes.store_u8(B::step(lanes, planes, step), &mut to[step].0[strip]);
                    }
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
    slabs: &'a mut [Slab],
    /// What to prefetch while each slab is multiplied.
    ahead: [[&'a [[u8; BYTES]]; 2]; SLABS],
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
            for slab in 0..self.slabs.len() {
                let rows = rows.clone();
                match rows.len() {
                    6 if L::TILE == 6 => self.panel::<L, 2, 6>(lanes, slab, rows),
                    5 if L::TILE == 6 => self.panel::<L, 2, 5>(lanes, slab, rows),
                    4 if L::TILE == 6 => self.panel::<L, 2, 4>(lanes, slab, rows),
                    3 if L::TILE == 6 => self.panel::<L, 2, 3>(lanes, slab, rows),
                    2 if L::TILE == 6 => self.panel::<L, 2, 2>(lanes, slab, rows),
                    1 if L::TILE == 6 => self.panel::<L, 2, 1>(lanes, slab, rows),
                    4 if L::TILE == 4 => self.panel::<L, 1, 4>(lanes, slab, rows),
                    3 if L::TILE == 4 => self.panel::<L, 1, 3>(lanes, slab, rows),
                    2 if L::TILE == 4 => self.panel::<L, 1, 2>(lanes, slab, rows),
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
    fn panel<L: Lanes, const R: usize, const C: usize>(&mut self, lanes: L, slab: usize, rows: Range<usize>)
    where
        for<'a> SlabBlock<'a>: Source<L, R>,
    {
        let (slab, ahead) = (&mut self.slabs[slab], self.ahead[slab]);
        let out: &[Range<usize>; R] = slab.out[..R].try_into().expect("one strip or two");
        let mut sums = [[lanes.splat(0.0); R]; C];
        if self.cols.start > 0 {
            for c in 0..C {
                for r in 0..R {
                    sums[c][r] = lanes.load_f32(&slab.sums[rows.start + c].0[r]);
                }
            }
        }
        let x = self.x.panel(&rows, self.cols.clone(), self.form);
        let (steps, blocks) = (K::GROUPS * K::GROUP / 4, x.scales.len() / C);
        let (panel, panels) = (rows.start / L::TILE, self.x.rows.div_ceil(L::TILE));
        for b in 0..blocks {
            // A share of the lines for each block of each panel.
            for lines in ahead {
                let share = lines.len().div_ceil(panels * blocks);
                for line in lines.iter().skip((panel * blocks + b) * share).take(share) {
                    lanes.prefetch(std::ptr::from_ref(line).cast());
                }
            }
            let source = SlabBlock {
                max_weight: slab.max_weight,
                steps: &slab.steps[b * steps..][..steps],
                scales: &slab.scales[b * K::GROUPS..][..K::GROUPS],
                mins: &slab.mins[b * K::GROUPS..][..K::GROUPS],
            };
            block::<L, K, R, C>(lanes, &mut sums, source, x, b);
        }
        if self.cols.end == self.x.cols {
            return store(lanes, sums, rows.start, self.tile, out);
        }
        for c in 0..C {
            for r in 0..R {
                lanes.store_f32(sums[c][r], &mut slab.sums[rows.start + c].0[r]);
            }
        }
    }
}

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
        let mut strip_sums = [[lanes.acc_zero(); 1]; C];
        for c in 0..C {
            strip_sums[c] = [sums[c]];
        }
        strip_sums
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
