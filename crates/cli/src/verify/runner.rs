//! A whole model on a backend, with room for a few sequences.

use backend::{Backend, Bucket, KvFormat, KvLayout, OutputRow, PAGE, Sequence, Step};
use engine::Model;
use runner::ModelRunner;

/// Some tokens of a sequence that follow `n_past` others.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) sequence: usize,
    pub(super) n_past: usize,
    pub(super) tokens: &'a [u32],
}

/// A compiled model.
pub(super) struct Runner {
    model: ModelRunner,
    n_vocab: usize,
    /// Pages of a sequence; those of sequence `s` begin at `s * pages`.
    pages: usize,
}

impl Runner {
    /// Puts `model` on `backend`, with room for `sequences` of up to `positions` tokens.
    pub(super) fn new(
        model: &Model,
        backend: Box<dyn Backend>,
        sequences: usize,
        positions: usize,
    ) -> anyhow::Result<Runner> {
        Runner::with_outputs(model, backend, [sequences, positions], sequences * positions)
    }

    /// The same for steps of up to so many output rows.
    pub(super) fn with_outputs(
        model: &Model,
        backend: Box<dyn Backend>,
        [sequences, positions]: [usize; 2],
        outputs: usize,
    ) -> anyhow::Result<Runner> {
        let (graph, pages) = (model.graph(), positions.div_ceil(PAGE));
        let kv_layout = KvLayout::uniform(graph, sequences * pages, KvFormat::F16);
        let bucket = Bucket { rows: sequences * positions, outputs };
        let runner = ModelRunner::new(model.file(), graph, backend, &kv_layout, &[bucket])?;
        Ok(Runner { model: runner, n_vocab: graph.value(graph.output()).cols, pages })
    }

    /// Runs one step; the logits of every row, `[rows, n_vocab]`.
    pub(super) fn step(&mut self, parts: &[Part<'_>]) -> anyhow::Result<Vec<f32>> {
        let rows: usize = parts.iter().map(|part| part.tokens.len()).sum();
        self.rows(parts, 0..rows as u32)
    }

    /// Runs one step; the logits of these rows.
    pub(super) fn rows(
        &mut self,
        parts: &[Part<'_>],
        outputs: impl IntoIterator<Item = u32>,
    ) -> anyhow::Result<Vec<f32>> {
        let tokens: Vec<u32> = parts.iter().flat_map(|part| part.tokens).copied().collect();
        let groups = self.model.graph().groups().len();
        let sequences = parts.iter().map(|part| {
            let first = part.sequence * self.pages;
            let pages = (first..first + self.pages).map(|page| page as u32);
            Sequence::uniform(part.n_past, part.tokens.len(), groups, pages)
        });
        let step = Step::new(tokens, sequences.collect(), OutputRow::all(outputs))?;
        Ok(self.model.run(&step)?.values().to_vec())
    }

    /// Logits a row.
    pub(super) fn n_vocab(&self) -> usize {
        self.n_vocab
    }
}
