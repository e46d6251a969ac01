//! The scheduler: continuous batching over a paged KV cache.
//!
//! [`Scheduler::step`] takes the events since the last step and returns a [`Plan`]. It is deterministic: no clock,
//! I/O or randomness.
//!
//! Rules, in order of submission:
//! - Decode rows come first, then chunks of prompts (chunked prefill), up to `n_batch` rows in total. While a request decodes,
//!   the caller limits the prefill rows.
//! - The prompt with the fewest remaining tokens comes first, but each is passed by at most as many rows as it has left.
//! - A step has at most `sequences` output rows. If a request asks for the logits of many rows, it has at most
//!   `logit_rows` rows instead, all of which may be output rows.
//! - A request is admitted when fewer than `sequences` are running and blocks are available for all its tokens, or in
//!   groups with a window for its next rows. While one waits for blocks, a limited number of later ones may pass it. The
//!   [queue](crate::queue) has the order.
//! - A request starts with the longest prefix of its prompt that is cached. If a running request is about to fill the next
//!   block of that prefix, it waits for that, and blocks no others.
//! - Running requests release blocks that drop out of their windows.
//! - While a step is computed in which all requests decode, [`Scheduler::follow`] plans the next one, with 0 for the tokens that are
//!   not known yet.
//! - Drafted tokens are added to a plan ([`Scheduler::draft`]), as far as blocks are available. Each becomes a token of the
//!   request, and its row part of the cache, when the next events repeat it; the rows of the others are written again.
//! - When a group has too few blocks for a running request, cached blocks without a user are dropped, least recently used
//!   first, then the latest running request is preempted: its blocks are released, and what is no longer cached is
//!   recomputed later. The oldest running request thus makes progress in every step, and every request ends.

mod ahead;
mod sequence;

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;

use backend::{Input, KV_BLOCK, Output, Row};
use graph::Group;

use crate::blocks::{BlockManager, Cache, Demand};
use crate::prefix::{Prefix, Prefixes};
use crate::queue::{Admission, Queue};
use crate::request::Load;
use crate::slots::checkpoint_position;

pub(crate) use crate::ids::RequestId;
pub(crate) use sequence::Chunk;
use sequence::Sequence;

/// Limits of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens per sequence, prompt and generated.
    pub n_ctx: usize,
    /// Concurrent requests.
    pub sequences: usize,
    /// Rows per step; at least `sequences`.
    pub n_batch: usize,
    /// Blocks of the KV cache in each group of stores without a window; groups with one have no more.
    pub blocks: usize,
    /// Rows of a step with more output rows than `sequences`; at least 1.
    pub logit_rows: usize,
}

/// An event since the last step. Events for ended requests are ignored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// A new request with a new id. Its prompt was checked with [`Scheduler::admits`]. `outputs_from` is the position of
    /// the prompt's first output row; by default only the last row is one. It shares the cache with requests of the same
    /// `salt` and `adapter`.
    Submit {
        id: RequestId,
        tokens: Vec<u32>,
        salt: Vec<u8>,
        adapter: Option<u64>,
        admission: Admission,
        outputs_from: Option<usize>,
    },
    /// The next token of a request. One that waits has it from elsewhere: it is the same text in another model.
    Token { id: RequestId, token: u32 },
    /// The last planned step did not run: the cache still has `n_past` tokens of the request.
    Rewind { id: RequestId, n_past: usize },
    /// A request ended. `intact` is false after a failed step: what it wrote is not cached.
    End { id: RequestId, intact: bool },
    /// Drop everything cached that no request uses.
    Clear,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Decode rows first, then prompts. Empty if there is nothing to do.
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) admitted: Vec<Admitted>,
    /// Requests that lost their blocks and wait again.
    pub(crate) preempted: Vec<RequestId>,
    /// Most prefill rows while a request decodes.
    pub(crate) prompt_rows: usize,
}

/// Numbers of requests that wait for the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    /// Requests that decode.
    pub(crate) decoding: usize,
    /// Requests whose prompts wait or are in the middle.
    pub(crate) prompts: usize,
}

/// A request that starts, or restarts after preemption, with `reused` prompt tokens from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) id: RequestId,
    pub(crate) reused: usize,
    pub(crate) is_resumed: bool,
}

/// Why a prompt can never be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Refusal {
    /// No tokens to compute logits from.
    #[error("the prompt has no tokens; at least one is needed, such as the model's BOS token")]
    Empty,
    /// No room for a generated token.
    #[error(
        "the prompt has {tokens} tokens, which leaves no room for another in a context of {n_ctx}; \
         shorten the prompt or increase the context (`n_ctx`)"
    )]
    TooLong { tokens: usize, n_ctx: usize },
}

/// Requests that may start while one waits for blocks.
const MAX_PASSED_BY: usize = 16;

/// Remaining capacity of the step being planned.
#[derive(Clone, Copy, Debug)]
struct Budget {
    limits: Limits,
    rows: usize,
    /// Rows already assigned.
    given: usize,
    /// Output rows left, beyond one per running request.
    outputs: usize,
    /// Whether the step is limited to `logit_rows`, so that all rows may be output rows.
    is_all_outputs: bool,
}

impl Budget {
    /// For `rows` rows of prompts besides those of `decoding` requests, while `running` requests run.
    fn new(limits: Limits, running: usize, decoding: usize, rows: usize) -> Budget {
        let outputs = limits.sequences.saturating_sub(running);
        let rows = rows.min(limits.n_batch - decoding);
        Budget { limits, rows, given: decoding, outputs, is_all_outputs: false }
    }

    /// Assigns as many remaining rows of a running request as fit.
    fn give(&mut self, request: &mut Sequence) {
        let extra = |rows| request.outputs(rows).saturating_sub(1);
        let mut rows = request.remaining().min(self.rows);
        if !self.is_all_outputs && extra(rows) > self.outputs {
            let before = request.outputs_from.saturating_sub(request.cache.positions);
            let few = rows.min(before + 1 + self.outputs);
            let all = rows.min(self.limits.logit_rows.saturating_sub(self.given));
            self.is_all_outputs = all > few;
            if self.is_all_outputs {
                self.rows = self.rows.min(self.limits.logit_rows - self.given);
            }
            rows = all.max(few);
        }
        if !self.is_all_outputs {
            self.outputs -= extra(rows);
        }
        request.rows = rows;
        self.rows -= rows;
        self.given += rows;
    }
}

/// Plans each step; see the [module](self).
#[derive(Debug)]
pub(crate) struct Scheduler {
    limits: Limits,
    hash_key: [u8; 16],
    blocks: BlockManager,
    running: BTreeMap<RequestId, Sequence>,
    waiting: BTreeMap<RequestId, Sequence>,
    queue: Queue,
}

impl Scheduler {
    /// A scheduler over these groups of stores, with the blocks of each, and this number of slots. Conflicting limits are adjusted: `n_ctx` to
    /// at most the positions of all blocks, `n_batch` to at least `sequences`.
    ///
    /// A group without a window has `limits.blocks`; one with a window has enough for a sequence of `n_ctx`. `hash_key` is
    /// secret where users can choose tokens and must not see each other's.
    pub(crate) fn new(
        limits: Limits,
        groups: &[(Group, usize)],
        slots: usize,
        hash_key: [u8; 16],
    ) -> Scheduler {
        let sequences = limits.sequences.max(1);
        let n_batch = limits.n_batch.max(sequences);
        let n_ctx = limits.n_ctx.min(limits.blocks.saturating_mul(KV_BLOCK));
        let logit_rows = limits.logit_rows.clamp(1, n_batch);
        Scheduler {
            limits: Limits { n_ctx, sequences, n_batch, logit_rows, ..limits },
            hash_key,
            blocks: BlockManager::new(groups, slots),
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            queue: Queue::default(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Checks whether a prompt of `tokens` plus `generated` tokens fits the context. Fails if the prompt is empty or
    /// does not fit.
    pub(crate) fn admits(&self, tokens: usize, generated: usize) -> Result<(), Refusal> {
        let n_ctx = self.limits.n_ctx;
        match tokens {
            0 => Err(Refusal::Empty),
            _ if tokens.saturating_add(generated) <= n_ctx => Ok(()),
            _ => Err(Refusal::TooLong { tokens, n_ctx }),
        }
    }

    /// Prompt and generated tokens of a request that has not ended, and those drafted for the last plan. Tokens of events that were not
    /// applied yet are missing.
    pub(crate) fn tokens(&self, id: RequestId) -> Option<&[u32]> {
        self.request(id).map(Sequence::known)
    }

    /// The rows of a planned chunk. `output` is called with the position of each output row.
    pub(crate) fn rows(
        &self,
        chunk: &Chunk,
        mut output: impl FnMut(usize) -> Output,
    ) -> impl Iterator<Item = Row> {
        let tokens = self.tokens(chunk.id).unwrap_or_default();
        let first = chunk.output_position();
        chunk.sequence.positions().map(move |position| Row {
            input: chunk.ahead.map_or_else(|| Input::Token(tokens[position]), Input::Ahead),
            output: if position < first { Output::None } else { output(position) },
        })
    }

    /// Tokens of a request that are in the cache, those of the last plan included.
    pub(crate) fn cached(&self, id: RequestId) -> usize {
        self.request(id).map_or(0, |request| request.cache.positions)
    }

    pub(crate) fn load(&self) -> Load {
        let (blocks_used, blocks) = self.blocks.blocks_used();
        Load {
            running: self.running.len(),
            waiting: self.waiting.len(),
            blocks_used,
            blocks,
            ..Load::default()
        }
    }

    fn request(&self, id: RequestId) -> Option<&Sequence> {
        self.running.get(&id).or_else(|| self.waiting.get(&id))
    }

    /// Applies `events` and plans the next step. Planned tokens count as cached. While a request decodes, the step has at most as
    /// many prefill rows as `prompt_rows` says for the [`Active`] requests after the events.
    pub(crate) fn step(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        prompt_rows: impl FnOnce(Active) -> usize,
    ) -> Plan {
        self.apply_all(events);
        for request in self.running.values_mut() {
            debug_assert!(!request.is_ahead, "a step was planned ahead whose tokens are not known");
            request.drop_draft();
            self.blocks.confirm(&mut request.cache, &mut request.prefixes, &request.tokens);
        }
        let prompt_rows = prompt_rows(self.active());
        let mut plan = Plan { prompt_rows, ..Plan::default() };
        self.share_rows(0);
        if self.grow_running(&mut plan) {
            self.admit(&mut plan);
        }
        self.share_rows(prompt_rows);
        while !self.grow_running(&mut plan) {
            self.share_rows(prompt_rows);
        }
        let prompt_rows_given =
            self.running.values().map(|request| request.rows).filter(|&rows| rows > 1).sum::<usize>();
        for request in self.running.values_mut().filter(|request| request.rows == 0) {
            request.passed_rows += prompt_rows_given;
        }
        for request in self.running.values_mut().filter(|request| request.rows > 0) {
            self.queue.charge(request.admission.client, request.rows);
            plan.chunks.push(request.take_chunk(&mut self.blocks));
        }
        plan.chunks.sort_by_key(|chunk| !chunk.is_decode());
        plan
    }

    pub(crate) fn apply_all(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.apply(event));
    }

    /// The longest beginning of `tokens` that is cached, for a request with this salt and adapter. To be released.
    pub(crate) fn acquire(&mut self, tokens: &[u32], salt: &[u8], adapter: Option<u64>) -> Cache {
        let mut prefixes = Prefixes::new(self.hash_key, salt, adapter);
        prefixes.extend(tokens);
        let positions = self.blocks.find(&prefixes, tokens, tokens.len());
        self.blocks.acquire(&prefixes, tokens, positions)
    }

    /// Releases what [`Scheduler::acquire`] has found.
    pub(crate) fn release(&mut self, cache: Cache) {
        self.blocks.release(cache);
    }

    /// Blocks for all of `tokens`, in groups whose tables begin with these blocks; `None` if running requests have them. To be
    /// published.
    pub(crate) fn allocate(&mut self, tokens: &[u32], first: impl Iterator<Item = usize>) -> Option<Cache> {
        self.blocks.allocate(tokens.len(), first)
    }

    /// Lets requests with this salt and adapter find what [`Scheduler::allocate`] has given, once it has been written.
    pub(crate) fn publish(&mut self, cache: Cache, tokens: &[u32], salt: &[u8], adapter: Option<u64>) {
        let mut prefixes = Prefixes::new(self.hash_key, salt, adapter);
        prefixes.extend(tokens);
        self.blocks.retire(cache, &mut prefixes, tokens);
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit { id, tokens, salt, adapter, admission, outputs_from } => {
                debug_assert!(self.admits(tokens.len(), 0).is_ok(), "the prompt was checked");
                let mut prefixes = Prefixes::new(self.hash_key, &salt, adapter);
                prefixes.extend(&tokens);
                let request = Sequence {
                    id,
                    prompt: tokens.len(),
                    tokens,
                    drafted: 0,
                    is_ahead: false,
                    prefixes,
                    outputs_from: outputs_from.unwrap_or(usize::MAX),
                    cache: self.blocks.empty(),
                    checkpoint: 0,
                    rows: 0,
                    passed_rows: 0,
                    passed_by: 0,
                    admission,
                };
                self.queue.submit(id, admission);
                self.waiting.insert(id, request);
            }
            Event::Token { id, token } => {
                if let Some(request) = self.running.get_mut(&id) {
                    request.push(token);
                } else if let Some(request) = self.waiting.get_mut(&id) {
                    request.tokens.push(token);
                    request.prompt += 1;
                    request.prefixes.extend(&request.tokens);
                }
            }
            Event::Rewind { id, n_past } => {
                if let Some(request) = self.running.get_mut(&id) {
                    request.drop_draft();
                    debug_assert!(
                        !request.is_ahead,
                        "what is planned after a step that did not run is rolled back"
                    );
                    request.cache.positions = n_past;
                    request.cache.states.rewind(&mut self.blocks.slots);
                }
            }
            Event::End { id, intact } => {
                let request = self.running.remove(&id).or_else(|| self.waiting.remove(&id));
                if let Some(request) = request {
                    self.queue.end(id, request.admission.client);
                    if intact {
                        self.retire(request);
                    } else {
                        self.blocks.release(request.cache);
                    }
                }
            }
            Event::Clear => self.blocks.clear(),
        }
    }

    /// Releases the cache of a request whose last step has succeeded. Returns the request.
    fn retire(&mut self, mut request: Sequence) -> Sequence {
        let cache = std::mem::replace(&mut request.cache, self.blocks.empty());
        self.blocks.retire(cache, &mut request.prefixes, &request.tokens);
        request
    }

    fn active(&self) -> Active {
        let decoding = self.running.values().filter(|request| request.remaining() == 1).count();
        Active { decoding, prompts: self.running.len() - decoding + self.waiting.len() }
    }

    /// Gives a row to each request that decodes, and shares those of prompts among the others: at most `prompt_rows` if
    /// a request decodes.
    fn share_rows(&mut self, prompt_rows: usize) {
        let running = self.running.len();
        let requests = self.running.values_mut();
        let (decode, mut prompts): (Vec<_>, Vec<_>) = requests.partition(|request| request.remaining() == 1);
        let rows = if decode.is_empty() && prompt_rows > 0 { usize::MAX } else { prompt_rows };
        let mut budget = Budget::new(self.limits, running, decode.len(), rows);
        decode.into_iter().for_each(|request| request.rows = 1);
        prompts.sort_by_key(|request| (request.remaining().saturating_sub(request.passed_rows), request.id));
        prompts.into_iter().for_each(|request| budget.give(request));
    }

    /// Gives running requests the blocks that their rows need, the oldest first. Preempts the latest if there are too few.
    /// Returns whether none was preempted.
    fn grow_running(&mut self, plan: &mut Plan) -> bool {
        let before = self.running.len();
        let mut last = None;
        while let Some((&id, request)) = self.running.range_mut(after(last)).next() {
            let end = request.cache.positions + request.rows;
            if self.blocks.grow(&mut request.cache, Demand { all: end, next: end }) {
                last = Some(id);
            } else {
                self.preempt_latest(plan);
            }
        }
        self.running.len() == before
    }

    fn preempt_latest(&mut self, plan: &mut Plan) {
        if let Some((id, mut request)) = self.running.pop_last() {
            // Rows that ran have already been output.
            request.outputs_from = request.outputs_from.max(request.cache.positions);
            request = self.retire(request);
            (request.prompt, request.rows) = (request.tokens.len(), 0);
            request.prefixes.extend(&request.tokens);
            let admitted = plan.admitted.extract_if(.., |admitted| admitted.id == id).next();
            if admitted.is_none() {
                request.admission.was_preempted = true;
                plan.preempted.push(id);
            }
            self.queue.wait(id, request.admission);
            self.waiting.insert(id, request);
        }
    }

    fn admit(&mut self, plan: &mut Plan) {
        if self.waiting.is_empty() {
            return;
        }
        let has_states = self.blocks.has_states();
        let running = self.running.values();
        let mut filling: HashSet<Prefix> = running.flat_map(|request| request.filling(has_states)).collect();
        let mut tried: HashSet<RequestId> = HashSet::new();
        let mut without_blocks: Vec<RequestId> = Vec::new();
        while self.running.len() < self.limits.sequences {
            let Some(id) = self.queue.next(|id| !tried.contains(&id)) else { break };
            let Some(request) = self.waiting.get_mut(&id) else { break };
            tried.insert(id);
            let max = request.reusable();
            let cached = self.blocks.find(&request.prefixes, &request.tokens, max);
            let mut next =
                (cached / KV_BLOCK + 1..=max / KV_BLOCK).map(|blocks| request.prefixes.after_blocks(blocks));
            if next.any(|prefix| filling.contains(&prefix)) {
                continue;
            }
            request.cache = self.blocks.acquire(&request.prefixes, &request.tokens, cached);
            let all = request.tokens.len();
            let demand = Demand { all, next: cached + 1 };
            if !self.blocks.grow(&mut request.cache, demand) {
                let cache = std::mem::replace(&mut request.cache, self.blocks.empty());
                self.blocks.release(cache);
                if request.admission.was_preempted || request.passed_by >= MAX_PASSED_BY {
                    break;
                }
                without_blocks.push(id);
                continue;
            }
            self.blocks.adopt(&request.cache);
            request.checkpoint = checkpoint_position(request.tokens.len());
            plan.admitted.push(Admitted { id, reused: cached, is_resumed: request.admission.was_preempted });
            if let Some(request) = self.waiting.remove(&id) {
                self.queue.start(id);
                filling.extend(request.filling(has_states));
                self.running.insert(id, request);
            }
            for id in &without_blocks {
                self.waiting.get_mut(id).into_iter().for_each(|request| request.passed_by += 1);
            }
        }
    }
}

/// The range of requests after `last`, or all.
fn after(last: Option<RequestId>) -> (Bound<RequestId>, Bound<RequestId>) {
    (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

#[cfg(test)]
mod tests;
