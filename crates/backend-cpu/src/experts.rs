//! Mixture of experts: each expert processes the rows routed to it.
//!
//! An *entry* is a (row, chosen expert) pair. Entries are sorted by expert, then by row. Inputs and intermediate results
//! have one row per entry, so that each expert's rows form a matrix that the linear kernels multiply. An entry's values are
//! bit-identical however many rows chose its expert. The entries of a row are summed in expert order.

use std::ops::Range;

use graph::Activation;

use crate::kernels::Kernels;
use crate::lanes::LANES;
use crate::memory::Scratch;
use crate::packed::activations::{Activations, Form, panels};
use crate::pool::{Cut, Pool};

#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// By entry.
    rows: Vec<usize>,
    /// The chosen experts in ascending order, with their entries.
    chosen: Vec<(usize, Range<usize>)>,
    /// (entry, weight) of each row's experts, row by row, experts ascending.
    terms: Vec<(usize, f32)>,
    /// End of each row's range of `terms`.
    ends: Vec<usize>,
    /// Next entry of each expert.
    next: Vec<usize>,
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
                    terms.push((expert, weight));
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
        rows.resize(terms.len(), 0);
        let mut start = 0;
        for (row, &end) in ends.iter().enumerate() {
            for (entry, _) in &mut terms[start..end] {
                let next = &mut next[*entry];
                *entry = *next;
                rows[*next] = row;
                *next += 1;
            }
            start = end;
        }
    }

    /// The chosen experts in ascending order, with their entries.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.chosen.iter().cloned()
    }

    /// Gathers the input row of each entry into `to`, in panels per expert.
    pub(crate) fn gather(&self, pool: &mut Pool, x: Activations<'_>, form: Form, to: &mut [u32]) {
        let panels = self.panels(x.tile);
        pool.tiles_of(cut(&panels, form.words(x.cols), to), |number, mut tile| {
            let panel = panels[number].clone();
            let (width, to) = (panel.len(), tile.row(0));
            for (at, &row) in self.rows[panel].iter().enumerate() {
                let (from, from_width) = x.words_of(row, form);
                let from = from.iter().step_by(from_width);
                to[at..].iter_mut().step_by(width).zip(from).for_each(|(to, &word)| *to = word);
            }
        });
    }

    /// Packs `act(gates) * ups`, `[entries, cols]`, into `to`, in panels per expert.
    pub(crate) fn gate(
        &self,
        pool: &mut Pool,
        kernels: &Kernels,
        act: Activation,
        [gates, ups]: [&[f32]; 2],
        (form, cols): (Form, usize),
        to: &mut [u32],
    ) {
        let panels = self.panels(kernels.tile);
        pool.tiles_of(cut(&panels, form.words(cols), to), |number, mut tile| {
            let panel = &panels[number];
            let (len, mut scratch) = (panel.len() * cols, Scratch::take());
            let y: &mut [f32] = &mut bytemuck::cast_slice_mut(scratch.lines(len.div_ceil(LANES)))[..len];
            for (entry, y) in panel.clone().zip(y.chunks_exact_mut(cols)) {
                let at = entry * cols..(entry + 1) * cols;
                (kernels.gate)(act, y, &gates[at.clone()], &ups[at]);
            }
            (kernels.pack)(y, panel.len(), kernels.tile, form, tile.row(0));
        });
    }

    /// Sums the weighted expert outputs of row `row`; `downs` is `[entries, columns of y]`.
    pub(crate) fn sum(&self, row: usize, downs: &[f32], y: &mut [f32]) {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        y.fill(0.0);
        for &(entry, weight) in &self.terms[start..self.ends[row]] {
            let downs = &downs[entry * y.len()..];
            for (y, &down) in y.iter_mut().zip(downs) {
                *y += weight * down;
            }
        }
    }

    /// The entries of each panel, in order.
    fn panels(&self, tile: usize) -> Vec<Range<usize>> {
        self.chosen().flat_map(|(_, entries)| panels(entries, tile)).collect()
    }
}

/// One matrix per panel, `of_row` words per row.
fn cut<'m>(
    panels: &[Range<usize>],
    of_row: usize,
    mut words: &'m mut [u32],
) -> impl Iterator<Item = Cut<'m, u32>> {
    panels.iter().map(move |panel| {
        let len = panel.len() * of_row;
        let matrix = words.split_off_mut(..len).expect("a row for every entry");
        Cut { matrix, cols: len, tile: (1, len) }
    })
}
