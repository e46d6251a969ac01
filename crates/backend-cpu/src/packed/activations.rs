//! Activations, quantised to 8 bits and packed in panels.
//!
//! A block of values shares one scale, its largest magnitude / 127. A block has 32 or 256 values, as the weights' blocks
//! do (llama.cpp does the same). A panel interleaves its rows: step `s` holds four values of each row, so that a kernel
//! reads one sequential stream for any number of rows. Scales and sums follow the steps.

use std::ops::Range;

use crate::lanes::{LANES, Lanes, WithSimd};

/// Values per row in a step.
pub(crate) const STEP: usize = 4;

/// The activation layout that a weight format needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// 8-bit integers with scales.
    Q8(Q8Layout),
    F32,
}

/// Block and group sizes of 8-bit activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Q8Layout {
    /// Values per scale: 32 or 256.
    pub(crate) block: usize,
    /// Values per stored sum: 16 or 32.
    pub(crate) group: usize,
    /// The weights' zero point; stored sums are premultiplied by `-zero`. `None` when the weights have minimums instead.
    pub(crate) zero: Option<u8>,
}

impl Form {
    /// 32-bit words per row of `cols` values.
    pub(crate) fn words(self, cols: usize) -> usize {
        match self {
            Form::Q8(Q8Layout { block, group, .. }) => cols / STEP + cols / block + cols / group,
            Form::F32 => cols,
        }
    }
}

/// A packed activation matrix, `[rows, cols]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activations<'a> {
    /// [`Form::words`] per row.
    pub(crate) words: &'a [u32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Rows per panel; the last panel may have fewer.
    pub(crate) tile: usize,
}

/// Splits `rows` into panels: full tiles, and what is left.
#[inline(always)]
pub(crate) fn panels(rows: Range<usize>, tile: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(tile).map(move |first| first..end.min(first + tile))
}

/// Rows of [`Activations`], interleaved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<'a> {
    /// `[cols / STEP][rows]`.
    pub(crate) steps: &'a [[i8; STEP]],
    /// `[cols / block][rows]`.
    pub(crate) scales: &'a [f32],
    /// `[cols / group][rows]`: `-zero` times a group's sum, for weights with a zero point.
    pub(crate) starts: &'a [i32],
    /// `[cols / group][rows]`: a group's sum, times the scale where a block is one group.
    pub(crate) sums: &'a [f32],
}

impl<'a> Activations<'a> {
    /// A panel's columns `cols`, whole blocks.
    #[inline(always)]
    pub(crate) fn panel(&self, rows: &Range<usize>, cols: Range<usize>, form: Q8Layout) -> Panel<'a> {
        let (panel, width) = (self.words(rows, Form::Q8(form)), rows.len());
        let (steps, rest) = panel.split_at(self.cols / STEP * width);
        let (scales, sums) = rest.split_at(self.cols / form.block * width);
        let part = |values: usize| cols.start / values * width..cols.end / values * width;
        Panel {
            steps: bytemuck::cast_slice(&steps[part(STEP)]),
            scales: bytemuck::cast_slice(&scales[part(form.block)]),
            starts: bytemuck::cast_slice(&sums[part(form.group)]),
            sums: bytemuck::cast_slice(&sums[part(form.group)]),
        }
    }

    /// An f32 panel's columns `cols`: `[cols][rows]`.
    #[inline(always)]
    pub(crate) fn floats(&self, rows: &Range<usize>, cols: Range<usize>) -> &'a [f32] {
        let (panel, width) = (self.words(rows, Form::F32), rows.len());
        bytemuck::cast_slice(&panel[cols.start * width..cols.end * width])
    }

    /// Row `row`: a slice that begins with its first word, and the stride between its words.
    pub(crate) fn words_of(&self, row: usize, form: Form) -> (&'a [u32], usize) {
        let first = row / self.tile * self.tile;
        let rows = first..self.rows.min(first + self.tile);
        (&self.words(&rows, form)[row - rows.start..], rows.len())
    }

    #[inline(always)]
    fn words(&self, rows: &Range<usize>, form: Form) -> &'a [u32] {
        let words = form.words(self.cols);
        &self.words[rows.start * words..rows.end * words]
    }
}

/// Packs the rows `x` into panels.
pub(crate) struct PackRows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) tile: usize,
    pub(crate) form: Form,
    pub(crate) words: &'a mut [u32],
}

impl WithSimd for PackRows<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let PackRows { x, rows, tile, form, words } = self;
        let cols = x.len() / rows;
        let row_words = form.words(cols);
        for rows in panels(0..rows, tile) {
            let width = rows.len();
            let panel = &mut words[rows.start * row_words..rows.end * row_words];
            for (at, x) in x[rows.start * cols..rows.end * cols].chunks_exact(cols).enumerate() {
                match form {
                    Form::Q8(form) => quantize_row(lanes, x, (at, width), form, panel),
                    Form::F32 => {
                        for (word, x) in panel[at..].iter_mut().step_by(width).zip(x) {
                            *word = x.to_bits();
                        }
                    }
                }
            }
        }
    }
}

/// Quantises row `at` of a panel of `width` rows.
///
/// A block with NaN or infinity gets the scale NaN, so that the result is NaN too.
#[inline(always)]
fn quantize_row<L: Lanes>(
    lanes: L,
    x: &[f32],
    (at, width): (usize, usize),
    form: Q8Layout,
    panel: &mut [u32],
) {
    let (steps, rest) = panel.split_at_mut(x.len() / STEP * width);
    let (scales, sums) = rest.split_at_mut(x.len() / form.block * width);
    let groups = form.block / form.group;
    for (b, block) in x.chunks_exact(form.block).enumerate() {
        // Compared as integers, infinity and NaN are the largest.
        let mut largest = lanes.acc_zero();
        for x in block.as_chunks::<LANES>().0 {
            largest = lanes.max_i32(largest, lanes.abs_bits(lanes.load_f32(x)));
        }
        let largest = f32::from_bits(lanes.reduce_max(largest) as u32);
        let is_finite = largest.is_finite();
        let scale = if is_finite { largest / 127.0 } else { f32::NAN };
        let inverse = 127.0 / largest;
        let inverse = if is_finite && inverse.is_finite() { inverse } else { 0.0 };
        scales[b * width + at] = scale.to_bits();
        for (g, group) in block.chunks_exact(form.group).enumerate() {
            let g = b * groups + g;
            let mut totals = lanes.acc_zero();
            for (s, x) in group.as_chunks::<LANES>().0.iter().enumerate() {
                let q = lanes.round_to_i32(lanes.mul(lanes.load_f32(x), lanes.splat(inverse)));
                totals = lanes.add_i32(totals, q);
                let (q, first) = (lanes.pack_low_bytes(q), g * (form.group / STEP) + s * 4);
                for k in 0..4 {
                    steps[(first + k) * width + at] = q[k];
                }
            }
            let sum = lanes.reduce_add(totals);
            sums[g * width + at] = match form.zero {
                Some(zero) => (-i32::from(zero)).wrapping_mul(sum) as u32,
                None => (sum as f32 * if groups == 1 { scale } else { 1.0 }).to_bits(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::scalar::Scalar;

    const FORM: Q8Layout = Q8Layout { block: 32, group: 16, zero: Some(8) };

    /// `x` packed as one row.
    fn packed(x: &[f32]) -> Vec<u32> {
        let mut words = vec![0; Form::Q8(FORM).words(x.len())];
        PackRows { x, rows: 1, tile: 6, form: Form::Q8(FORM), words: &mut words }.with_simd(Scalar);
        words
    }

    fn panel<'a>(words: &'a [u32], cols: usize) -> Panel<'a> {
        Activations { words, rows: 1, cols, tile: 6 }.panel(&(0..1), 0..cols, FORM)
    }

    #[test]
    fn error_is_at_most_half_a_step() {
        let x: [f32; 64] = std::array::from_fn(|i| ((i * 37 + 11) % 101) as f32 * 0.37 - 17.0);
        let words = packed(&x);
        let panel = panel(&words, 64);
        for (b, x) in x.chunks(32).enumerate() {
            let largest = x.iter().fold(0.0f32, |a, b| a.max(b.abs()));
            assert_eq!(panel.scales[b], largest / 127.0);
            let q = panel.steps[b * 8..][..8].as_flattened();
            for (x, &q) in x.iter().zip(q) {
                assert!((x - panel.scales[b] * f32::from(q)).abs() <= panel.scales[b] * 0.5001);
            }
            for (half, q) in q.chunks(16).enumerate() {
                let sum: i32 = q.iter().map(|&q| i32::from(q)).sum();
                assert_eq!(panel.starts[b * 2 + half], -8 * sum);
            }
        }
    }

    #[test]
    fn zeros_and_tiny_values_do_not_divide_by_zero() {
        assert!(packed(&[0.0; 32]).iter().all(|&word| word == 0));
        for tiny in [f32::from_bits(1), 1e-40, 1e-37] {
            let mut row = [0.0; 32];
            row[17] = tiny;
            for row in [row, [tiny; 32]] {
                let words = packed(&row);
                let panel = panel(&words, 32);
                assert!(panel.scales[0].is_finite());
                let sum: i32 = panel.steps.as_flattened().iter().map(|&q| i32::from(q)).sum();
                assert_eq!(-8 * sum, panel.starts.iter().sum::<i32>(), "{tiny}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_visible() {
        for x in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut row = [1.0; 64];
            row[5] = x;
            let words = packed(&row);
            let scales = panel(&words, 64).scales;
            assert!(scales[0].is_nan() && scales[1] == 1.0 / 127.0, "{scales:?}");
        }
    }

    #[test]
    fn panels_are_tiles_and_what_is_left() {
        let widths = |rows, tile| panels(0..rows, tile).map(|rows| rows.len()).collect::<Vec<_>>();
        assert_eq!(widths(1, 6), [1]);
        assert_eq!(widths(23, 6), [6, 6, 6, 5]);
        assert_eq!(widths(12, 6), [6, 6]);
        assert_eq!(widths(5, 3), [3, 2]);
        assert_eq!(widths(3, 1), [1, 1, 1]);
    }
}
