//! Which rows run in the next step: continuous batching over a paged KV cache.
//!
//! [`Scheduler::step`] takes what happened since the last step and returns a [`Plan`]. It reads no
//! clock, does no I/O and draws no random number: the same calls give the same plans.
//!
//! The rules, all by order of submission:
//! - Rows of requests that wait for one token (decode) come first, then chunks of prompts (prefill),
//!   up to `n_batch` rows together.
//! - A step has at most `sequences` output rows, or at most `logit_rows` rows in all: the latter where a
//!   request asks for the logits of many rows.
//! - A request is admitted when a place among the running ones and pages for all its tokens are there, in
//!   groups with a window pages for its next rows; nobody passes a request that waits for these. One whose
//!   sequence another request is running on waits for that to end, and lets others pass.
//! - A running request gives back the pages that fell out of the windows.
//! - When a running request needs pages and too few of a group are free, idle sequences lose theirs, least
//!   recently used first; where these are too few, the latest running request is preempted: its pages are
//!   freed, and its tokens are computed again later. So the oldest running request goes on at every step,
//!   and every request ends.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use backend::{BlockTable, PAGE};
use graph::Group;

use crate::blocks::{BlockManager, Cache, Room};

pub use crate::ids::{RequestId, SequenceId};

/// What a scheduler may hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens a sequence, at most; prompt and generated ones together.
    pub n_ctx: usize,
    /// Requests running at once, at most.
    pub sequences: usize,
    /// Rows a step, at most; as many as `sequences` at least.
    pub n_batch: usize,
    /// Pages of the KV cache, in each group of stores without a window; groups with one have no more.
    pub pages: usize,
    /// Rows of a step that has more output rows than `sequences`, at most; at least 1.
    pub logit_rows: usize,
}

/// What happened since the last step. An event for a request that has ended changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A new request, which [`Scheduler::admits`].
    Submit {
        /// Its name from now on; never used before.
        id: RequestId,
        /// The prompt; not empty.
        tokens: Vec<u32>,
        /// The sequence it continues, whose cache is kept when it ends.
        sequence: Option<SequenceId>,
        /// Rows of the prompt from this position on are output rows; without it, only the last is.
        outputs_from: Option<usize>,
    },
    /// A request goes on with this token, sampled from its logits.
    Token {
        /// Whose.
        id: RequestId,
        /// The token.
        token: u32,
    },
    /// A request is over.
    End {
        /// Which.
        id: RequestId,
        /// Whether the cache holds what the plans so far said. False after a step that failed: the
        /// sequence's cache is then freed.
        intact: bool,
    },
    /// The sequence will not be continued: its cache is freed. Requests on it that were submitted
    /// before go on, but leave no cache when they end.
    Forget(SequenceId),
}

/// The next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rows to run: decode rows, then chunks of prompts. Empty when there is nothing to do.
    pub chunks: Vec<Chunk>,
    /// Requests that begin in this step.
    pub admitted: Vec<Admitted>,
    /// Requests that lost their pages and wait again.
    pub preempted: Vec<RequestId>,
}

/// Consecutive rows of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Whose.
    pub id: RequestId,
    /// The tokens to run.
    pub tokens: Vec<u32>,
    /// Tokens already in the cache: the position of the first row.
    pub n_past: usize,
    /// The request's block tables, one for each group, with pages for all that the rows see and write.
    pub tables: Arc<[BlockTable]>,
    /// How many of the rows are output rows: the last ones.
    pub outputs: usize,
    /// Whether these are the last tokens there are: the last row's logits give the next one.
    pub is_last: bool,
}

/// A request that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Which.
    pub id: RequestId,
    /// Tokens of its prompt found in the cache.
    pub reused: usize,
    /// Whether it ran before and was preempted.
    pub is_resumed: bool,
}

/// A prompt that cannot be served however long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing to compute logits from.
    #[error("the prompt has no tokens; at least one is needed, such as the model's BOS token")]
    Empty,
    /// It does not leave room for one more token.
    #[error(
        "the prompt has {tokens} tokens, but the context holds {n_ctx} and must have room for one more; \
         shorten the prompt or make the context larger (`n_ctx`)"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of the context.
        n_ctx: usize,
    },
}

/// A request that has not ended.
#[derive(Debug)]
struct Request {
    id: RequestId,
    sequence: Option<SequenceId>,
    /// Prompt and generated tokens; those from `cached` on must be run.
    tokens: Vec<u32>,
    /// Rows from this position on are output rows. The last row of all tokens always is.
    outputs_from: usize,
    cached: usize,
    tables: Arc<[BlockTable]>,
    /// Rows of the step that is being planned.
    rows: usize,
    was_preempted: bool,
}

impl Request {
    fn remaining(&self) -> usize {
        self.tokens.len() - self.cached
    }

    /// Output rows among its next `rows`.
    fn outputs(&self, rows: usize) -> usize {
        let end = self.cached + rows;
        let asked_for = end.saturating_sub(self.outputs_from.max(self.cached));
        asked_for.max(usize::from(end == self.tokens.len()))
    }

    /// How many of its tokens may come from a cache: one must be run to get logits, and those that are asked for.
    fn reusable(&self) -> usize {
        self.outputs_from.min(self.tokens.len() - 1)
    }

    fn take_chunk(&mut self) -> Chunk {
        let (n_past, outputs) = (self.cached, self.outputs(self.rows));
        self.cached += self.rows;
        self.rows = 0;
        Chunk {
            id: self.id,
            tokens: self.tokens[n_past..self.cached].to_vec(),
            n_past,
            tables: self.tables.clone(),
            outputs,
            is_last: self.cached == self.tokens.len(),
        }
    }
}

impl Chunk {
    /// Whether it is one row that gives the next token, as for every token after a prompt.
    pub fn is_decode(&self) -> bool {
        self.tokens.len() == 1 && self.is_last
    }
}

/// What is left of a step while it is planned.
#[derive(Clone, Copy, Debug)]
struct Budget {
    limits: Limits,
    /// Rows that can be had.
    rows: usize,
    /// Rows that were given.
    given: usize,
    /// Output rows that can be had beyond one for each running request.
    outputs: usize,
    /// Whether the step has so few rows that all may be output rows.
    is_all_outputs: bool,
}

impl Budget {
    fn new(limits: Limits, running: usize) -> Budget {
        let outputs = limits.sequences.saturating_sub(running);
        Budget { limits, rows: limits.n_batch, given: 0, outputs, is_all_outputs: false }
    }

    /// Gives a running request as many of its remaining rows as there are.
    fn give(&mut self, request: &mut Request) {
        let extra = |rows| request.outputs(rows).saturating_sub(1);
        let mut rows = request.remaining().min(self.rows);
        if !self.is_all_outputs && extra(rows) > self.outputs {
            let before = request.outputs_from.saturating_sub(request.cached);
            let few = rows.min(before + 1 + self.outputs);
            let all = rows.min(self.limits.logit_rows.saturating_sub(self.given));
            self.is_all_outputs = all > few;
            if self.is_all_outputs {
                self.rows = self.limits.logit_rows - self.given;
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

    /// Whether another request can begin.
    fn has_room(&self) -> bool {
        self.rows > 0 && (self.is_all_outputs || self.outputs > 0)
    }
}

/// Decides what each step runs. See the [module](self).
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    blocks: BlockManager,
    running: BTreeMap<RequestId, Request>,
    waiting: BTreeMap<RequestId, Request>,
}

impl Scheduler {
    /// A scheduler with nothing to do, over these groups of stores with the pages of each. Limits that contradict each
    /// other are brought together: a sequence gets no more positions than all pages hold, a step has a row for every
    /// sequence.
    ///
    /// A group without a window has `limits.pages`, one with a window enough for one sequence of `n_ctx`.
    pub fn new(limits: Limits, groups: &[(Group, usize)]) -> Scheduler {
        let sequences = limits.sequences.max(1);
        let n_batch = limits.n_batch.max(sequences);
        let limits = Limits {
            n_ctx: limits.n_ctx.min(limits.pages.saturating_mul(PAGE)),
            sequences,
            n_batch,
            pages: limits.pages,
            logit_rows: limits.logit_rows.clamp(1, n_batch),
        };
        let (running, waiting) = (BTreeMap::new(), BTreeMap::new());
        Scheduler { limits, blocks: BlockManager::new(groups), running, waiting }
    }

    /// The limits that hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether a prompt of `tokens` can be served, so that at least `generated` can be generated.
    ///
    /// # Errors
    /// When it is empty, or together with these exceeds the context.
    pub fn admits(&self, tokens: usize, generated: usize) -> Result<(), Refusal> {
        let n_ctx = self.limits.n_ctx;
        match tokens {
            0 => Err(Refusal::Empty),
            _ if tokens.saturating_add(generated) <= n_ctx => Ok(()),
            _ => Err(Refusal::TooLong { tokens, n_ctx }),
        }
    }

    /// Whether no request is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Prompt and generated tokens of a request that has not ended.
    pub fn tokens(&self, id: RequestId) -> Option<&[u32]> {
        self.request(id).map(|request| &*request.tokens)
    }

    /// How many of a request's tokens are in the cache, or will be after the step that was planned.
    pub fn cached(&self, id: RequestId) -> usize {
        self.request(id).map_or(0, |request| request.cached)
    }

    /// How many tokens are kept for a sequence that no request uses.
    pub fn kept(&self, sequence: SequenceId) -> usize {
        self.blocks.kept(sequence)
    }

    /// The pages of each group that hold nothing.
    pub fn free_pages(&self) -> impl Iterator<Item = usize> {
        self.blocks.free()
    }

    /// The block tables of each running request and each idle sequence, in no order.
    pub fn block_tables(&self) -> impl Iterator<Item = &[BlockTable]> {
        self.running.values().map(|request| &*request.tables).chain(self.blocks.idle())
    }

    fn request(&self, id: RequestId) -> Option<&Request> {
        self.running.get(&id).or_else(|| self.waiting.get(&id))
    }

    /// Takes note of `events` and plans the next step. Tokens of the plan count as cached from now on.
    pub fn step(&mut self, events: impl IntoIterator<Item = Event>) -> Plan {
        for event in events {
            self.apply(event);
        }
        for request in self.running.values_mut() {
            self.blocks.trim(&mut request.tables, request.cached);
        }
        let mut plan = Plan::default();
        let mut budget = Budget::new(self.limits, self.running.len());
        self.continue_running(&mut budget, &mut plan);
        if plan.preempted.is_empty() {
            self.admit(&mut budget, &mut plan);
        }
        let planned = self.running.values_mut().filter(|request| request.rows > 0);
        plan.chunks.extend(planned.map(Request::take_chunk));
        plan.chunks.sort_by_key(|chunk| !chunk.is_decode());
        plan
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit { id, tokens, sequence, outputs_from } => {
                debug_assert!(self.admits(tokens.len(), 0).is_ok(), "the prompt was checked");
                let request = Request {
                    id,
                    sequence,
                    tokens,
                    outputs_from: outputs_from.unwrap_or(usize::MAX),
                    cached: 0,
                    tables: self.blocks.no_tables(),
                    rows: 0,
                    was_preempted: false,
                };
                self.waiting.insert(id, request);
            }
            Event::Token { id, token } => {
                if let Some(request) = self.running.get_mut(&id) {
                    request.tokens.push(token);
                }
            }
            Event::End { id, intact } => {
                // One that waits has no pages.
                if let Some(request) = self.running.remove(&id) {
                    self.end(request, intact);
                } else {
                    self.waiting.remove(&id);
                }
            }
            Event::Forget(sequence) => {
                self.blocks.forget(sequence);
                for request in self.running.values_mut().chain(self.waiting.values_mut()) {
                    request.sequence.take_if(|own| *own == sequence);
                }
            }
        }
    }

    fn end(&mut self, mut request: Request, intact: bool) {
        match request.sequence {
            Some(sequence) if intact => {
                request.tokens.truncate(request.cached);
                self.blocks.keep(sequence, Cache { tokens: request.tokens, tables: request.tables });
            }
            _ => self.blocks.release(&mut request.tables),
        }
    }

    /// Rows and pages for the running requests.
    fn continue_running(&mut self, budget: &mut Budget, plan: &mut Plan) {
        for decode in [true, false] {
            for request in self.running.values_mut() {
                if (request.remaining() == 1) == decode {
                    budget.give(request);
                }
            }
        }
        let mut last = None;
        while let Some((&id, request)) = self.running.range_mut(after(last)).next() {
            let end = request.cached + request.rows;
            if self.blocks.grow(&mut request.tables, Room { all: end, next: end }) {
                last = Some(id);
            } else {
                self.preempt_latest(plan);
            }
        }
    }

    fn preempt_latest(&mut self, plan: &mut Plan) {
        if let Some((id, mut request)) = self.running.pop_last() {
            self.blocks.release(&mut request.tables);
            // What was asked for of rows that ran has been told.
            request.outputs_from = request.outputs_from.max(request.cached);
            (request.cached, request.rows, request.was_preempted) = (0, 0, true);
            self.waiting.insert(id, request);
            plan.preempted.push(id);
        }
    }

    /// Begins waiting requests while there is room.
    fn admit(&mut self, budget: &mut Budget, plan: &mut Plan) {
        if self.waiting.is_empty() {
            return;
        }
        let running = self.running.values();
        let mut busy: HashSet<SequenceId> = running.filter_map(|request| request.sequence).collect();
        let mut last = None;
        while self.running.len() < self.limits.sequences && budget.has_room() {
            let is_free = |request: &Request| request.sequence.is_none_or(|own| !busy.contains(&own));
            let next = self.waiting.range_mut(after(last)).find(|(_, request)| is_free(request));
            let Some((&id, request)) = next else { break };
            let mut cache = match request.sequence {
                Some(sequence) => self.blocks.reuse(sequence, &request.tokens, request.reusable()),
                None => self.blocks.empty(),
            };
            request.cached = cache.tokens.len();
            let mut trial = Budget { outputs: budget.outputs.saturating_sub(1), ..*budget };
            trial.give(request);
            let room = Room { all: request.tokens.len(), next: request.cached + request.rows };
            if !self.blocks.grow(&mut cache.tables, room) {
                (request.cached, request.rows) = (0, 0);
                match request.sequence {
                    Some(sequence) => self.blocks.keep(sequence, cache),
                    None => self.blocks.release(&mut cache.tables),
                }
                break;
            }
            *budget = trial;
            request.tables = cache.tables;
            let (reused, is_resumed) = (request.cached, request.was_preempted);
            plan.admitted.push(Admitted { id, reused, is_resumed });
            busy.extend(request.sequence);
            last = Some(id);
            if let Some(request) = self.waiting.remove(&id) {
                self.running.insert(id, request);
            }
        }
    }
}

/// The requests after `last`, or all.
fn after(last: Option<RequestId>) -> (Bound<RequestId>, Bound<RequestId>) {
    (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}
