//! Activations of 8 bits, packed for products with strips.
//!
//! A block of values has one scale, a 127th of its largest: 32 values where the weights' blocks have 32,
//! 256 where they have 256, as in llama.cpp. Rows lie in panels: of step `s`, four values of each row of
//! the panel, so that a kernel reads one sequence of bytes, whatever the panel's width. A panel's scales and
//! sums follow its steps.

use std::ops::Range;

use crate::lanes::{LANES, Lanes};

/// Values of a step.
pub(crate) const STEP: usize = 4;

/// What weights of a format want of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// 8 bits.
    Bytes(Scaled),
    /// f32.
    Floats,
}

/// How activations are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scaled {
    /// Values under one scale: 32 or 256.
    pub(crate) block: usize,
    /// Values whose sum is wanted: 16 or 32.
    pub(crate) group: usize,
    /// The weights' zero point: sums are multiplied by minus it. `None`: weights have minimums, which sums
    /// are multiplied with.
    pub(crate) zero: Option<u8>,
}

impl Form {
    /// Words of 32 bits that a row of `cols` values takes.
    pub(crate) fn words(self, cols: usize) -> usize {
        match self {
            Form::Bytes(Scaled { block, group, .. }) => cols / STEP + cols / block + cols / group,
            Form::Floats => cols,
        }
    }
}

/// A matrix of activations, `[rows, cols]`, in the form a weight wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activations<'a> {
    /// [`Form::words`] a row.
    pub(crate) words: &'a [u32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Rows of a panel, but for the last ones.
    pub(crate) tile: usize,
}

/// The rows of each panel of `rows` rows: as many tiles as there are, then 4, 2 or 1 row.
#[inline(always)]
pub(crate) fn panels(rows: Range<usize>, tile: usize) -> impl Iterator<Item = Range<usize>> {
    let Range { mut start, end } = rows;
    std::iter::from_fn(move || {
        let left = end - start;
        let width = match left {
            _ if left >= tile => tile,
            4.. => 4,
            2.. => 2,
            _ => left,
        };
        start += width;
        (width > 0).then_some(start - width..start)
    })
}

/// Some rows of [`Activations`], side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<'a> {
    /// `[cols / STEP][rows]`.
    pub(crate) steps: &'a [[i8; STEP]],
    /// `[cols / block][rows]`.
    pub(crate) scales: &'a [f32],
    /// `[cols / group][rows]`: `-zero` times the sum of a group, when there is a zero point.
    pub(crate) starts: &'a [i32],
    /// `[cols / group][rows]`: the sum of a group, times the scale where a block is one group.
    pub(crate) sums: &'a [f32],
}

impl<'a> Activations<'a> {
    /// The panel of these rows, its columns `cols`: whole blocks.
    #[inline(always)]
    pub(crate) fn panel(&self, rows: &Range<usize>, cols: Range<usize>, form: Scaled) -> Panel<'a> {
        let (panel, width) = (self.words(rows, Form::Bytes(form)), rows.len());
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

    /// The panel of these rows in f32, its columns `cols`: `[cols][rows]`.
    #[inline(always)]
    pub(crate) fn floats(&self, rows: &Range<usize>, cols: Range<usize>) -> &'a [f32] {
        let (panel, width) = (self.words(rows, Form::Floats), rows.len());
        bytemuck::cast_slice(&panel[cols.start * width..cols.end * width])
    }

    /// The words of row `row`, in a form: the first of these, and of each so many the first again.
    pub(crate) fn words_of(&self, row: usize, form: Form) -> (&'a [u32], usize) {
        let first = row / self.tile * self.tile;
        let rows = panels(first..self.rows, self.tile).find(|panel| panel.contains(&row));
        let rows = rows.expect("a row");
        (&self.words(&rows, form)[row - rows.start..], rows.len())
    }

    #[inline(always)]
    fn words(&self, rows: &Range<usize>, form: Form) -> &'a [u32] {
        let words = form.words(self.cols);
        &self.words[rows.start * words..rows.end * words]
    }
}

/// Writes `x`, some rows, to the words of their panels.
#[inline(always)]
pub(crate) fn pack<L: Lanes>(lanes: L, x: &[f32], rows: usize, tile: usize, form: Form, words: &mut [u32]) {
    let cols = x.len() / rows;
    let of_row = form.words(cols);
    for rows in panels(0..rows, tile) {
        let width = rows.len();
        let panel = &mut words[rows.start * of_row..rows.end * of_row];
        for (at, x) in x[rows.start * cols..rows.end * cols].chunks_exact(cols).enumerate() {
            match form {
                Form::Bytes(form) => quantize_row(lanes, x, (at, width), form, panel),
                Form::Floats => {
                    for (word, x) in panel[at..].iter_mut().step_by(width).zip(x) {
                        *word = x.to_bits();
                    }
                }
            }
        }
    }
}

/// Row `at` of the `width` rows of a panel.
///
/// Activations that are not finite cannot be quantised; the scale then is NaN, so that the result shows it.
#[inline(always)]
fn quantize_row<L: Lanes>(lanes: L, x: &[f32], (at, width): (usize, usize), form: Scaled, panel: &mut [u32]) {
    let (steps, rest) = panel.split_at_mut(x.len() / STEP * width);
    let (scales, sums) = rest.split_at_mut(x.len() / form.block * width);
    let groups = form.block / form.group;
    for (b, block) in x.chunks_exact(form.block).enumerate() {
        // As integers, so that infinity and NaN are the largest.
        let mut largest = lanes.zero();
        for x in block.as_chunks::<LANES>().0 {
            largest = lanes.larger(largest, lanes.magnitudes(lanes.floats(x)));
        }
        let largest = f32::from_bits(lanes.largest(largest) as u32);
        let is_finite = largest.is_finite();
        let scale = if is_finite { largest / 127.0 } else { f32::NAN };
        let inverse = 127.0 / largest;
        let inverse = if is_finite && inverse.is_finite() { inverse } else { 0.0 };
        scales[b * width + at] = scale.to_bits();
        for (g, group) in block.chunks_exact(form.group).enumerate() {
            let g = b * groups + g;
            let mut totals = lanes.zero();
            for (s, x) in group.as_chunks::<LANES>().0.iter().enumerate() {
                let q = lanes.nearest(lanes.mul(lanes.floats(x), lanes.splat(inverse)));
                totals = lanes.plus(totals, q);
                let (q, first) = (lanes.low_bytes(q), g * (form.group / STEP) + s * 4);
                for k in 0..4 {
                    steps[(first + k) * width + at] = q[k];
                }
            }
            let sum = lanes.total(totals);
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
    use crate::lanes::plain::Plain;

    const FORM: Scaled = Scaled { block: 32, group: 16, zero: Some(8) };

    /// One row of as many values as `x`.
    fn packed(x: &[f32]) -> Vec<u32> {
        let mut words = vec![0; Form::Bytes(FORM).words(x.len())];
        pack(Plain, x, 1, 6, Form::Bytes(FORM), &mut words);
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
        assert_eq!(widths(23, 6), [6, 6, 6, 4, 1]);
        assert_eq!(widths(9, 6), [6, 2, 1]);
        assert_eq!(widths(5, 3), [3, 2]);
        assert_eq!(widths(3, 1), [1, 1, 1]);
    }
}
