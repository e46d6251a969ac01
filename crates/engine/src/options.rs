//! How much an engine can do at once, and what that takes.

use std::num::NonZero;

use backend::{Bucket, KvFormat, KvLayout, PAGE};
use graph::Graph;

use crate::Error;
use crate::model::Model;
use crate::scheduler::{Limits, Scheduler};

/// The context an engine gets when none is asked for, unless the model was trained on less.
pub const DEFAULT_N_CTX: usize = 4096;

/// Rows a step, at most, when none are asked for.
pub const DEFAULT_N_BATCH: usize = 512;

/// The most requests that run at once.
const MAX_SEQUENCES: usize = 1024;

/// The most rows a step: more take memory and no less time.
const MAX_N_BATCH: usize = 65535;

/// The most pages: positions of all of them are counted in 32 bits.
const MAX_PAGES: usize = u32::MAX as usize / PAGE;

/// Bytes of logits that a step may hold when a request asks for those of many rows.
const LOGITS_BYTES: usize = 64 << 20;

/// Rows of a step, at most, in which every row may be an output row, for a vocabulary of `n_vocab`: all their logits are
/// held at once.
pub fn all_logits_rows(n_vocab: usize, n_batch: usize) -> usize {
    let fitting = LOGITS_BYTES / (size_of::<f32>() * n_vocab.max(1));
    fitting.clamp(1, n_batch.max(1))
}

/// How much an engine can do at once. Memory of the KV cache grows with `n_ctx * sequences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens a sequence, prompt and generated ones together. `None` is what the model was trained on,
    /// but at most [`DEFAULT_N_CTX`].
    pub n_ctx: Option<usize>,
    /// Requests that run at once, at most 1024; further ones wait.
    pub sequences: usize,
    /// Rows a step, at most: decoded tokens and chunks of prompts. No fewer than `sequences` are taken,
    /// and no more than `n_ctx * sequences` or 65535. More are hardly faster, and nothing is reported
    /// or cancelled before a step ends.
    pub n_batch: usize,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// Pages of the KV cache, [`PAGE`] positions each, in stores without a window. `None` is as many as all
    /// sequences need when full; with fewer, requests may have to wait and be computed again. Stores with a
    /// window have as many as the windows of all sequences need, and never more than these.
    pub pages: Option<usize>,
    /// Threads that sample tokens for the rows of a step, at most; as many as the system says are useful when none are
    /// given.
    pub sampling_threads: Option<NonZero<usize>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            n_ctx: None,
            sequences: 1,
            n_batch: DEFAULT_N_BATCH,
            kv_format: KvFormat::default(),
            pages: None,
            sampling_threads: None,
        }
    }
}

/// What an engine asks of a backend: see [`Options::layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What holds of requests.
    pub limits: Limits,
    /// Pages of each group of stores.
    pub kv_layout: KvLayout,
    /// The programs that every engine has: for decoding, and for prompts.
    pub buckets: [Bucket; 2],
    /// The program for requests that ask for the logits of many rows, compiled when the first comes, or by
    /// [`Engine::prepare_logits`](crate::Engine::prepare_logits).
    pub logits: Bucket,
}

impl Options {
    /// What an engine of these options asks of a backend that is to compute `model`.
    ///
    /// # Errors
    /// When an option makes no sense.
    pub fn layout(&self, model: &Model) -> Result<Layout, Error> {
        let graph = model.graph();
        let n_vocab = graph.value(graph.output()).cols;
        let limits = self.limits(model.n_ctx_train(), n_vocab)?;
        // The scheduler has the last word.
        let limits = Scheduler::new(limits, &[]).limits();
        let Limits { sequences, n_batch, logit_rows, .. } = limits;
        Ok(Layout {
            limits,
            kv_layout: kv_layout(graph, limits, self.kv_format),
            buckets: [sequences, n_batch].map(|rows| Bucket { rows, outputs: sequences }),
            logits: Bucket { rows: logit_rows, outputs: logit_rows },
        })
    }

    fn limits(&self, trained: usize, n_vocab: usize) -> Result<Limits, Error> {
        let refuse = |name, value, expected| Err(Error::Option { name, value, expected });
        let n_ctx = match self.n_ctx {
            None if trained < 2 => return Err(Error::TrainedContext { trained }),
            None => trained.min(DEFAULT_N_CTX),
            Some(n_ctx) if n_ctx < 2 => {
                return refuse("n_ctx", n_ctx, "at least 2 tokens, one of the prompt and one generated");
            }
            Some(n_ctx) => n_ctx,
        };
        let sequences = self.sequences;
        if !(1..=MAX_SEQUENCES).contains(&sequences) {
            return refuse("sequences", sequences, "a number from 1 to 1024");
        }
        if self.n_batch == 0 {
            return refuse("n_batch", 0, "at least 1");
        }
        let n_batch = self.n_batch.min(n_ctx.saturating_mul(sequences)).min(MAX_N_BATCH);
        let pages = match self.pages {
            None => n_ctx.div_ceil(PAGE).saturating_mul(sequences),
            Some(0) => return refuse("pages", 0, "at least 1"),
            Some(pages) => pages,
        };
        if pages > MAX_PAGES {
            return match self.pages {
                None => refuse("n_ctx", n_ctx, "less: n_ctx times sequences must stay below 2^32"),
                Some(_) => refuse("pages", pages, "less than 2^27, as positions must stay below 2^32"),
            };
        }
        if n_ctx > trained {
            tracing::warn!(n_ctx, trained, "the context is longer than the model was trained on");
        }
        let n_batch = n_batch.max(sequences);
        Ok(Limits { n_ctx, sequences, n_batch, pages, logit_rows: all_logits_rows(n_vocab, n_batch) })
    }
}

/// Pages of each group: those of the limits, and in groups with a window no more than windows need.
fn kv_layout(graph: &Graph, limits: Limits, format: KvFormat) -> KvLayout {
    let Limits { n_ctx, sequences, n_batch, pages, .. } = limits;
    let needed = KvLayout::new(graph, n_ctx, sequences, n_batch, format);
    let of_group = |(group, needed): (&graph::Group, usize)| match group.window {
        None => pages,
        Some(_) => needed.min(pages),
    };
    KvLayout { pages: graph.groups().iter().zip(needed.pages).map(of_group).collect(), format }
}
