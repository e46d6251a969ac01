//! A request's tokens and its part of the cache, and the rows that a step computes of it.

use backend::KV_BLOCK;

use crate::blocks::{BlockManager, Cache};
use crate::ids::RequestId;
use crate::prefix::{Prefix, Prefixes};
use crate::queue::Admission;

/// Consecutive rows of one request, whose tokens are those at their positions ([`Scheduler::rows`](super::Scheduler::rows)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: RequestId,
    /// The rows' positions and their part of the cache, as the step gets them.
    pub(crate) sequence: backend::Sequence,
    /// Number of output rows, at the end of the chunk.
    pub(crate) outputs: usize,
    /// Whether the chunk has the last token: its logits yield the next one.
    pub(crate) is_last: bool,
    /// Number of drafted tokens, which follow the last one.
    pub(crate) drafted: usize,
    /// The output row of the step before whose token its only row takes.
    pub(crate) ahead: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    /// Prompt and generated tokens; those that are not in the cache are to be computed. Drafted tokens follow them.
    pub(super) tokens: Vec<u32>,
    /// Number of drafted tokens. The last step has computed them, but the cache does not count them.
    pub(super) drafted: usize,
    /// Whether the last of `tokens` stands for one that the device has chosen, or will choose. A planned step computes its row, but
    /// the cache does not count it.
    pub(super) is_ahead: bool,
    /// Tokens of the prompt, or all tokens when it was preempted.
    pub(super) prompt: usize,
    pub(super) prefixes: Prefixes,
    /// Position of the first output row. The row of the last token always is one.
    pub(super) outputs_from: usize,
    pub(super) cache: Cache,
    /// Position whose state is stored for later requests; 0 for none.
    pub(super) checkpoint: usize,
    /// Rows in the step being planned.
    pub(super) rows: usize,
    /// Rows of other prompts while its own had to wait.
    pub(super) passed_rows: usize,
    /// Requests that started while it waited for blocks.
    pub(super) passed_by: usize,
    pub(super) admission: Admission,
}

impl Sequence {
    pub(super) fn remaining(&self) -> usize {
        self.tokens.len() - self.cache.positions
    }

    /// Output rows among the next `rows`.
    pub(super) fn outputs(&self, rows: usize) -> usize {
        let end = self.cache.positions + rows;
        let asked_for = end.saturating_sub(self.outputs_from.max(self.cache.positions));
        asked_for.max(usize::from(end == self.tokens.len()))
    }

    /// Tokens that may be reused from a cache: at least one must be computed, and so must all output rows.
    pub(super) fn reusable(&self) -> usize {
        self.outputs_from.min(self.tokens.len() - 1)
    }

    /// Blocks and states of its prompt that it will publish.
    pub(super) fn filling(&self, has_states: bool) -> impl Iterator<Item = Prefix> {
        let blocks = if !has_states {
            self.cache.positions / KV_BLOCK + 1..self.prompt / KV_BLOCK + 1
        } else if self.cache.positions < self.checkpoint {
            // Blocks are of no use without a state.
            self.checkpoint / KV_BLOCK..self.checkpoint / KV_BLOCK + 1
        } else {
            0..0
        };
        blocks.map(|blocks| self.prefixes.after_blocks(blocks))
    }

    /// Appends the next token. The cache already has the row of one that was drafted, or of a step ahead; another one replaces the
    /// draft.
    pub(super) fn push(&mut self, token: u32) {
        if std::mem::take(&mut self.is_ahead) {
            self.tokens.pop();
            self.tokens.push(token);
            self.cache.positions += 1;
            return;
        }
        let generated = self.tokens.len() - self.drafted;
        if self.tokens.get(generated) == Some(&token) {
            self.drafted -= 1;
            self.cache.positions += 1;
        } else {
            self.drop_draft();
            self.tokens.push(token);
        }
    }

    pub(super) fn drop_draft(&mut self) {
        self.tokens.truncate(self.tokens.len() - self.drafted);
        self.drafted = 0;
    }

    /// Tokens that are known, with drafted ones.
    pub(super) fn known(&self) -> &[u32] {
        &self.tokens[..self.tokens.len() - usize::from(self.is_ahead)]
    }

    pub(super) fn take_chunk(&mut self, blocks: &mut BlockManager) -> Chunk {
        let (n_past, outputs) = (self.cache.positions, self.outputs(self.rows));
        let slots = blocks.slots(&mut self.cache, self.rows, self.checkpoint);
        let (len, tables) = (std::mem::take(&mut self.rows), self.cache.tables.clone());
        self.cache.positions += len;
        let is_last = self.remaining() == 0;
        let sequence = backend::Sequence { n_past, len, tables, slots, ..backend::Sequence::default() };
        Chunk { id: self.id, sequence, outputs, is_last, drafted: 0, ahead: None }
    }
}

impl Chunk {
    /// Appends the rows of a draft.
    pub(crate) fn append(&mut self, draft: Chunk) {
        self.sequence.len += draft.sequence.len;
        self.sequence.tables = draft.sequence.tables;
        self.outputs += draft.outputs;
        self.drafted += draft.drafted;
    }

    /// Position of the first output row.
    pub(crate) fn output_position(&self) -> usize {
        self.sequence.positions().end - self.outputs
    }

    /// Number of output rows, at the end, whose outputs yield the next tokens: those of the last token and of drafted ones.
    pub(crate) fn next_tokens(&self) -> usize {
        if self.is_last { 1 + self.drafted } else { 0 }
    }

    /// Whether it is the last token alone, or with a draft.
    pub(crate) fn is_decode(&self) -> bool {
        self.sequence.len == 1 + self.drafted && self.is_last
    }
}
