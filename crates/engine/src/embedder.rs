//! Embeddings of texts, and the scores of rerankers.

use std::sync::Arc;

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Row, Sequence, Step};
use models::Pooling;
use runner::ModelRunner;

use crate::{DEFAULT_N_CTX, Error, Model};

/// Maximum texts per step.
const MAX_SEQUENCES: usize = 64;

/// How an embedding is scaled; the numbers are those of llama.cpp's `--embd-normalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// Not at all (-1).
    None,
    /// The largest magnitude is 32760 (0).
    Int16,
    /// The `p`-norm is 1: taxicab (1), Euclidean (2), or another.
    P(u32),
}

impl Normalization {
    /// The kind with this number.
    pub fn from_number(number: i32) -> Option<Normalization> {
        match number {
            -1 => Some(Normalization::None),
            0 => Some(Normalization::Int16),
            p => u32::try_from(p).ok().map(Normalization::P),
        }
    }

    /// Scales `x`; zeros stay zeros.
    pub fn apply(self, x: &mut [f32]) {
        let magnitudes = x.iter().map(|&x| f64::from(x).abs());
        let norm = match self {
            Normalization::None => return,
            Normalization::Int16 => magnitudes.fold(0.0, f64::max) / 32760.0,
            Normalization::P(2) => magnitudes.map(|x| x * x).sum::<f64>().sqrt(),
            Normalization::P(p) => magnitudes.map(|x| x.powf(p.into())).sum::<f64>().powf(1.0 / f64::from(p)),
        };
        if norm > 0.0 {
            x.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        }
    }
}

/// Options of an [`Embedder`].
#[derive(Clone, Copy, Debug)]
pub struct EmbedderOptions {
    /// Maximum tokens per text. `None` is the training context, but at most [`DEFAULT_N_CTX`].
    pub n_ctx: Option<usize>,
    /// Rows per step: short texts share a step. A longer text has a step of its own.
    pub n_batch: usize,
}

impl EmbedderOptions {
    /// The memory layout and the first program for `model`.
    pub fn layout(&self, model: &Model) -> (KvLayout, Bucket) {
        let (trained, n_batch) = (model.config().context_length.max(1), self.n_batch.max(1));
        let n_ctx = self.n_ctx.unwrap_or(DEFAULT_N_CTX).clamp(1, trained);
        let blocks = n_batch.max(n_ctx).div_ceil(KV_BLOCK) + MAX_SEQUENCES;
        let blocks = vec![blocks; model.graph().groups().len()];
        let slots = if model.graph().state_values() > 0 { 1 } else { 0 };
        (KvLayout { n_ctx, blocks, slots, format: KvFormat::F32 }, bucket(model, n_batch))
    }
}

/// The program for steps of `rows` rows.
fn bucket(model: &Model, rows: usize) -> Bucket {
    let outputs = if is_pooled(model) { rows.min(MAX_SEQUENCES) } else { rows };
    Bucket { rows, outputs }
}

fn is_pooled(model: &Model) -> bool {
    model.config().pooling != Some(Pooling::None)
}

/// A model that computes embeddings, on a backend.
///
/// All tokens of a text are in one step, since rows may see later ones.
pub struct Embedder {
    model: Arc<Model>,
    runner: ModelRunner,
    n_ctx: usize,
    n_batch: usize,
    /// Maximum texts per step: one of a model with recurrent state, of which there is one.
    n_texts: usize,
}

impl Embedder {
    /// Loads `model`, opened by [`Model::embedding`], on `backend`. Fails if it computes logits, or the backend cannot
    /// load it.
    pub fn new(
        model: Arc<Model>,
        backend: Box<dyn Backend>,
        options: EmbedderOptions,
    ) -> Result<Embedder, Error> {
        if model.config().pooling.is_none() {
            return Err(Error::ComputesLogits);
        }
        let (kv_layout, bucket) = options.layout(&model);
        let mut runner = ModelRunner::new(model.file(), model.graph(), backend, &kv_layout, &[bucket])?;
        runner.prepare(model.file())?;
        model.file().check_intact()?;
        let n_texts = if kv_layout.slots > 0 { 1 } else { MAX_SEQUENCES };
        Ok(Embedder { model, runner, n_ctx: kv_layout.n_ctx, n_batch: bucket.rows, n_texts })
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The loaded model: its backend and memory use.
    pub fn runner(&self) -> &ModelRunner {
        &self.runner
    }

    /// Maximum tokens per text.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// Values of an embedding, or scores of a classifier.
    pub fn width(&self) -> usize {
        let graph = self.model.graph();
        graph.value(graph.output()).cols
    }

    /// The embedding of each text, given as tokens: [`Embedder::width`] values, or with [`Pooling::None`] as many for
    /// each token. Fails if a text has no tokens, more than the context, or tokens outside the vocabulary, or the backend
    /// fails.
    pub fn embed(&mut self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, Error> {
        let n_ctx = self.n_ctx;
        for (text, tokens) in texts.iter().enumerate() {
            if tokens.is_empty() || tokens.len() > n_ctx {
                return Err(Error::TextLength { text, tokens: tokens.len(), n_ctx });
            }
        }
        let (mut embeddings, mut rest) = (Vec::with_capacity(texts.len()), texts);
        while !rest.is_empty() {
            let mut rows = 0;
            let fits = |text: &&Vec<u32>| {
                rows += text.len();
                rows <= self.n_batch
            };
            let count = rest.iter().take(self.n_texts).take_while(fits).count().max(1);
            let (step, others) = rest.split_at(count);
            embeddings.extend(self.step(step)?);
            rest = others;
        }
        Ok(embeddings)
    }

    fn step(&mut self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, Error> {
        let (mut rows, mut sequences, mut block) = (Vec::new(), Vec::new(), 0);
        let (groups, is_pooled) = (self.model.graph().groups().len(), is_pooled(&self.model));
        for text in texts {
            let blocks = block..block + text.len().div_ceil(KV_BLOCK) as u32;
            block = blocks.end;
            sequences.push(Sequence::uniform(0, text.len(), groups, blocks));
            let end = text.len() as u32;
            rows.extend(Row::logits(text.iter().copied(), if is_pooled { end - 1..end } else { 0..end }));
        }
        // A text longer than the batch needs a larger program, whose size is rounded up so that somewhat longer texts can use it.
        if rows.len() > self.n_batch {
            self.runner.compile(bucket(&self.model, rows.len().next_power_of_two().min(self.n_ctx)))?;
        }
        let step = Step::new(rows, sequences)?;
        let width = self.width();
        let mut values = self.runner.run(&step)?.values();
        let text_rows = |text: &Vec<u32>| {
            let (own, others) = values.split_at(if is_pooled { width } else { text.len() * width });
            values = others;
            own.to_vec()
        };
        Ok(texts.iter().map(text_rows).collect())
    }
}

impl std::fmt::Debug for Embedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedder").field("model", &self.model).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand.
    #[test]
    fn norms_are_one() {
        let normalized = |number: i32| {
            let mut x = [3.0f32, -4.0];
            Normalization::from_number(number).expect("a kind").apply(&mut x);
            x
        };
        assert_eq!(normalized(-1), [3.0, -4.0]);
        assert_eq!(normalized(0), [24570.0, -32760.0]);
        assert_eq!(normalized(1), [3.0 / 7.0, -4.0 / 7.0]);
        assert_eq!(normalized(2), [0.6, -0.8]);
        let third = 91f64.cbrt();
        assert_eq!(normalized(3), [(3.0 / third) as f32, (-4.0 / third) as f32]);
        assert_eq!(Normalization::from_number(-2), None);
        let mut zeros = [0.0; 3];
        Normalization::P(2).apply(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
