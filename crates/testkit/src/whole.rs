//! Whole models on a backend: logits of every position of a few sequences, and their distances. Panics on errors.

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Output, Row, Sequence, Step};
use gguf::Gguf;
use models::Model;
use runner::ModelRunner;

use crate::conformance::random::nmse;
use crate::fixtures::{self, Fixture};
use crate::goldens;

/// A loaded model, with a KV cache for one sequence.
pub struct Whole {
    runner: ModelRunner,
    /// Vocabulary size.
    pub n_vocab: usize,
}

impl Whole {
    /// Loads `file` on `backend`, for sequences of up to `positions` positions and steps of up to `rows` rows.
    pub fn new(
        file: Vec<u8>,
        backend: Box<dyn Backend>,
        kv: KvFormat,
        positions: usize,
        rows: usize,
    ) -> Whole {
        let file = Gguf::from_bytes(file.into()).expect("a good file");
        let Model { graph, .. } = Model::new(&file).expect("a good model");
        let blocks = positions.div_ceil(KV_BLOCK);
        let kv_layout = KvLayout { n_ctx: positions, ..KvLayout::uniform(&graph, blocks, kv) };
        let runner = ModelRunner::new(&file, &graph, backend, &kv_layout, &[Bucket { rows, outputs: rows }]);
        Whole { runner: runner.expect("a good graph"), n_vocab: graph.value(graph.output()).cols }
    }

    /// The logits of every position of `tokens`, with prefill in steps of `chunk`: `[tokens.len(), n_vocab]`.
    pub fn logits(&mut self, tokens: &[u32], chunk: usize) -> Vec<f32> {
        let (blocks, groups) = (tokens.len().div_ceil(KV_BLOCK) as u32, self.runner.graph().groups().len());
        let mut logits = Vec::with_capacity(tokens.len() * self.n_vocab);
        for (i, part) in tokens.chunks(chunk).enumerate() {
            let sequence = Sequence::uniform(i * chunk, part.len(), groups, 0..blocks);
            let step = Step::new(Row::all(part.iter().copied(), &Output::Logits), vec![sequence]);
            let outputs = self.runner.run(&step.expect("a good step")).expect("a good step");
            logits.extend_from_slice(outputs.values());
        }
        logits
    }

    /// The two [`goldens::columns`] of each position's logits, with prefill in steps of `rows`.
    pub fn columns(&mut self, sequence: usize, tokens: &[u32], rows: usize) -> Vec<f32> {
        let logits = self.logits(tokens, rows);
        let columns = |(position, row): (usize, &[f32])| {
            goldens::columns(sequence, position, self.n_vocab).map(|column| row[column])
        };
        logits.chunks_exact(self.n_vocab).enumerate().flat_map(columns).collect()
    }
}

/// The NMSE of a model of [`fixtures::families`] on a backend against exact logits over 300 tokens, with prefill in steps of `rows`.
pub fn family_error((name, spec): &Fixture, backend: Box<dyn Backend>, kv: KvFormat, rows: usize) -> f64 {
    let tokens = goldens::long_tokens();
    let mut model = Whole::new(spec.file(), backend, kv, tokens.len(), rows);
    nmse(goldens::long_exact_logits(name).as_flattened(), &model.columns(0, &tokens, rows))
}

/// The same for all families, with their names.
pub fn family_errors(make: impl Fn() -> Box<dyn Backend>, kv: KvFormat, rows: usize) -> Vec<(String, f64)> {
    let error = |model: Fixture| (model.0.clone(), family_error(&model, make(), kv, rows));
    fixtures::families().into_iter().map(error).collect()
}

/// Kullback-Leibler divergence in nats of the distributions given by two rows of logits:
/// `sum p ln(p / q)`, with `p` from the reference.
pub fn kl(reference: &[f32], found: &[f32]) -> f64 {
    let log_probabilities = |logits: &[f32]| -> Vec<f64> {
        let max = logits.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
        let total: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
        logits.iter().map(|&x| f64::from(x) - max - total.ln()).collect()
    };
    let (p, q) = (log_probabilities(reference), log_probabilities(found));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// The token with the largest logit; the lowest id among equals.
pub fn top1(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best });
    best.expect("at least one logit") as u32
}
