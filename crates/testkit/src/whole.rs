//! A whole model on a backend: logits of every position of a few sequences, and their distances.

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use gguf::Gguf;
use models::Model;

/// A model file on a backend, with room for one sequence.
pub struct Whole {
    program: Box<dyn Program>,
    /// Tokens of the vocabulary.
    pub n_vocab: usize,
}

impl Whole {
    /// Loads `file` onto `backend`, for sequences of up to `positions` and steps of up to `rows`.
    ///
    /// # Panics
    /// When anything is wrong with it: test models are good.
    pub fn new(
        file: Vec<u8>,
        mut backend: Box<dyn Backend>,
        kv: KvFormat,
        positions: usize,
        rows: usize,
    ) -> Whole {
        let file = Gguf::from_bytes(file.into()).expect("a good file");
        let Model { config, graph } = Model::new(&file).expect("a good model");
        for (_, weight) in graph.weights() {
            let tensor = file.tensor(&weight.name).expect("the model has checked its tensors");
            let bytes = tensor.data.clone();
            let weight_bytes = Weight { format: tensor.format, rows: weight.rows, cols: weight.cols, bytes };
            backend.load(&weight.name, weight_bytes).expect("a good weight");
        }
        let kv = KvLayout {
            layers: graph.layers(),
            kv_heads: config.head_count_kv,
            k_dim: config.key_length,
            v_dim: config.value_length,
            pages: positions.div_ceil(PAGE),
            format: kv,
        };
        backend.allocate_kv(kv).expect("room for a small store");
        let program =
            backend.compile(&graph, Bucket { rows, wanted: rows }, Taps::None).expect("a good graph");
        Whole { program, n_vocab: config.vocab_size }
    }

    /// The logits of every position of `tokens`, taken `chunk` at a time: `[tokens.len(), n_vocab]`.
    ///
    /// # Panics
    /// When the sequence does not fit.
    pub fn logits(&mut self, tokens: &[u32], chunk: usize) -> Vec<f32> {
        let pages: Vec<u32> = (0..tokens.len().div_ceil(PAGE) as u32).collect();
        let mut logits = Vec::with_capacity(tokens.len() * self.n_vocab);
        for (i, part) in tokens.chunks(chunk).enumerate() {
            let span = Span { past: i * chunk, len: part.len(), pages: pages.clone() };
            let step = Step::new(part.to_vec(), vec![span], (0..part.len() as u32).collect());
            self.program.run(&step.expect("a good step")).expect("a good step");
            logits.extend_from_slice(self.program.output());
        }
        logits
    }
}

/// Kullback-Leibler divergence of the distributions that two rows of logits stand for, in nats:
/// `sum p ln(p / q)`, `p` of the reference.
pub fn kl(reference: &[f32], found: &[f32]) -> f64 {
    let log_probabilities = |logits: &[f32]| -> Vec<f64> {
        let max = logits.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
        let total: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
        logits.iter().map(|&x| f64::from(x) - max - total.ln()).collect()
    };
    let (p, q) = (log_probabilities(reference), log_probabilities(found));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// The token with the largest logit; the lowest of equals.
pub fn top1(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best });
    best.expect("there are logits") as u32
}
