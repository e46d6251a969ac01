//! Mixture of experts: each expert processes the rows routed to it.
//!
//! An *entry* is a (row, chosen expert) pair. Entries are sorted by expert, then by row. Inputs and intermediate results
//! have one row per entry, so that each expert's rows form a matrix that the linear kernels multiply. An entry's values are
//! bit-identical however many rows chose its expert. The entries of a row are summed in expert order.

use std::ops::Range;

use graph::{Hidden, Map};

use crate::kernels::Kernels;
use crate::lanes::LANES;
use crate::memory::Scratch;
use crate::packed::activations::{Activations, Form, panels};
use crate::pool::{Cut, Pool};

#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// Each pair of a row and an expert that it chose: the row, and the expert's weight. The experts in `chosen` have a range of these
    /// entries.
    rows: Vec<(usize, f32)>,
    /// The chosen experts in ascending order, with their entries.
    chosen: Vec<(usize, Range<usize>)>,
    /// Each row's experts, row by row, experts ascending.
    terms: Vec<Term>,
    /// End of each row's range of `terms`.
    ends: Vec<usize>,
    /// Next entry of each expert.
    next: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    expert: usize,
    entry: usize,
    weight: f32,
}

#[derive(Clone, Debug)]
pub(crate) struct Products<'a> {
    pub(crate) hidden: Hidden,
    /// The product with each weight, `[entries, cols]`.
    pub(crate) products: Vec<&'a [f32]>,
    /// Factors of each product, one per expert.
    pub(crate) scales: Vec<Option<&'a [f32]>>,
    /// Added to each product, `[experts, cols]`, or none.
    pub(crate) biases: Vec<&'a [f32]>,
    /// Whether the routing weight of an expert applies to its input. Here it multiplies the products, which gives the same values.
    pub(crate) weighs_inputs: bool,
}

impl Products<'_> {
    fn hidden(&self, kernels: &Kernels, y: &mut [f32], products: [&[f32]; 2]) {
        match self.hidden {
            Hidden::Gated { glu, .. } => (kernels.gate)(glu, y, products[0], products[1]),
            Hidden::Plain { act, .. } => (kernels.map)(Map::Act(act), y, products[0]),
        }
    }
}

impl Routing {
    /// Sorts the entries of `routes`, `[rows, experts]`. NaN weights count as chosen.
    pub(crate) fn fill(&mut self, routes: &[f32], experts: usize) {
        let Routing { rows, chosen, terms, ends, next } = self;
        terms.clear();
        ends.clear();
        chosen.clear();
        next.clear();
        next.resize(experts, 0);
        for row in routes.chunks_exact(experts) {
            for (expert, &weight) in row.iter().enumerate() {
                if weight != 0.0 {
                    next[expert] += 1;
                    terms.push(Term { expert, entry: 0, weight });
                }
            }
            ends.push(terms.len());
        }
        let mut first = 0;
        for (expert, next) in next.iter_mut().enumerate() {
            let entries = first..first + *next;
            (*next, first) = (entries.start, entries.end);
            if !entries.is_empty() {
                chosen.push((expert, entries));
            }
        }
        rows.resize(terms.len(), (0, 0.0));
        let mut start = 0;
        for (row, &end) in ends.iter().enumerate() {
            for Term { expert, entry, weight } in &mut terms[start..end] {
                let next = &mut next[*expert];
                *entry = *next;
                rows[*next] = (row, *weight);
                *next += 1;
            }
            start = end;
        }
    }

    pub(crate) fn chosen(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.chosen.iter().cloned()
    }

    /// Gathers the input row of each entry into `to`, in panels per expert.
    pub(crate) fn gather(&self, pool: &mut Pool, x: Activations<'_>, form: Form, to: &mut [u32]) {
        let panels = self.panels(x.tile);
        pool.tiles_of(cut(&panels, form.words(x.cols), to), |number, mut tile| {
            let panel = panels[number].clone();
            let (width, to) = (panel.len(), tile.row(0));
            for (at, &(row, _)) in self.rows[panel].iter().enumerate() {
                let (from, from_width) = x.words_of(row, form);
                let from = from.iter().step_by(from_width);
                to[at..].iter_mut().step_by(width).zip(from).for_each(|(to, &word)| *to = word);
            }
        });
    }

    /// Packs the hidden values, `[entries, cols]`, into `to`, in panels per expert.
    pub(crate) fn pack_hidden(
        &self,
        pool: &mut Pool,
        kernels: &Kernels,
        of: &Products<'_>,
        (form, cols): (Form, usize),
        to: &mut [u32],
    ) {
        let panels = self.panels(kernels.tile);
        pool.tiles_of(cut(&panels, form.words(cols), to), |number, mut tile| {
            let panel = &panels[number];
            let (len, mut scratch) = (panel.len() * cols, Scratch::take());
            let mut lines = scratch.lines(len.div_ceil(LANES) + 2 * cols.div_ceil(LANES));
            let [y, first, second] = [len, cols, cols].map(|len| {
                let lines = lines.split_off_mut(..len.div_ceil(LANES)).expect("as many as asked for");
                &mut bytemuck::cast_slice_mut::<_, f32>(lines)[..len]
            });
            for (entry, y) in panel.clone().zip(y.chunks_exact_mut(cols)) {
                let product = |number: usize| {
                    of.products.get(number).map_or(&[][..], |products| &products[entry * cols..][..cols])
                };
                if of.biases.is_empty() && !of.weighs_inputs && of.scales.iter().all(Option::is_none) {
                    of.hidden(kernels, y, [product(0), product(1)]);
                    continue;
                }
                let expert = self.entry_expert(entry);
                let weight = if of.weighs_inputs { self.rows[entry].1 } else { 1.0 };
                for (number, to) in [&mut *first, &mut *second].into_iter().enumerate() {
                    let weight =
                        weight * of.scales.get(number).copied().flatten().map_or(1.0, |of| of[expert]);
                    to.iter_mut().zip(product(number)).for_each(|(to, &x)| *to = weight * x);
                    if let Some(bias) = of.biases.get(number) {
                        to.iter_mut().zip(&bias[expert * cols..]).for_each(|(to, &bias)| *to += bias);
                    }
                }
                of.hidden(kernels, y, [first, second]);
            }
            (kernels.pack)(y, panel.len(), kernels.tile, form, tile.row(0));
        });
    }

    fn entry_expert(&self, entry: usize) -> usize {
        let next = self.chosen.partition_point(|(_, entries)| entries.start <= entry);
        self.chosen[next - 1].0
    }

    /// Sums the expert outputs of row `row`, `weighted` or not; `downs` is `[entries, columns of y]`, `scale` `[experts]`
    /// and `bias` `[experts, columns of y]`.
    pub(crate) fn sum(
        &self,
        row: usize,
        downs: &[f32],
        [scale, bias]: [Option<&[f32]>; 2],
        weighted: bool,
        y: &mut [f32],
    ) {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        y.fill(0.0);
        for &Term { expert, entry, weight } in &self.terms[start..self.ends[row]] {
            let (weight, downs) = (if weighted { weight } else { 1.0 }, &downs[entry * y.len()..]);
            let factor = weight * scale.map_or(1.0, |scale| scale[expert]);
            match bias {
                None => y.iter_mut().zip(downs).for_each(|(y, &down)| *y += factor * down),
                Some(bias) => {
                    let bias = &bias[expert * y.len()..];
                    for ((y, &down), &bias) in y.iter_mut().zip(downs).zip(bias) {
                        *y += factor * down + weight * bias;
                    }
                }
            }
        }
    }

    /// The entries of each panel, in order.
    fn panels(&self, tile: usize) -> Vec<Range<usize>> {
        self.chosen().flat_map(|(_, entries)| panels(entries, tile)).collect()
    }
}

/// Cuts `words` into one matrix per panel, with `row_words` words per row.
pub(crate) fn cut<'m>(
    panels: &[Range<usize>],
    row_words: usize,
    mut words: &'m mut [u32],
) -> impl Iterator<Item = Cut<'m, u32>> {
    panels.iter().map(move |panel| {
        let len = panel.len() * row_words;
        let matrix = words.split_off_mut(..len).expect("a row for every entry");
        Cut { matrix, cols: len, tile: (1, len) }
    })
}
