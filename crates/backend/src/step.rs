//! The inputs of one step: everything that changes from step to step.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use graph::Group;

use crate::{BlockTable, Bucket, Error, PAGE};

/// The rows of one sequence in a step, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Positions of the sequence already in its stores; the first row's position.
    pub n_past: usize,
    /// How many rows of the step are its.
    pub len: usize,
    /// Its block tables, one for each group.
    pub tables: Arc<[BlockTable]>,
}

impl Sequence {
    /// Rows of a sequence all of whose positions lie in the same `pages` of all `groups`.
    pub fn uniform(
        n_past: usize,
        len: usize,
        groups: usize,
        pages: impl IntoIterator<Item = u32>,
    ) -> Sequence {
        Sequence { n_past, len, tables: vec![BlockTable::new(pages); groups].into() }
    }

    /// The positions of its rows.
    pub fn positions(&self) -> Range<usize> {
        self.n_past..self.n_past + self.len
    }
}

/// A row of a step of which something is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRow {
    /// The row.
    pub row: u32,
    /// Whether its logits are read back.
    pub logits: bool,
    /// Whether the token with the largest logit is chosen, the lowest id of equals.
    pub greedy: bool,
    /// How many of the most likely tokens are told with their log-probabilities.
    pub top: usize,
}

impl OutputRow {
    /// A row whose logits are read.
    pub fn logits(row: u32) -> OutputRow {
        OutputRow { row, logits: true, greedy: false, top: 0 }
    }

    /// Rows whose logits are read.
    pub fn all(rows: impl IntoIterator<Item = u32>) -> Vec<OutputRow> {
        rows.into_iter().map(OutputRow::logits).collect()
    }

    /// A row whose most likely token is told, and nothing else.
    pub fn greedy(row: u32) -> OutputRow {
        OutputRow { row, logits: false, greedy: true, top: 0 }
    }

    /// Whether all that is asked for is the most likely token, so that no logits need to leave the device.
    pub fn is_token_only(&self) -> bool {
        self.greedy && !self.logits && self.top == 0
    }
}

/// One step: tokens of one or more sequences, and its output rows.
///
/// Rows of a sequence lie together; a row's position follows from its sequence, so the two cannot
/// disagree. Checked when made.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    tokens: Vec<u32>,
    sequences: Vec<Sequence>,
    outputs: Vec<OutputRow>,
    input: Vec<f32>,
}

impl Step {
    /// A step of `tokens`, split among `sequences` in order, with these output rows.
    ///
    /// # Errors
    /// When the sequences do not cover the tokens, lack pages for their rows, share a page they write to, or an output
    /// row does not exist or is out of order.
    pub fn new(tokens: Vec<u32>, sequences: Vec<Sequence>, outputs: Vec<OutputRow>) -> Result<Step, Error> {
        let rows = sequences.iter().fold(0usize, |rows, sequence| rows.saturating_add(sequence.len));
        if rows != tokens.len() || rows == 0 {
            return Err(Error::Step(format!("{rows} rows in sequences, {} tokens", tokens.len())));
        }
        let mut written = HashSet::new();
        for (i, sequence) in sequences.iter().enumerate() {
            if sequence.len == 0 {
                return Err(Error::Step(format!("sequence {i} has no rows")));
            }
            let positions = sequence.positions();
            for (group, table) in sequence.tables.iter().enumerate() {
                let room = table.positions();
                if positions.start < room.start || positions.end > room.end {
                    return Err(Error::Step(format!(
                        "sequence {i}: the pages of group {group} hold positions {room:?}, its rows are {positions:?}"
                    )));
                }
                let pages = positions.start / PAGE - table.first..positions.end.div_ceil(PAGE) - table.first;
                for &page in &table.pages[pages] {
                    if !written.insert((group, page)) {
                        return Err(Error::Step(format!(
                            "sequence {i}: page {page} of group {group} is written twice"
                        )));
                    }
                }
            }
        }
        let is_rising = outputs.is_sorted_by(|a, b| a.row < b.row);
        if !is_rising || outputs.last().is_some_and(|output| output.row as usize >= rows) {
            return Err(Error::Step(format!("output rows must rise and be less than {rows}")));
        }
        Ok(Step { tokens, sequences, outputs, input: Vec::new() })
    }

    /// The same with the rows of the graph's [`graph::Op::Input`], `[rows, cols]`.
    pub fn with_input(self, input: Vec<f32>) -> Step {
        Step { input, ..self }
    }

    /// The same for a part of a model that ends before output rows are taken.
    pub fn without_outputs(&self) -> Step {
        let (tokens, sequences) = (self.tokens.clone(), self.sequences.clone());
        Step { tokens, sequences, outputs: Vec::new(), input: Vec::new() }
    }

    /// The same with the output rows of `whole`, which has as many rows.
    pub fn with_outputs_of(self, whole: &Step) -> Step {
        debug_assert_eq!(self.tokens.len(), whole.tokens.len(), "rows of a part and of the whole");
        Step { outputs: whole.outputs.clone(), ..self }
    }

    /// The tokens, one a row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The sequences' rows.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The output rows, rising.
    pub fn outputs(&self) -> &[OutputRow] {
        &self.outputs
    }

    /// What another part of the model has computed, `[rows, cols]`; nothing for a whole model.
    pub fn input(&self) -> &[f32] {
        &self.input
    }

    /// Each row's sequence and position.
    pub fn rows(&self) -> impl Iterator<Item = (&Sequence, usize)> {
        self.sequences.iter().flat_map(|sequence| sequence.positions().map(move |at| (sequence, at)))
    }

    /// Checks the step against what it is to run on; `groups` with the pages that each has.
    ///
    /// # Errors
    /// When it has more rows than `bucket`, a token from `n_vocab` on, no block table for a group, or one that has pages
    /// which are not there or lacks some that its rows see.
    pub(crate) fn check(
        &self,
        bucket: Bucket,
        n_vocab: usize,
        groups: &[(Group, usize)],
    ) -> Result<(), Error> {
        if self.tokens.len() > bucket.rows || self.outputs.len() > bucket.outputs {
            let (rows, outputs) = (self.tokens.len(), self.outputs.len());
            return Err(Error::Step(format!("{rows} rows, {outputs} outputs, but room for {bucket:?}")));
        }
        if let Some(token) = self.tokens.iter().find(|&&token| token as usize >= n_vocab) {
            return Err(Error::Step(format!("token {token} is outside the vocabulary of {n_vocab}")));
        }
        for (i, sequence) in self.sequences.iter().enumerate() {
            if sequence.tables.len() != groups.len() {
                let (found, expected) = (sequence.tables.len(), groups.len());
                return Err(Error::Step(format!("sequence {i}: {found} block tables for {expected} groups")));
            }
            for (number, (table, &(group, pages))) in sequence.tables.iter().zip(groups).enumerate() {
                if let Some(page) = table.pages.iter().find(|&&page| page as usize >= pages) {
                    return Err(Error::Step(format!("page {page} of group {number} is outside its {pages}")));
                }
                let first = group.first_visible(sequence.n_past);
                if table.positions().start > first {
                    return Err(Error::Step(format!(
                        "sequence {i}: group {number} has pages from position {} on, its rows see {first}",
                        table.positions().start
                    )));
                }
            }
        }
        Ok(())
    }
}
