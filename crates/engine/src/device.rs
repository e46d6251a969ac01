//! A model on a backend: weights, KV cache and the programs compiled from its graph.

use backend::{Backend, Bucket, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use graph::Graph;

use crate::Error;
use crate::model::Model;
use crate::scheduler::{Chunk, Limits};

/// Bytes of logits that a step of [`Device::all_logits`] may hold.
const LOGITS_BYTES: usize = 64 << 20;

/// A backend that holds one model.
pub(crate) struct Device {
    backend: Box<dyn Backend>,
    limits: Limits,
    n_vocab: usize,
    /// One row for each sequence.
    decode: Box<dyn Program>,
    /// Up to `n_batch` rows.
    prefill: Box<dyn Program>,
    /// Logits of every row; compiled when first asked for.
    all_logits: Option<Box<dyn Program>>,
}

impl Device {
    /// Loads the weights of `model`, makes the KV cache and compiles.
    pub(crate) fn new(
        model: &Model,
        mut backend: Box<dyn Backend>,
        limits: Limits,
        format: KvFormat,
    ) -> Result<Device, Error> {
        let graph = model.graph();
        for (_, weight) in graph.weights() {
            if let Some(tensor) = model.file().tensor(&weight.name) {
                let (rows, cols, bytes) = (tensor.rows(), tensor.row_len(), tensor.data.clone());
                backend.load(&weight.name, Weight { format: tensor.format, rows, cols, bytes })?;
            }
        }
        if let Some(layout) = KvLayout::of(graph, limits.pages, format) {
            backend.allocate_kv(layout)?;
        }
        let wanted = limits.sequences;
        let decode = backend.compile(graph, Bucket { rows: wanted, wanted }, Taps::None)?;
        let prefill = backend.compile(graph, Bucket { rows: limits.n_batch, wanted }, Taps::None)?;
        let n_vocab = graph.value(graph.output()).cols;
        Ok(Device { backend, limits, n_vocab, decode, prefill, all_logits: None })
    }

    /// What it runs on.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Runs a plan's chunks. Returns a row of logits for each chunk that wants one, in order.
    pub(crate) fn run(&mut self, chunks: &[Chunk]) -> Result<std::slice::ChunksExact<'_, f32>, Error> {
        let mut tokens = Vec::new();
        let mut spans = Vec::new();
        let mut wanted = Vec::new();
        for chunk in chunks {
            tokens.extend_from_slice(&chunk.tokens);
            spans.push(Span { past: chunk.past, len: chunk.tokens.len(), pages: chunk.pages.clone() });
            if chunk.logits {
                wanted.push(tokens.len() as u32 - 1);
            }
        }
        let program =
            if tokens.len() <= self.limits.sequences { &mut self.decode } else { &mut self.prefill };
        program.run(&Step::new(tokens, spans, wanted)?)?;
        Ok(program.output().chunks_exact(self.n_vocab))
    }

    /// Runs `tokens` as positions from `past` on of a sequence in `pages`; returns the logits of all.
    pub(crate) fn all_logits(
        &mut self,
        graph: &Graph,
        tokens: &[u32],
        past: usize,
        pages: &[u32],
    ) -> Result<std::slice::ChunksExact<'_, f32>, Error> {
        let rows = self.all_logits_rows();
        let program = match &mut self.all_logits {
            Some(program) => program,
            none => none.insert(self.backend.compile(graph, Bucket { rows, wanted: rows }, Taps::None)?),
        };
        let span = Span { past, len: tokens.len(), pages: pages.to_vec() };
        program.run(&Step::new(tokens.to_vec(), vec![span], (0..tokens.len() as u32).collect())?)?;
        Ok(program.output().chunks_exact(self.n_vocab))
    }

    /// Tokens that [`Device::all_logits`] takes at once.
    pub(crate) fn all_logits_rows(&self) -> usize {
        let fitting = LOGITS_BYTES / (size_of::<f32>() * self.n_vocab.max(1));
        fitting.clamp(1, self.limits.n_batch)
    }
}
