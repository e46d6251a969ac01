//! Weights in strips of 16 rows, and products with them.
//!
//! A strip holds the scales and minimums of 16 rows, block after block, and then their numbers
//! (`layout.rs`), at the file's bytes per weight: a thread that multiplies one row of activations reads two
//! sequences of bytes.

#![expect(clippy::needless_range_loop, reason = "arrays of one tile are indexed side by side")]

pub(crate) mod activations;
pub(crate) mod floats;
mod formats;
pub(crate) mod layout;
pub(crate) mod product;
mod slab;

use std::ops::Range;

use zerocopy::FromBytes;

use crate::lanes::{BYTES, LANES};
use crate::memory::Lines;
use crate::pool::Pool;
use activations::Scaled;
use layout::{Kind, Layout};

/// A weight in strips.
#[derive(Debug)]
pub(crate) struct Packed {
    lines: Lines,
    /// Lines of a strip, and those of them that hold factors.
    strip: usize,
    factors: usize,
    rows: usize,
    cols: usize,
}

impl Packed {
    /// Packs `rows` rows of `cols` values, whole blocks.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn new<B: Layout<G>, const G: usize>(
        pool: &mut Pool,
        bytes: &[u8],
        rows: usize,
        cols: usize,
    ) -> std::io::Result<Packed> {
        let (blocks, factors, strip) = shape::<B, G>(cols);
        let strips = rows.div_ceil(LANES);
        let mut lines = Lines::large(strips * strip)?;
        let matrix = <[B]>::ref_from_bytes(bytes).unwrap_or_else(|_| panic!("not whole blocks"));
        let nothing = B::new_zeroed();
        pool.tiles(&mut lines.all_mut()[..strips * strip], strip, (1, strip), |mut tile| {
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
        Ok(Packed { lines, strip, factors, rows, cols })
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that `rows` rows of `cols` values take.
    pub(crate) fn bytes<B: Layout<G>, const G: usize>(rows: usize, cols: usize) -> usize {
        rows.div_ceil(LANES) * shape::<B, G>(cols).2 * BYTES
    }

    /// The rows of strip `s`, which are numbers of a result.
    #[inline(always)]
    fn numbers_of(&self, s: usize) -> Range<usize> {
        s * LANES..self.rows.min((s + 1) * LANES)
    }

    /// Those of the first two of `strips`; of a strip that is not there, none.
    #[inline(always)]
    fn numbers_of_two(&self, strips: &Range<usize>) -> [Range<usize>; 2] {
        let first = self.numbers_of(strips.start);
        let second = if strips.len() > 1 { self.numbers_of(strips.start + 1) } else { first.end..first.end };
        [first, second]
    }

    /// Factors and planes of strip `s`.
    #[inline(always)]
    fn strip(&self, s: usize) -> (&[u8], &[[u8; BYTES]]) {
        let (factors, planes) = self.lines.all()[s * self.strip..][..self.strip].split_at(self.factors);
        (bytemuck::cast_slice(factors), bytemuck::cast_slice(planes))
    }
}

/// Of a strip of `cols` columns: its blocks, the lines that hold factors, all lines.
fn shape<B: Layout<G>, const G: usize>(cols: usize) -> (usize, usize, usize) {
    let blocks = cols / (32 * G);
    let factors = (blocks * B::FACTORS).div_ceil(BYTES);
    (blocks, factors, factors + blocks * B::PLANES)
}

/// What weights of a quantised format want of activations.
pub(crate) const fn scaled<B: Layout<G>, const G: usize>() -> Scaled {
    Scaled { block: 32 * G, group: B::Kind::GROUP, zero: if B::Kind::MINS { None } else { Some(B::ZERO) } }
}

#[cfg(test)]
mod tests {
    use quant::Format;

    use super::activations::Activations;
    use crate::kernels::{Isa, Kernels};
    use crate::pool::Pool;

    /// Outputs: not whole strips.
    const N: usize = 45;
    /// Inputs: more than two slabs, of which the last is smaller.
    const COLS: usize = 2560;

    /// The product of `rows` rows with a weight of `format`.
    fn product(kernels: &Kernels, format: Format, weights: &[u8], x: &[f32], rows: usize) -> Vec<f32> {
        let (linear, tile, mut pool) = (kernels.linear(format), kernels.tile, Pool::new(1));
        let weight = (linear.pack)(&mut pool, weights, N, COLS).expect("room");
        let mut words = vec![0; rows * linear.form.words(COLS)];
        (kernels.pack)(x, rows, tile, linear.form, &mut words);
        let x = Activations { words: &words, rows, cols: COLS, tile };
        let mut out = vec![f32::NAN; rows * N];
        pool.tiles(&mut out, N, (rows, 64), |mut tile| (linear.multiply)(&weight, x, &mut tile));
        out
    }

    fn nmse(a: &[f32], b: &[f32]) -> f64 {
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
        error / a.iter().map(|&a| square(a)).sum::<f64>()
    }

    /// On the same activations the instruction sets differ by rounding alone, and a row has the same bits
    /// alone and among others.
    #[test]
    fn products_agree_with_dequantised_weights_with_each_other_and_with_themselves() {
        for format in Format::ALL {
            let weights = testkit::random_matrix(format, N * COLS, 0.1, 5);
            let mut exact = vec![0.0; N * COLS];
            format.dequantize(&weights, &mut exact);
            for rows in [1, 3, 8, 9, 23] {
                let x: Vec<f32> =
                    (0..rows * COLS).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect();
                let dot = |i: usize| {
                    let (x, w) = (&x[i / N * COLS..][..COLS], &exact[i % N * COLS..][..COLS]);
                    x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32
                };
                let truth: Vec<f32> = (0..rows * N).map(dot).collect();
                let limit = if format.block_len() > 1 { 5e-4 } else { 1e-10 };
                let mut first: Option<Vec<f32>> = None;
                for kernels in Isa::ALL.into_iter().filter_map(Kernels::new) {
                    let label = format!("{format}, {rows} rows, {}", kernels.isa().name());
                    let found = product(&kernels, format, &weights, &x, rows);
                    let error = nmse(&truth, &found);
                    assert!(error < limit, "{label}: NMSE {error:e}");
                    let error = nmse(first.get_or_insert_with(|| found.clone()), &found);
                    assert!(error < 1e-10, "{label}: NMSE {error:e} to plain Rust");
                    let last = rows - 1;
                    let alone = product(&kernels, format, &weights, &x[last * COLS..], 1);
                    let among = &found[last * N..];
                    assert!(
                        alone.iter().zip(among).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{label}: bits"
                    );
                }
            }
        }
    }
}
