//! Which rows run in the next step: continuous batching over a paged KV cache.
//!
//! [`Scheduler::step`] takes what happened since the last step and returns a [`Plan`]. It reads no
//! clock, does no I/O and draws no random number: the same calls give the same plans.
//!
//! The rules, all by order of submission:
//! - Rows of requests that wait for one token (decode) come first, then chunks of prompts (prefill),
//!   up to `n_batch` rows together.
//! - A request is admitted when a place among the running ones and pages for all its tokens are there;
//!   nobody passes a request that waits for these. One whose sequence another request is running on
//!   waits for that to end, and lets others pass.
//! - When a running request needs a page and none is free, idle sequences lose theirs, least recently
//!   used first; then the latest running request is preempted: its pages are freed, and its tokens
//!   are computed again later. So the oldest running request goes on at every step, and every
//!   request ends.

use backend::PAGE;

use crate::pages::{Cache, Pool};

/// A request, unique in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A sequence whose KV cache is kept between requests, such as a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// What a scheduler may hand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens a sequence, at most; prompt and generated ones together.
    pub n_ctx: usize,
    /// Requests running at once, at most.
    pub sequences: usize,
    /// Rows a step, at most; as many as `sequences` at least.
    pub n_batch: usize,
    /// Pages of the KV cache.
    pub pages: usize,
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
    pub past: usize,
    /// The request's pages, enough for `past + tokens.len()` positions.
    pub pages: Vec<u32>,
    /// Whether these are the last tokens there are, so that the last row's logits give the next one.
    pub logits: bool,
}

/// A request that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Which.
    pub id: RequestId,
    /// Tokens of its prompt found in the cache.
    pub reused: usize,
    /// Whether it ran before and was preempted.
    pub again: bool,
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
    cached: usize,
    pages: Vec<u32>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting { preempted: bool },
    Running,
}

impl Request {
    fn remaining(&self) -> usize {
        self.tokens.len() - self.cached
    }

    fn is_running(&self) -> bool {
        self.state == State::Running
    }
}

/// Decides what each step runs. See the [module](self).
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    pool: Pool,
    /// In order of submission.
    requests: Vec<Request>,
}

impl Scheduler {
    /// A scheduler with nothing to do. Limits that contradict each other are brought together: a
    /// sequence gets no more positions than all pages hold, a step has a row for every sequence.
    pub fn new(limits: Limits) -> Scheduler {
        let limits = Limits {
            n_ctx: limits.n_ctx.min(limits.pages.saturating_mul(PAGE)),
            sequences: limits.sequences.max(1),
            n_batch: limits.n_batch.max(limits.sequences).max(1),
            pages: limits.pages,
        };
        Scheduler { limits, pool: Pool::new(limits.pages), requests: Vec::new() }
    }

    /// The limits that hold.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether a prompt of `tokens` can be served.
    ///
    /// # Errors
    /// When it is empty, or together with one generated token exceeds the context.
    pub fn admits(&self, tokens: usize) -> Result<(), Refusal> {
        let n_ctx = self.limits.n_ctx;
        match tokens {
            0 => Err(Refusal::Empty),
            _ if tokens < n_ctx => Ok(()),
            _ => Err(Refusal::TooLong { tokens, n_ctx }),
        }
    }

    /// Whether no request is running or waiting.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Prompt and generated tokens of a request that has not ended.
    pub fn tokens(&self, id: RequestId) -> Option<&[u32]> {
        self.requests.iter().find(|request| request.id == id).map(|request| &*request.tokens)
    }

    /// How many of a request's tokens are in the cache, or will be after the step that was planned.
    pub fn cached(&self, id: RequestId) -> usize {
        self.requests.iter().find(|request| request.id == id).map_or(0, |request| request.cached)
    }

    /// How many tokens are kept for a sequence that no request uses.
    pub fn kept(&self, sequence: SequenceId) -> usize {
        self.pool.kept(sequence)
    }

    /// Pages that hold nothing.
    pub fn free_pages(&self) -> usize {
        self.pool.free()
    }

    /// The pages of each running request and each idle sequence, in no order.
    pub fn page_tables(&self) -> impl Iterator<Item = &[u32]> {
        let idle = self.pool.idle().map(|(_, cache)| &*cache.pages);
        self.requests.iter().map(|request| &*request.pages).chain(idle)
    }

    /// Takes pages for `positions` that belong to no request, until [`Scheduler::give_back`]; `None`
    /// when running requests hold too many.
    pub fn take_pages(&mut self, positions: usize) -> Option<Vec<u32>> {
        let mut pages = Vec::new();
        self.pool.grow(&mut pages, positions).then_some(pages)
    }

    /// Gives back what [`Scheduler::take_pages`] took.
    pub fn give_back(&mut self, pages: Vec<u32>) {
        self.pool.release(pages);
    }

    /// Takes note of `events` and plans the next step. Tokens of the plan count as cached from now on.
    pub fn step(&mut self, events: impl IntoIterator<Item = Event>) -> Plan {
        for event in events {
            self.apply(event);
        }
        let mut plan = Plan::default();
        let mut rows = vec![0; self.requests.len()];
        let mut budget = self.limits.n_batch;
        self.continue_running(&mut rows, &mut budget, &mut plan);
        if plan.preempted.is_empty() {
            self.admit(&mut rows, &mut budget, &mut plan);
        }
        for (request, rows) in self.requests.iter_mut().zip(rows) {
            if rows > 0 {
                plan.chunks.push(request.take_chunk(rows));
            }
        }
        plan.chunks.sort_by_key(|chunk| !chunk.is_decode());
        plan
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Submit { id, tokens, sequence } => {
                debug_assert!(self.admits(tokens.len()).is_ok(), "the prompt was checked");
                let state = State::Waiting { preempted: false };
                self.requests.push(Request { id, sequence, tokens, cached: 0, pages: Vec::new(), state });
            }
            Event::Token { id, token } => {
                if let Some(request) = self.requests.iter_mut().find(|request| request.id == id) {
                    request.tokens.push(token);
                }
            }
            Event::End { id, intact } => {
                if let Some(at) = self.requests.iter().position(|request| request.id == id) {
                    let request = self.requests.remove(at);
                    self.end(request, intact);
                }
            }
            Event::Forget(sequence) => {
                self.pool.forget(sequence);
                for request in &mut self.requests {
                    request.sequence.take_if(|own| *own == sequence);
                }
            }
        }
    }

    fn end(&mut self, mut request: Request, intact: bool) {
        match request.sequence {
            Some(sequence) if request.is_running() && intact => {
                request.tokens.truncate(request.cached);
                self.pool.keep(sequence, Cache { tokens: request.tokens, pages: request.pages });
            }
            _ => self.pool.release(request.pages),
        }
    }

    /// Rows and pages for the running requests.
    fn continue_running(&mut self, rows: &mut [usize], budget: &mut usize, plan: &mut Plan) {
        for decode in [true, false] {
            for (request, rows) in self.requests.iter().zip(&mut *rows) {
                if request.is_running() && (request.remaining() == 1) == decode {
                    *rows = request.remaining().min(*budget);
                    *budget -= *rows;
                }
            }
        }
        for i in 0..self.requests.len() {
            while self.requests[i].is_running() && !self.grow(i, rows[i]) {
                let Some(latest) = self.requests.iter().rposition(Request::is_running) else { break };
                self.preempt(latest, plan);
                rows[latest] = 0;
            }
        }
    }

    fn grow(&mut self, i: usize, rows: usize) -> bool {
        let request = &mut self.requests[i];
        self.pool.grow(&mut request.pages, request.cached + rows)
    }

    fn preempt(&mut self, i: usize, plan: &mut Plan) {
        let request = &mut self.requests[i];
        self.pool.release(request.pages.drain(..));
        request.cached = 0;
        request.state = State::Waiting { preempted: true };
        plan.preempted.push(request.id);
    }

    /// Begins waiting requests while there is room.
    fn admit(&mut self, rows: &mut [usize], budget: &mut usize, plan: &mut Plan) {
        let mut running = self.requests.iter().filter(|r| r.is_running()).count();
        for (i, rows) in rows.iter_mut().enumerate() {
            if running == self.limits.sequences || *budget == 0 {
                break;
            }
            let State::Waiting { preempted: again } = self.requests[i].state else { continue };
            let sequence = self.requests[i].sequence;
            let busy = |r: &Request| r.is_running() && r.sequence == sequence;
            if sequence.is_some() && self.requests.iter().any(busy) {
                continue;
            }
            let request = &mut self.requests[i];
            let mut cache = match sequence {
                Some(sequence) => self.pool.reuse(sequence, &request.tokens),
                None => Cache::default(),
            };
            if !self.pool.grow(&mut cache.pages, request.tokens.len()) {
                if let Some(sequence) = sequence {
                    self.pool.keep(sequence, cache);
                }
                break;
            }
            request.cached = cache.tokens.len();
            request.pages = cache.pages;
            request.state = State::Running;
            plan.admitted.push(Admitted { id: request.id, reused: request.cached, again });
            *rows = request.remaining().min(*budget);
            *budget -= *rows;
            running += 1;
        }
    }
}

impl Request {
    fn take_chunk(&mut self, rows: usize) -> Chunk {
        let past = self.cached;
        self.cached += rows;
        Chunk {
            id: self.id,
            tokens: self.tokens[past..self.cached].to_vec(),
            past,
            pages: self.pages.clone(),
            logits: self.cached == self.tokens.len(),
        }
    }
}

impl Chunk {
    /// Whether it is one row whose logits are wanted, as for every token after a prompt.
    pub fn is_decode(&self) -> bool {
        self.tokens.len() == 1 && self.logits
    }
}
