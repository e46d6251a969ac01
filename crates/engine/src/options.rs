//! Engine options, and the programs and memory that follow from them.

use std::num::NonZero;
use std::time::Duration;

use backend::{Bucket, KV_BLOCK, KvFormat, KvLayout};
use graph::Graph;

use crate::Error;
use crate::model::Model;
use crate::scheduler::{Limits, Scheduler};
use crate::speculation::options::Speculation;

/// Maximum context size by default.
pub const DEFAULT_N_CTX: usize = 4096;

/// Default number of rows per step.
pub const DEFAULT_N_BATCH: usize = 512;

const MAX_SEQUENCES: usize = 1024;

/// Maximum number of rows per step: more only cost memory.
const MAX_N_BATCH: usize = 65535;

/// Maximum number of blocks: positions are 32-bit.
const MAX_BLOCKS: usize = u32::MAX as usize / KV_BLOCK;

/// Memory for logits in a step that returns those of many rows, in bytes.
const LOGITS_BYTES: usize = 64 << 20;

/// Maximum rows of a step in which every row is an output row: all their logits are in memory at once.
pub fn all_logits_rows(n_vocab: usize, n_batch: usize) -> usize {
    (LOGITS_BYTES / (size_of::<f32>() * n_vocab.max(1))).clamp(1, n_batch.max(1))
}

/// Engine options. The size of the KV cache grows with `n_ctx * sequences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Context size: tokens per sequence, prompt and generated. `None` is the training context, but at most
    /// [`DEFAULT_N_CTX`].
    pub n_ctx: Option<usize>,
    /// Concurrent requests, up to 1024; others wait.
    pub sequences: usize,
    /// Rows per step: decode tokens and prompt chunks. Clamped to at least `sequences` and at most `n_ctx *
    /// sequences` or 65535. Larger steps are hardly faster, and events and cancellation wait for the end of a step.
    pub n_batch: usize,
    /// Format of keys and values.
    pub kv_format: KvFormat,
    /// Blocks of the KV cache, [`KV_BLOCK`] positions each, in stores without a window. `None` reserves enough for all
    /// sequences at full length; with fewer, requests may have to wait or be recomputed. Stores with a window get
    /// what the windows of all sequences need, but no more than this.
    pub blocks: Option<usize>,
    /// Target time of a step while a request decodes: it bounds the step's prefill rows. `None` does not bound them:
    /// prefill is faster, and running answers pause meanwhile.
    pub step_target: Option<Duration>,
    /// Threads for sampling; `None` is the number that the system reports.
    pub sampling_threads: Option<NonZero<usize>>,
    /// Speculative decoding; `None` is none. Models with recurrent layers cannot go back by some tokens, and do without, with
    /// a warning.
    pub speculation: Option<Speculation>,
    /// The key of the hashes by which cached prefixes are found; `None` is a random one. With the same key they are the same in
    /// every process. It must stay secret: who knows it can make prompts that find the cache of others.
    pub prefix_key: Option<PrefixKey>,
}

/// A secret key of 16 random bytes, which is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrefixKey(pub [u8; 16]);

impl std::fmt::Debug for PrefixKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrefixKey(…)")
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            n_ctx: None,
            sequences: 1,
            n_batch: DEFAULT_N_BATCH,
            kv_format: KvFormat::default(),
            blocks: None,
            step_target: None,
            sampling_threads: None,
            speculation: None,
            prefix_key: None,
        }
    }
}

/// The limits, memory layout and programs of an engine; see [`Options::layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Limits of requests.
    pub limits: Limits,
    /// Blocks per group of stores.
    pub kv_layout: KvLayout,
    /// Programs that are always compiled: for decode, for drafts if it needs another one, and for prefill.
    pub buckets: Vec<Bucket>,
    /// The program for requests that ask for the logits of many rows, compiled on first use.
    pub logits: Bucket,
}

impl Options {
    /// The layout for `model` with these options. Fails if an option is invalid.
    pub fn layout(&self, model: &Model) -> Result<Layout, Error> {
        let graph = model.graph();
        let n_vocab = graph.value(graph.output()).cols;
        let limits = self.limits(model.config().context_length, n_vocab)?;
        // The scheduler may clamp them further.
        let limits = Scheduler::new(limits, &[], 0, [0; 16]).limits();
        let Limits { sequences, n_batch, logit_rows, .. } = limits;
        let mut buckets = vec![Bucket { rows: sequences, outputs: sequences }];
        if let Some(speculation) = self.speculation_for(graph) {
            speculation.check()?;
            let rows = speculation.rows(n_batch);
            buckets.extend((rows > sequences).then_some(Bucket { rows, outputs: rows }));
        }
        buckets.push(Bucket { rows: n_batch, outputs: sequences });
        Ok(Layout {
            limits,
            kv_layout: kv_layout(graph, limits, self.kv_format),
            buckets,
            logits: Bucket { rows: logit_rows, outputs: logit_rows },
        })
    }

    /// The options of a draft model for `target`, an engine with these options: as many requests of the same length. Fails if
    /// an option is invalid.
    pub fn for_draft(&self, target: &Model) -> Result<Options, Error> {
        let Limits { n_ctx, sequences, n_batch, blocks, .. } = self.layout(target)?.limits;
        let n_ctx = Some(n_ctx);
        Ok(Options { n_ctx, sequences, n_batch, blocks: Some(blocks), speculation: None, ..*self })
    }

    /// How to speculate with a model of this graph, if it can. The state of recurrent layers is known after the last row of
    /// a step only, so that the rows of tokens that were not accepted cannot be undone.
    pub(crate) fn speculation_for(&self, graph: &Graph) -> Option<Speculation> {
        self.speculation.filter(|_| graph.state_values() == 0)
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
        let blocks = match self.blocks {
            None => n_ctx.div_ceil(KV_BLOCK).saturating_mul(sequences),
            Some(0) => return refuse("blocks", 0, "at least 1"),
            Some(blocks) => blocks,
        };
        if blocks > MAX_BLOCKS {
            return match self.blocks {
                None => refuse("n_ctx", n_ctx, "less: n_ctx times sequences must stay below 2^32"),
                Some(_) => refuse("blocks", blocks, "less than 2^27, as positions must stay below 2^32"),
            };
        }
        let n_batch = n_batch.max(sequences);
        Ok(Limits { n_ctx, sequences, n_batch, blocks, logit_rows: all_logits_rows(n_vocab, n_batch) })
    }
}

/// Blocks per group: as the limits say, but for a window no more than it needs.
fn kv_layout(graph: &Graph, limits: Limits, format: KvFormat) -> KvLayout {
    let Limits { n_ctx, sequences, n_batch, blocks, .. } = limits;
    let needed = KvLayout::new(graph, n_ctx, sequences, n_batch, format);
    let group_blocks = |(group, needed): (&graph::Group, usize)| match group.mask.span() {
        None => blocks,
        Some(_) => needed.min(blocks),
    };
    let slots = needed.slots;
    KvLayout {
        n_ctx,
        blocks: graph.groups().iter().zip(needed.blocks).map(group_blocks).collect(),
        slots,
        format,
    }
}
