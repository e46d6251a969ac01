//! A whole model on a backend, with room for a few sequences.

use anyhow::Context;
use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use engine::Model;

/// Some tokens of a sequence that follow `past` others.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) sequence: usize,
    pub(super) past: usize,
    pub(super) tokens: &'a [u32],
}

/// A compiled model.
pub(super) struct Runner {
    program: Box<dyn Program>,
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
        Runner::wanting(model, backend, [sequences, positions], sequences * positions)
    }

    /// The same for steps of which the logits of so many rows are wanted.
    pub(super) fn wanting(
        model: &Model,
        mut backend: Box<dyn Backend>,
        [sequences, positions]: [usize; 2],
        wanted: usize,
    ) -> anyhow::Result<Runner> {
        let (graph, config) = (model.graph(), model.config());
        for (_, weight) in graph.weights() {
            let tensor =
                model.file().tensor(&weight.name).with_context(|| format!("no tensor `{}`", weight.name))?;
            let bytes = tensor.data.clone();
            backend.load(
                &weight.name,
                Weight { format: tensor.format, rows: weight.rows, cols: weight.cols, bytes },
            )?;
        }
        let pages = positions.div_ceil(PAGE);
        backend.allocate_kv(KvLayout {
            layers: graph.layers(),
            kv_heads: config.head_count_kv,
            k_dim: config.key_length,
            v_dim: config.value_length,
            pages: sequences * pages,
            format: KvFormat::F16,
        })?;
        let rows = sequences * positions;
        let program = backend.compile(graph, Bucket { rows, wanted }, Taps::None)?;
        Ok(Runner { program, n_vocab: config.vocab_size, pages })
    }

    /// Runs one step; the logits of every row, `[rows, n_vocab]`.
    pub(super) fn step(&mut self, parts: &[Part<'_>]) -> anyhow::Result<Vec<f32>> {
        let rows: usize = parts.iter().map(|part| part.tokens.len()).sum();
        self.rows(parts, (0..rows as u32).collect())
    }

    /// Runs one step; the logits of the rows that are wanted.
    pub(super) fn rows(&mut self, parts: &[Part<'_>], wanted: Vec<u32>) -> anyhow::Result<Vec<f32>> {
        let tokens: Vec<u32> = parts.iter().flat_map(|part| part.tokens).copied().collect();
        let spans = parts.iter().map(|part| {
            let first = part.sequence * self.pages;
            let pages = (first..first + self.pages).map(|page| page as u32).collect();
            Span { past: part.past, len: part.tokens.len(), pages }
        });
        self.program.run(&Step::new(tokens, spans.collect(), wanted)?)?;
        Ok(self.program.output().to_vec())
    }

    /// Logits a row.
    pub(super) fn n_vocab(&self) -> usize {
        self.n_vocab
    }
}
