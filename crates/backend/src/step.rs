//! The inputs of one step.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::Mask;

use crate::{BlockTable, Bucket, Draw, Error, Feature, KV_BLOCK};

/// Where the state of recurrent operations is: slots, each with the state of one sequence after some position. If a step reads and
/// writes the same slot, one that fails or is repeated leaves no state to continue from.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Sequence {
    /// Cached positions of the sequence, which is also the position of its first row.
    pub n_past: usize,
    /// Number of rows.
    pub len: usize,
    /// By store group.
    pub tables: Arc<[BlockTable]>,
    pub slots: Slots,
    /// Ranges of positions whose rows see each other, whatever the masks, such as those of a picture. They are in order and do not
    /// overlap. All rows of a span must be in this step.
    pub spans: Arc<[Range<usize>]>,
}

impl Sequence {
    /// A sequence with the same `blocks` in all `groups`, and its state in slot 0.
    pub fn uniform<P: IntoIterator<Item = u32>>(n_past: usize, len: usize, groups: usize, blocks: P) -> Self {
        let tables = vec![BlockTable::new(blocks); groups].into();
        Sequence { n_past, len, tables, ..Sequence::default() }
    }

    /// The same with its state in `slot`.
    pub fn in_slot(self, slot: u32) -> Sequence {
        Sequence { slots: Slots { read: slot, write: slot, checkpoint: None }, ..self }
    }

    /// The same with `spans`.
    pub fn with_spans(self, spans: impl Into<Arc<[Range<usize>]>>) -> Sequence {
        Sequence { spans: spans.into(), ..self }
    }

    /// The positions of the rows.
    pub fn positions(&self) -> Range<usize> {
        self.n_past..self.n_past + self.len
    }

    /// The positions that the row at `position` sees in a store with this mask. Neither end decreases from row to row.
    pub fn visible(&self, mask: Mask, position: usize) -> Range<usize> {
        let visible = mask.visible(position, self.positions().end);
        let span = self.spans.iter().find(|span| span.contains(&position)).unwrap_or(&visible);
        visible.start.min(span.start)..visible.end.max(span.end)
    }
}

/// Where the embedding of a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The model's table of token embeddings.
    Token(u32),
    /// The same, for the token of this output row of the step that the program got before, which only the device may know
    /// ([`Program::can_follow`](crate::Program::can_follow)).
    Ahead(u32),
    /// This row of [`Step::embeddings`], in place of one of the model's table.
    Embedding(u32),
}

/// What a step returns for a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Output {
    /// Nothing: the row is no output row.
    #[default]
    None,
    /// The token with the largest logit, the lowest id among equals.
    Greedy,
    /// A token drawn from the logits. A backend that does not draw returns candidates, if they suffice, or logits.
    Draw(Arc<Draw>),
    /// The [`MAX_CANDIDATES`](crate::MAX_CANDIDATES) largest logits. A backend may return all logits instead.
    Candidates,
    /// This many most likely tokens with their log-probabilities.
    Top(u32),
    /// The row of the graph's result: one logit per token of the vocabulary, or the embedding of an encoder.
    Logits,
    /// The row of the graph's first further result ([`Graph::heads`](graph::Graph::heads)).
    Hidden,
}

impl Output {
    /// How the token is drawn, if it is.
    pub fn draw(&self) -> Option<&Draw> {
        if let Output::Draw(draw) = self { Some(draw) } else { None }
    }

    /// The least that has to be copied from a device that does not draw.
    fn transfer(&self) -> Transfer {
        match self {
            Output::None | Output::Greedy | Output::Hidden => Transfer::Tokens,
            Output::Draw(draw) if draw.is_of_best() && !draw.adjusts() => Transfer::Candidates,
            Output::Candidates => Transfer::Candidates,
            Output::Draw(_) | Output::Top(_) | Output::Logits => Transfer::Logits,
        }
    }
}

/// What a step copies from the device for all of its output rows, each more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    /// The greedy tokens.
    Tokens,
    /// Tokens, some of which are drawn.
    Drawn,
    /// The best candidates, of which the first is the greedy token.
    Candidates,
    /// All logits.
    #[default]
    Logits,
}

impl Transfer {
    /// Whether the device chooses tokens, so that a later step can take them.
    pub fn are_tokens(self) -> bool {
        self <= Transfer::Drawn
    }
}

/// A row of a step: what goes in, and what comes out.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Row {
    pub input: Input,
    pub output: Output,
}

impl Row {
    /// Rows of `tokens` with the same output.
    pub fn all(tokens: impl IntoIterator<Item = u32>, output: &Output) -> Vec<Row> {
        let row = |token| Row { input: Input::Token(token), output: output.clone() };
        tokens.into_iter().map(row).collect()
    }

    /// Rows of `tokens`, of which those with an index in `outputs` return logits; panics if an index is out of range.
    pub fn logits(tokens: impl IntoIterator<Item = u32>, outputs: impl IntoIterator<Item = u32>) -> Vec<Row> {
        let mut rows = Row::all(tokens, &Output::None);
        outputs.into_iter().for_each(|row| rows[row as usize].output = Output::Logits);
        rows
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

/// One step: rows of one or more sequences, each contiguous; positions derive from sequences. Validated on construction.
#[derive(Clone, Debug)]
pub struct Step {
    rows: Vec<Row>,
    sequences: Vec<Sequence>,
    /// Indices of the rows that have an output.
    outputs: Vec<u32>,
    embeddings: Arc<[f32]>,
    hidden: Vec<f32>,
    interrupt: Interrupt,
}

impl Step {
    /// A step of `rows`, assigned to `sequences` in order. Fails if the sequences do not cover the rows, lack blocks or write to
    /// the same block, if a span is incomplete, or a draw is out of range.
    pub fn new(rows: Vec<Row>, sequences: Vec<Sequence>) -> Result<Step, Error> {
        let invalid = |why: String| Err(Error::Step(why));
        let covered = sequences.iter().fold(0usize, |rows, sequence| rows.saturating_add(sequence.len));
        if covered != rows.len() || covered == 0 {
            let inputs = rows.len();
            return invalid(format!("the sequences have {covered} rows, but there are {inputs} inputs"));
        }
        let mut written = HashSet::new();
        for (i, sequence) in sequences.iter().enumerate() {
            if sequence.len == 0 {
                return invalid(format!("sequence {i} has no rows"));
            }
            let positions = sequence.positions();
            let mut end = positions.start;
            for span in sequence.spans.iter() {
                if span.start < end || span.is_empty() || span.end > positions.end {
                    return invalid(format!(
                        "sequence {i}: the span {span:?} is empty, overlaps the span before it, or is not within the positions {positions:?} of this step; compute each span in one step"
                    ));
                }
                end = span.end;
            }
            for (group, table) in sequence.tables.iter().enumerate() {
                let covered = table.positions();
                if positions.start < covered.start || positions.end > covered.end {
                    return invalid(format!(
                        "sequence {i}: the blocks of group {group} cover positions {covered:?}, but the rows need {positions:?}"
                    ));
                }
                let blocks =
                    positions.start / KV_BLOCK - table.first..positions.end.div_ceil(KV_BLOCK) - table.first;
                for &block in &table.blocks[blocks] {
                    if !written.insert((group, block)) {
                        return invalid(format!(
                            "sequence {i}: block {block} of group {group} is written twice"
                        ));
                    }
                }
            }
        }
        rows.iter().filter_map(|row| row.output.draw()).try_for_each(Draw::check)?;
        let outputs = (0..).zip(&rows).filter(|(_, row)| row.output != Output::None);
        let outputs = outputs.map(|(index, _)| index).collect();
        let (embeddings, hidden, interrupt) = (Arc::default(), Vec::new(), Interrupt::default());
        Ok(Step { rows, sequences, outputs, embeddings, hidden, interrupt })
    }

    /// Replaces [`Input::Ahead`] by the tokens of the step before, one per output row; panics if a row takes that of another row.
    pub fn resolve(&mut self, before: &[u32]) {
        for row in &mut self.rows {
            if let Input::Ahead(index) = row.input {
                row.input = Input::Token(before[index as usize]);
            }
        }
    }

    /// Whether a row takes a token of the step before.
    pub fn is_ahead(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.input, Input::Ahead(_)))
    }

    /// Sets the embeddings of rows, `[n, cols]` as the model's table.
    pub fn with_embeddings(self, embeddings: impl Into<Arc<[f32]>>) -> Step {
        Step { embeddings: embeddings.into(), ..self }
    }

    /// Sets the rows of the graph's [`graph::Op::Input`], `[rows, cols]`: the output of the previous pipeline stage.
    pub fn with_hidden(self, hidden: Vec<f32>) -> Step {
        Step { hidden, ..self }
    }

    /// The step without outputs, for pipeline stages before the last.
    pub fn without_outputs(&self) -> Step {
        let rows = self.rows.iter().map(|row| Row { input: row.input, output: Output::None }).collect();
        Step { rows, outputs: Vec::new(), hidden: Vec::new(), ..self.clone() }
    }

    /// The same step, which `interrupt` can end early.
    pub fn with_interrupt(self, interrupt: Interrupt) -> Step {
        Step { interrupt, ..self }
    }

    /// Backends call this between operations. An interrupted step has written only its own slots, and K and V at its own
    /// positions.
    pub fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// For backends that have only some of the features that a step may need; the error names `backend`.
    pub fn check_features(&self, backend: &str, supported: &[Feature]) -> Result<(), Error> {
        let has_embeddings = self.rows.iter().any(|row| matches!(row.input, Input::Embedding(_)));
        let has_spans = self.sequences.iter().any(|sequence| !sequence.spans.is_empty());
        let mut needs = [(Feature::Embeddings, has_embeddings), (Feature::Spans, has_spans)].into_iter();
        match needs.find(|(feature, is_needed)| *is_needed && !supported.contains(feature)) {
            Some((feature, _)) => Err(Error::Unsupported { backend: backend.to_owned(), feature }),
            None => Ok(()),
        }
    }

    /// `[n, cols]`: see [`Input::Embedding`].
    pub fn embeddings(&self) -> &[f32] {
        &self.embeddings
    }

    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The slices of the sequences.
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// The rows that have an output, in order: index among the rows, and output.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = (usize, &Output)> + Clone {
        self.outputs.iter().map(|&row| (row as usize, &self.rows[row as usize].output))
    }

    /// The least that has to be copied from a device that draws.
    pub fn transfer(&self) -> Transfer {
        let is_drawn = |output: &Output| matches!(output, Output::Draw(_));
        let is_token = |output: &Output| is_drawn(output) || *output == Output::Greedy;
        let mut outputs = self.outputs().map(|(_, output)| output);
        let are_drawn = outputs.clone().any(is_drawn) && outputs.all(is_token);
        if are_drawn { Transfer::Drawn } else { self.transfer_undrawn() }
    }

    /// The least that has to be copied from a device that does not draw.
    pub fn transfer_undrawn(&self) -> Transfer {
        self.outputs().map(|(_, output)| output.transfer()).max().unwrap_or_default()
    }

    /// The output of the previous pipeline stage, `[rows, cols]`; empty without one.
    pub fn hidden(&self) -> &[f32] {
        &self.hidden
    }

    /// The number of these rows.
    pub fn count(&self, rows: graph::Rows) -> usize {
        Bucket { rows: self.rows.len(), outputs: self.outputs.len() }.count(rows)
    }

    /// The rows of the sequence that has row `row`; panics if the step has fewer rows.
    pub fn rows_beside(&self, row: usize) -> Range<usize> {
        let mut end = 0;
        let mut rows = self.sequences.iter().map(|sequence| {
            end += sequence.len;
            end - sequence.len..end
        });
        rows.find(|rows| rows.contains(&row)).expect("the step has the row")
    }

    /// The sequence and position of each row.
    pub fn positions(&self) -> impl Iterator<Item = (&Sequence, usize)> {
        self.sequences.iter().flat_map(|sequence| sequence.positions().map(move |at| (sequence, at)))
    }
}
