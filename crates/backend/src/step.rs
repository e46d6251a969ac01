//! The inputs of one step.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{BlockTable, Bucket, Draw, Error, PAGE};

/// Where the state of recurrent operations is: slots, each with the state of one sequence after some position.
///
/// A step reads the state after `n_past` positions, and writes the state after its last row. If these are the same slot,
/// a step that fails or is repeated leaves no state to continue from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// The state before the first row; not read at position 0.
    pub read: u32,
    /// The state after the last row.
    pub write: u32,
    /// A number of rows, less than all, and the slot of the state after them.
    pub checkpoint: Option<(usize, u32)>,
}

impl Slots {
    /// The slots that a step writes.
    pub fn written(self) -> impl Iterator<Item = u32> {
        [self.write].into_iter().chain(self.checkpoint.map(|(_, slot)| slot))
    }
}

/// The slice of a step that belongs to one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Cached positions of the sequence, which is also the position of its first row.
    pub n_past: usize,
    /// Number of rows.
    pub len: usize,
    /// Block tables, one per store group.
    pub tables: Arc<[BlockTable]>,
    /// The state of recurrent operations, if the graph has any.
    pub slots: Slots,
}

impl Sequence {
    /// A sequence with the same `pages` in all `groups`, and its state in slot 0.
    pub fn uniform<P: IntoIterator<Item = u32>>(n_past: usize, len: usize, groups: usize, pages: P) -> Self {
        let tables = vec![BlockTable::new(pages); groups].into();
        Sequence { n_past, len, tables, slots: Slots::default() }
    }

    /// The same with its state in `slot`.
    pub fn in_slot(self, slot: u32) -> Sequence {
        Sequence { slots: Slots { read: slot, write: slot, checkpoint: None }, ..self }
    }

    /// The positions of the rows.
    pub fn positions(&self) -> Range<usize> {
        self.n_past..self.n_past + self.len
    }
}

/// A row with requested outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRow {
    /// Row index in the step.
    pub row: u32,
    /// Whether to return its logits.
    pub logits: bool,
    /// Whether to return the greedy token, the lowest id among equal logits.
    pub greedy: bool,
    /// Whether to return the [`MAX_CANDIDATES`](crate::MAX_CANDIDATES) best candidates. A backend may return the logits instead.
    pub candidates: bool,
    /// Number of most likely tokens to return with log-probabilities.
    pub top: usize,
}

impl OutputRow {
    /// Requests logits of one row.
    pub fn logits(row: u32) -> OutputRow {
        OutputRow { row, logits: true, greedy: false, candidates: false, top: 0 }
    }

    /// Requests logits of several rows.
    pub fn all(rows: impl IntoIterator<Item = u32>) -> Vec<OutputRow> {
        rows.into_iter().map(OutputRow::logits).collect()
    }

    /// Requests only the greedy token.
    pub fn greedy(row: u32) -> OutputRow {
        OutputRow { row, logits: false, greedy: true, candidates: false, top: 0 }
    }

    /// Requests only the best candidates.
    pub fn candidates(row: u32) -> OutputRow {
        OutputRow { row, logits: false, greedy: false, candidates: true, top: 0 }
    }

    /// What has to leave the device for it, unless its token is drawn there.
    pub fn wanted(&self) -> Wanted {
        match (self.logits || self.top > 0, self.candidates, self.greedy) {
            (false, true, _) => Wanted::Candidates,
            (false, false, true) => Wanted::Tokens,
            _ => Wanted::Logits,
        }
    }
}

/// What leaves the device of the output rows of a step, each more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// The greedy tokens.
    Tokens,
    /// The tokens that are drawn, and greedy ones. Only [`Step::wanted`] is this.
    Drawn,
    /// The best candidates, of which the first is the greedy token.
    Candidates,
    /// All logits.
    #[default]
    Logits,
}

impl Wanted {
    /// Whether the device chooses tokens, so that a later step can take them.
    pub fn are_tokens(self) -> bool {
        matches!(self, Wanted::Tokens | Wanted::Drawn)
    }

    /// The least that has what all of `outputs` request, if no token is drawn on the device.
    pub fn of(outputs: &[OutputRow]) -> Wanted {
        outputs.iter().map(OutputRow::wanted).max().unwrap_or_default()
    }
}

/// A flag that ends a running step early, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Makes the running step, or else the next one, end with [`Error::Interrupted`], unless all of it was already
    /// submitted to its device.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Clears the flag; returns whether it was raised.
    pub fn lower(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Always equal: steps are compared by what they compute.
impl PartialEq for Interrupt {
    fn eq(&self, _: &Interrupt) -> bool {
        true
    }
}

/// One step: tokens of one or more sequences, and its output rows.
///
/// The rows of a sequence are contiguous, and positions derive from sequences. Validated on construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    tokens: Vec<u32>,
    sequences: Vec<Sequence>,
    outputs: Vec<OutputRow>,
    draws: Vec<Option<Draw>>,
    input: Vec<f32>,
    follows: Vec<u32>,
    interrupt: Interrupt,
}

impl Step {
    /// Creates a step of `tokens`, assigned to `sequences` in order, with these output rows.
    ///
    /// # Errors
    /// If the sequences do not cover the tokens, lack pages for their rows or write to the same page, or if output rows are
    /// not strictly increasing and in range.
    pub fn new(tokens: Vec<u32>, sequences: Vec<Sequence>, outputs: Vec<OutputRow>) -> Result<Step, Error> {
        let invalid = |why: String| Err(Error::Step(why));
        let n_tokens = tokens.len();
        let rows = sequences.iter().fold(0usize, |rows, sequence| rows.saturating_add(sequence.len));
        if rows != n_tokens || rows == 0 {
            return invalid(format!("the sequences have {rows} rows, but there are {n_tokens} tokens"));
        }
        let mut written = HashSet::new();
        for (i, sequence) in sequences.iter().enumerate() {
            if sequence.len == 0 {
                return invalid(format!("sequence {i} has no rows"));
            }
            let positions = sequence.positions();
            for (group, table) in sequence.tables.iter().enumerate() {
                let covered = table.positions();
                if positions.start < covered.start || positions.end > covered.end {
                    return invalid(format!(
                        "sequence {i}: the pages of group {group} cover positions {covered:?}, but the rows need {positions:?}"
                    ));
                }
                let pages = positions.start / PAGE - table.first..positions.end.div_ceil(PAGE) - table.first;
                for &page in &table.pages[pages] {
                    if !written.insert((group, page)) {
                        return invalid(format!(
                            "sequence {i}: page {page} of group {group} is written twice"
                        ));
                    }
                }
            }
        }
        let is_increasing = outputs.is_sorted_by(|a, b| a.row < b.row);
        if !is_increasing || outputs.last().is_some_and(|output| output.row as usize >= rows) {
            return invalid(format!("output rows must be strictly increasing and less than {rows}"));
        }
        let (draws, input, follows) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Step { tokens, sequences, outputs, draws, input, follows, interrupt: Interrupt::default() })
    }

    /// The same step, but each row takes the token of an output row of the step that the program got before it: `follows` has
    /// the index of that output row, one per row. This step's own tokens are not used then, so that it can be submitted before
    /// those of the other one are known ([`Program::can_follow`](crate::Program::can_follow)).
    pub fn following(self, follows: Vec<u32>) -> Step {
        debug_assert_eq!(self.tokens.len(), follows.len(), "every row follows");
        Step { follows, ..self }
    }

    /// The output rows of the step before whose tokens the rows take, one per row; empty if they have their own.
    pub fn follows(&self) -> &[u32] {
        &self.follows
    }

    /// The same step with the tokens that it followed, given those of all output rows of the step before.
    ///
    /// # Panics
    /// If it follows another row.
    pub fn with_tokens_of(mut self, before: &[u32]) -> Step {
        for (token, row) in self.tokens.iter_mut().zip(std::mem::take(&mut self.follows)) {
            *token = before[row as usize];
        }
        self
    }

    /// Lets the device draw tokens, one entry per output row. If every row has a draw or requests the greedy token alone, a backend
    /// may return just these tokens. Otherwise, and on a backend that does not draw, rows get what they request.
    ///
    /// # Errors
    /// If there is not one entry per output row, or a draw is out of range.
    pub fn with_draws(self, draws: Vec<Option<Draw>>) -> Result<Step, Error> {
        if draws.len() != self.outputs.len() {
            let (draws, rows) = (draws.len(), self.outputs.len());
            return Err(Error::Step(format!("{draws} draws for {rows} output rows")));
        }
        draws.iter().flatten().try_for_each(Draw::check)?;
        let draws = if draws.iter().any(Option::is_some) { draws } else { Vec::new() };
        Ok(Step { draws, ..self })
    }

    /// Sets the rows of the graph's [`graph::Op::Input`], `[rows, cols]`.
    pub fn with_input(self, input: Vec<f32>) -> Step {
        Step { input, ..self }
    }

    /// The step without outputs, for pipeline stages before the last.
    pub fn without_outputs(&self) -> Step {
        Step { outputs: Vec::new(), draws: Vec::new(), input: Vec::new(), ..self.clone() }
    }

    /// Copies the output rows and draws of `whole`, a step with the same rows.
    pub fn with_outputs_of(self, whole: &Step) -> Step {
        debug_assert_eq!(self.tokens.len(), whole.tokens.len(), "a stage has the rows of the whole step");
        Step { outputs: whole.outputs.clone(), draws: whole.draws.clone(), ..self }
    }

    /// The same step, which `interrupt` can end early.
    pub fn with_interrupt(self, interrupt: Interrupt) -> Step {
        Step { interrupt, ..self }
    }

    /// For backends to check between operations. A step that ends early has written nothing but keys and values at its
    /// own positions, and slots that it writes.
    ///
    /// # Errors
    /// When the step was interrupted.
    pub fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// The tokens, one per row.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The slices of the sequences.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The output rows, strictly increasing.
    pub fn outputs(&self) -> &[OutputRow] {
        &self.outputs
    }

    /// How the tokens of the output rows are drawn, one entry per row; empty if none is.
    pub fn draws(&self) -> &[Option<Draw>] {
        &self.draws
    }

    /// The least that has to leave the device.
    pub fn wanted(&self) -> Wanted {
        let mut rows = self.outputs.iter().zip(&self.draws);
        let is_token =
            |(output, draw): (&OutputRow, &Option<Draw>)| draw.is_some() || output.wanted() == Wanted::Tokens;
        if !self.draws.is_empty() && rows.all(is_token) { Wanted::Drawn } else { Wanted::of(&self.outputs) }
    }

    /// The output of the previous pipeline stage, `[rows, cols]`; empty without one.
    pub fn input(&self) -> &[f32] {
        &self.input
    }

    /// The number of these rows.
    pub fn count(&self, rows: graph::Rows) -> usize {
        Bucket { rows: self.tokens.len(), outputs: self.outputs.len() }.count(rows)
    }

    /// The rows of the sequence that has row `row`.
    ///
    /// # Panics
    /// If the step has fewer rows.
    pub fn rows_beside(&self, row: usize) -> Range<usize> {
        let mut first = 0;
        for sequence in &self.sequences {
            if row < first + sequence.len {
                return first..first + sequence.len;
            }
            first += sequence.len;
        }
        panic!("row {row} of a step of {first}");
    }

    /// The sequence and position of each row.
    pub fn rows(&self) -> impl Iterator<Item = (&Sequence, usize)> {
        self.sequences.iter().flat_map(|sequence| sequence.positions().map(move |at| (sequence, at)))
    }
}
