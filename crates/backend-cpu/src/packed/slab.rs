//! Products with many rows of activations: some columns of one or two strips are unpacked to bytes and
//! floats, once, and multiplied with panel after panel.
//!
//! What is unpacked depends on the format, what is multiplied on its kind alone.

use std::marker::PhantomData;
use std::ops::Range;

use super::activations::{Activations, Scaled, panels};
use super::layout::{Factors, Kind, Layout};
use super::product::{Source, block, groups, load, store};
use super::{Packed, scaled};
use crate::lanes::{BYTES, LANES, Lanes, Work};
use crate::pool::Tile;

/// Columns of a slab, at most: two strips of it and a panel fill a part of the second-level cache. Fewer leave
/// each panel's sums less time in registers: with 1024, a tenth of the speed is lost.
const COLS: usize = if cfg!(test) { 1024 } else { 3072 };

/// See [`super::product::multiply`].
#[inline(always)]
pub(super) fn multiply<L: Lanes, B: Layout<G>, const G: usize>(
    lanes: L,
    weight: &Packed,
    x: Activations<'_>,
    tile: &mut Tile<'_, f32>,
) {
    // Slabs of one size, whole blocks.
    let width = weight.cols.div_ceil(weight.cols.div_ceil(COLS)).next_multiple_of(32 * G);
    let mut slab = Slab {
        most: if B::TABLE.is_some() { u8::MAX } else { (0xFF_u16 >> (8 - B::LOW - B::HIGH)) as u8 },
        steps: vec![[[0; BYTES]; 2]; width / 4],
        scales: vec![[[0.0; LANES]; 2]; width / B::Kind::GROUP],
        mins: vec![[[0.0; LANES]; 2]; width / B::Kind::GROUP],
    };
    for strips in groups::<L>(tile) {
        for first in (0..weight.cols).step_by(width) {
            let cols = first..weight.cols.min(first + width);
            for (at, s) in strips.clone().enumerate() {
                slab.unpack::<L, B, G>(lanes, weight, s, at, cols.clone());
            }
            let (form, out) = (scaled::<B, G>(), weight.numbers_of_two(&strips));
            lanes.run(Panels::<B::Kind> { slab: &slab, x, form, cols, out, tile, kind: PhantomData });
        }
    }
}

/// Some columns of two strips, unpacked.
struct Slab {
    /// What a number is at most.
    most: u8,
    /// By step.
    steps: Vec<[[u8; BYTES]; 2]>,
    /// By group.
    scales: Vec<[[f32; LANES]; 2]>,
    mins: Vec<[[f32; LANES]; 2]>,
}

impl Slab {
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
        let (groups, steps) = (B::Kind::GROUPS, 8 * G);
        let blocks = cols.start / (32 * G)..cols.end / (32 * G);
        let mut factors = Factors::ZERO;
        for (place, b) in blocks.enumerate() {
            B::factors_of(lanes, &heads[b * B::FACTORS..][..B::FACTORS], &mut factors);
            let planes = &planes[b * B::PLANES..][..B::PLANES];
            for (step, to) in self.steps[place * steps..][..steps].iter_mut().enumerate() {
                lanes.put_bytes(B::step(lanes, planes, step), &mut to[at]);
            }
            for g in 0..groups {
                self.scales[place * groups + g][at] = factors.scales[g];
                self.mins[place * groups + g][at] = factors.mins[g];
            }
        }
    }
}

/// Multiplies a slab, the columns `cols` of a weight, with all panels; `out` are the numbers of each strip.
struct Panels<'a, 't, K> {
    slab: &'a Slab,
    x: Activations<'a>,
    form: Scaled,
    cols: Range<usize>,
    out: [Range<usize>; 2],
    tile: &'a mut Tile<'t, f32>,
    kind: PhantomData<K>,
}

impl<K: Kind> Work for Panels<'_, '_, K> {
    #[inline(always)]
    fn work<L: Lanes>(mut self, lanes: L) {
        for rows in panels(0..self.x.rows, self.x.tile) {
            match rows.len() {
                6 if L::TILE == 6 => self.panel::<L, 2, 6>(lanes, rows),
                4 if L::TILE == 6 => self.panel::<L, 2, 4>(lanes, rows),
                2 if L::TILE == 6 => self.panel::<L, 2, 2>(lanes, rows),
                1 if L::TILE == 6 => self.panel::<L, 2, 1>(lanes, rows),
                3 if L::TILE == 3 => self.panel::<L, 1, 3>(lanes, rows),
                2 if L::TILE == 3 => self.panel::<L, 1, 2>(lanes, rows),
                1 if L::TILE < 6 => self.panel::<L, 1, 1>(lanes, rows),
                width => unreachable!("a panel of {width} rows"),
            }
        }
    }
}

impl<K: Kind> Panels<'_, '_, K> {
    /// Adds the products of `R` strips and the `C` rows `rows` to what earlier columns have given.
    #[inline(always)]
    fn panel<L: Lanes, const R: usize, const C: usize>(&mut self, lanes: L, rows: Range<usize>)
    where
        for<'a> Unpacked<'a>: Source<L, R>,
    {
        let out: &[Range<usize>; R] = self.out[..R].try_into().expect("one strip or two");
        let mut sums = [[lanes.splat(0.0); R]; C];
        if self.cols.start > 0 {
            sums = load(lanes, rows.start, self.tile, out);
        }
        let x = self.x.panel(&rows, self.cols.clone(), self.form);
        let steps = K::GROUPS * K::GROUP / 4;
        for b in 0..x.scales.len() / C {
            let source = Unpacked {
                most: self.slab.most,
                steps: &self.slab.steps[b * steps..][..steps],
                scales: &self.slab.scales[b * K::GROUPS..][..K::GROUPS],
                mins: &self.slab.mins[b * K::GROUPS..][..K::GROUPS],
            };
            block::<L, K, R, C>(lanes, &mut sums, source, x, b);
        }
        store(lanes, sums, rows.start, self.tile, out);
    }
}

/// A block of a slab.
#[derive(Clone, Copy)]
struct Unpacked<'a> {
    /// What a number is at most.
    most: u8,
    steps: &'a [[[u8; BYTES]; 2]],
    scales: &'a [[[f32; LANES]; 2]],
    mins: &'a [[[f32; LANES]; 2]],
}

impl<L: Lanes> Source<L, 1> for Unpacked<'_> {
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
        lanes.dot_steps::<SIGNED, C>(&mut sums, &self.steps[group * steps..][..steps], x, self.most);
        let mut of_strip = [[lanes.zero(); 1]; C];
        for c in 0..C {
            of_strip[c] = [sums[c]];
        }
        of_strip
    }

    #[inline(always)]
    fn factors(self, lanes: L, group: usize) -> [(L::Floats, L::Floats); 1] {
        [(lanes.floats(&self.scales[group][0]), lanes.floats(&self.mins[group][0]))]
    }
}

impl<L: Lanes> Source<L, 2> for Unpacked<'_> {
    #[inline(always)]
    fn sums<const SIGNED: bool, const C: usize>(
        self,
        lanes: L,
        starts: [L::Ints; C],
        group: usize,
        x: &[[i8; 4]],
    ) -> [[L::Ints; 2]; C] {
        let steps = x.len() / C;
        let mut sums = [[lanes.zero(); 2]; C];
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
        let (scales, mins) = (&self.scales[group], &self.mins[group]);
        // Not by `map`, whose closure would be compiled without the instruction set.
        [
            (lanes.floats(&scales[0]), lanes.floats(&mins[0])),
            (lanes.floats(&scales[1]), lanes.floats(&mins[1])),
        ]
    }
}
