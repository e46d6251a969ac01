//! Weights in strips of 16 rows, and products with them.
//!
//! A strip holds the scales and minimums of 16 rows, block after block, and then their numbers
//! (`layout.rs`), at the file's bytes per weight: a thread that multiplies one row of activations reads two
//! sequences of bytes.

pub(crate) mod activations;
pub(crate) mod floats;
mod formats;
pub(crate) mod layout;
pub(crate) mod product;
mod slab;

use zerocopy::FromBytes;

use crate::lanes::{BYTES, LANES};
use crate::pool::Pool;
use std::ops::Range;

use activations::Scaled;
use layout::{Kind, Layout};

/// A cache line.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([u8; BYTES]);

/// A weight in strips.
#[derive(Debug)]
pub(crate) struct Packed {
    lines: Vec<Line>,
    /// Lines of a strip, and those of them that hold factors.
    strip: usize,
    factors: usize,
    rows: usize,
    cols: usize,
}

impl Packed {
    /// Packs `rows` rows of `cols` values, whole blocks.
    pub(crate) fn new<B: Layout<G>, const G: usize>(
        pool: &mut Pool,
        bytes: &[u8],
        rows: usize,
        cols: usize,
    ) -> Packed {
        let blocks = cols / (32 * G);
        let factors = (blocks * B::FACTORS).div_ceil(BYTES);
        let strip = factors + blocks * B::PLANES;
        let strips = rows.div_ceil(LANES);
        let mut lines: Vec<Line> = bytemuck::zeroed_vec(strips * strip);
        let matrix = <[B]>::ref_from_bytes(bytes).unwrap_or_else(|_| panic!("not whole blocks"));
        let nothing = B::new_zeroed();
        pool.tiles(&mut lines, strip, (1, strip), |mut tile| {
            let s = tile.rows().start;
            let (heads, planes) = tile.row(s).split_at_mut(factors);
            let heads: &mut [u8] = bytemuck::cast_slice_mut(heads);
            let planes: &mut [[[u8; 4]; LANES]] = bytemuck::cast_slice_mut(planes);
            for b in 0..blocks {
                let of_row = |lane: usize| match s * LANES + lane {
                    row if row < rows => &matrix[row * blocks + b],
                    _ => &nothing,
                };
                let rows = std::array::from_fn(of_row);
                B::pack_factors(&rows, &mut heads[b * B::FACTORS..][..B::FACTORS]);
                B::pack_planes(&rows, &mut planes[b * B::PLANES..][..B::PLANES]);
            }
        });
        Packed { lines, strip, factors, rows, cols }
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * BYTES
    }

    /// The rows of strip `s`, which are numbers of a result.
    #[inline(always)]
    fn numbers_of(&self, s: usize) -> Range<usize> {
        s * LANES..self.rows.min((s + 1) * LANES)
    }

    /// Factors and planes of strip `s`.
    #[inline(always)]
    fn strip(&self, s: usize) -> (&[u8], &[[u8; BYTES]]) {
        let (factors, planes) = self.lines[s * self.strip..][..self.strip].split_at(self.factors);
        (bytemuck::cast_slice(factors), bytemuck::cast_slice(planes))
    }
}

/// What weights of a quantised format want of activations.
pub(crate) const fn scaled<B: Layout<G>, const G: usize>() -> Scaled {
    Scaled { block: 32 * G, group: B::Kind::GROUP, zero: if B::Kind::MINS { None } else { Some(B::ZERO) } }
}
