//! The engine: requests in, text out, several at once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use backend::{Backend, KvFormat, Memory, PAGE, Program, Step};

use crate::Error;
use crate::active::Active;
use crate::device::Device;
use crate::model::Model;
use crate::request::{Event, Request};
use crate::scheduler::{self, Chunk, Limits, Refusal, RequestId, Scheduler, SequenceId};
use crate::stop::StopReason;

/// The context an engine gets when none is asked for, unless the model was trained on less.
pub const DEFAULT_N_CTX: usize = 4096;

/// Rows a step, at most, when none are asked for.
pub const DEFAULT_N_BATCH: usize = 512;

/// The most requests that run at once.
const MAX_SEQUENCES: usize = 1024;

/// The most rows a step: more take memory and no less time.
const MAX_N_BATCH: usize = 65536;

/// The most pages: positions of all of them are counted in 32 bits.
const MAX_PAGES: usize = u32::MAX as usize / PAGE;

/// How much an engine can do at once. Memory of the KV cache grows with `n_ctx * sequences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens a sequence, prompt and generated ones together. `None` is what the model was trained on,
    /// but at most [`DEFAULT_N_CTX`].
    pub n_ctx: Option<usize>,
    /// Requests that run at once, at most 1024; further ones wait.
    pub sequences: usize,
    /// Rows a step, at most: decoded tokens and chunks of prompts. No fewer than `sequences` are taken,
    /// and no more than `n_ctx * sequences` or 65536. More are hardly faster, and nothing is reported
    /// or cancelled before a step ends.
    pub n_batch: usize,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// Pages of the KV cache, [`PAGE`] positions each. `None` is as many as all sequences need when
    /// full; with fewer, requests may have to wait and be computed again.
    pub pages: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            n_ctx: None,
            sequences: 1,
            n_batch: DEFAULT_N_BATCH,
            kv_format: KvFormat::default(),
            pages: None,
        }
    }
}

impl Options {
    fn limits(&self, trained: usize) -> Result<Limits, Error> {
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
        Ok(Limits { n_ctx, sequences, n_batch, pages })
    }
}

/// Which logits [`Engine::logits`] computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitRows {
    /// Those after every token.
    All,
    /// Those after every token from this position on.
    From(usize),
    /// Those after the last token.
    Last,
}

/// One model on one backend, serving requests.
///
/// Nothing runs by itself: [`Engine::step`] runs one step for all requests and says what came of it.
/// A request's text depends on its prompt, sampling and seed, never on what else runs. (So far as the
/// backend computes a row alike in every batch, as the CPU backends promise.)
pub struct Engine {
    model: Arc<Model>,
    device: Device,
    scheduler: Scheduler,
    /// What the scheduler is to hear at the next step.
    notices: Vec<scheduler::Event>,
    active: BTreeMap<RequestId, Active>,
    /// Events of the next step that are known already.
    ready: Vec<Event>,
    next_request: u64,
    next_sequence: u64,
}

impl Engine {
    /// Puts `model` on `backend`, which holds nothing yet.
    ///
    /// # Errors
    /// When an option makes no sense, or the backend cannot hold or compute the model.
    pub fn new(model: Arc<Model>, backend: Box<dyn Backend>, options: Options) -> Result<Engine, Error> {
        let scheduler = Scheduler::new(options.limits(model.n_ctx_train())?);
        let mut device = Device::new(&model, backend, scheduler.limits(), options.kv_format)?;
        device.prepare(&model)?;
        model.file().check_intact()?;
        Ok(Engine {
            model,
            device,
            scheduler,
            notices: Vec::new(),
            active: BTreeMap::new(),
            ready: Vec::new(),
            next_request: 0,
            next_sequence: 0,
        })
    }

    /// What an engine of these options would hold; nothing is computed for it.
    ///
    /// # Errors
    /// As those of [`Engine::new`].
    pub fn memory(model: &Model, backend: Box<dyn Backend>, options: Options) -> Result<Memory, Error> {
        let limits = options.limits(model.n_ctx_train())?;
        Ok(Device::new(model, backend, limits, options.kv_format)?.backend().memory())
    }

    /// The model it serves.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The backend it runs on.
    pub fn backend(&self) -> &dyn Backend {
        self.device.backend()
    }

    /// The limits that hold: context, sequences, batch, pages.
    pub fn limits(&self) -> Limits {
        self.scheduler.limits()
    }

    /// Shows `observer` every step from now on: its tokens with their sequences and positions, and the
    /// program, of which the values called `names` can be read. Names are those of the model's graph.
    /// Takes the place of an earlier observer; without names there is none to read but the output.
    ///
    /// What a backend would compute at once to be faster, it computes value by value where these are
    /// read, so steps can take longer and logits can differ as much as two orders of summing do. The
    /// values of a whole step are held in memory; a smaller `n_batch` makes them fewer.
    ///
    /// # Errors
    /// When the graph has no such value, or the backend has no room. Nothing has changed then, unless the backend
    /// refuses what it had room for before.
    pub fn tap(
        &mut self,
        names: &[&str],
        observer: impl FnMut(&Step, &dyn Program) + Send + 'static,
    ) -> Result<(), Error> {
        self.device.tap(self.model.graph(), names, Box::new(observer))
    }

    /// Makes ready for [`Engine::logits`] of more rows than the last, which does it when there is need: whoever does it
    /// before learns early whether there is room.
    ///
    /// # Errors
    /// When the backend has no room.
    pub fn prepare_logits(&mut self) -> Result<(), Error> {
        self.device.prepare_all_logits(self.model.graph())
    }

    /// A sequence for requests that continue each other, such as the turns of a chat.
    pub fn new_sequence(&mut self) -> SequenceId {
        self.next_sequence += 1;
        SequenceId(self.next_sequence)
    }

    /// Frees the cache that is kept for `sequence`. Requests on it that have not ended go on, but leave
    /// no cache.
    pub fn forget(&mut self, sequence: SequenceId) {
        self.notices.push(scheduler::Event::Forget(sequence));
    }

    /// Takes `request` in; steps will serve it.
    ///
    /// # Errors
    /// When the prompt is empty or does not leave room in the context for one token, when it holds an
    /// id that is no token, or when sampling or stop strings make no sense. Nothing has changed then.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        self.scheduler.admits(request.prompt.len())?;
        self.check_tokens(&request.prompt)?;
        let sequence = request.sequence;
        let (active, tokens) = Active::new(request, self.model.tokenizer().clone())?;
        let id = RequestId(self.next_request);
        self.next_request += 1;
        if active.is_spent() {
            let usage = active.usage(Instant::now());
            self.ready.push(Event::Done { id, reason: StopReason::MaxTokens, usage });
        } else {
            self.active.insert(id, active);
            self.notices.push(scheduler::Event::Submit { id, tokens, sequence });
        }
        Ok(id)
    }

    /// Ends a request; the next step says so. Nothing happens when it has ended already.
    pub fn cancel(&mut self, id: RequestId) {
        if let Some(active) = self.active.remove(&id) {
            let usage = active.usage(Instant::now());
            self.notices.push(scheduler::Event::End { id, intact: true });
            self.ready.push(Event::Done { id, reason: StopReason::Cancelled, usage });
        }
    }

    /// How many tokens of a request have been computed or were found in the cache: how far its prefill
    /// has come. 0 while it waits and when it has ended.
    pub fn cached(&self, id: RequestId) -> usize {
        self.scheduler.cached(id)
    }

    /// Whether every request has ended and been reported.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.ready.is_empty()
    }

    /// Runs one step: a token for each request that is past its prompt, and chunks of prompts.
    ///
    /// # Errors
    /// When the backend fails, or the model's file was truncated, so that what was computed cannot be
    /// trusted. All requests have ended then, without further events; the engine can be used again.
    pub fn step(&mut self) -> Result<Vec<Event>, Error> {
        let plan = self.scheduler.step(self.notices.drain(..));
        let now = Instant::now();
        for admitted in plan.admitted.iter().filter(|admitted| !admitted.again) {
            if let Some(active) = self.active.get_mut(&admitted.id) {
                active.begin(admitted.reused, now);
            }
        }
        for id in &plan.preempted {
            tracing::debug!(request = id.0, "preempted: the KV cache is full");
        }
        if !plan.chunks.is_empty()
            && let Err(error) = self.run(&plan.chunks)
        {
            let ended = std::mem::take(&mut self.active).into_keys();
            self.notices.clear();
            self.notices.extend(ended.map(|id| scheduler::Event::End { id, intact: false }));
            self.ready.clear();
            return Err(error);
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// Runs `chunks` and samples.
    fn run(&mut self, chunks: &[Chunk]) -> Result<(), Error> {
        let logits = self.device.run(chunks)?;
        self.model.file().check_intact()?;
        let now = Instant::now();
        let n_ctx = self.scheduler.limits().n_ctx;
        for (chunk, logits) in chunks.iter().filter(|chunk| chunk.logits).zip(logits) {
            let id = chunk.id;
            let Some(active) = self.active.get_mut(&id) else { continue };
            let tokens = self.scheduler.tokens(id).unwrap_or_default();
            let token = match active.sample(logits, tokens) {
                Ok(token) => token,
                Err(error) => {
                    self.active.remove(&id);
                    self.notices.push(scheduler::Event::End { id, intact: false });
                    self.ready.push(Event::Failed { id, error });
                    continue;
                }
            };
            let (text, ended) = active.accept(token, tokens.len() + 1, n_ctx, now);
            self.ready.push(Event::Token { id, token, text });
            self.notices.push(match ended {
                None => scheduler::Event::Token { id, token },
                Some(reason) => {
                    let usage = active.usage(now);
                    self.active.remove(&id);
                    self.ready.push(Event::Done { id, reason, usage });
                    scheduler::Event::End { id, intact: true }
                }
            });
        }
        Ok(())
    }

    /// Computes the logits after `tokens`, chunk by chunk, and gives each row to `each` with its
    /// position, until that breaks. A row has one `f32` a token of the vocabulary.
    ///
    /// # Errors
    /// When requests have not ended, when there are no tokens, more than the context holds or ids that
    /// are no tokens, and when the backend fails or the file was truncated.
    pub fn logits(
        &mut self,
        tokens: &[u32],
        rows: LogitRows,
        each: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if !self.is_idle() {
            return Err(Error::Busy { requests: self.active.len().max(1) });
        }
        let n_ctx = self.scheduler.limits().n_ctx;
        if tokens.is_empty() {
            return Err(Refusal::Empty.into());
        }
        let too_long = Refusal::TooLong { tokens: tokens.len(), n_ctx };
        if tokens.len() > n_ctx {
            return Err(too_long.into());
        }
        self.check_tokens(tokens)?;
        self.scheduler.step(self.notices.drain(..));
        let pages = self.scheduler.take_pages(tokens.len()).ok_or(too_long)?;
        let result = self.run_logits(tokens, rows, &pages, each);
        self.scheduler.give_back(pages);
        result
    }

    fn run_logits(
        &mut self,
        tokens: &[u32],
        rows: LogitRows,
        pages: &[u32],
        mut each: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (most, from) = match rows {
            LogitRows::All => (self.device.all_logits_rows(), 0),
            LogitRows::From(position) => (self.device.all_logits_rows(), position),
            LogitRows::Last => (self.scheduler.limits().n_batch, tokens.len() - 1),
        };
        let mut past = 0;
        for tokens_now in tokens.chunks(most) {
            let end = past + tokens_now.len();
            let first = from.max(past);
            let logits = match rows {
                LogitRows::All | LogitRows::From(_) => {
                    self.device.all_logits(self.model.graph(), tokens_now, past, pages, first)?
                }
                LogitRows::Last => {
                    let (tokens_now, pages) = (tokens_now.to_vec(), pages.to_vec());
                    let logits = end == tokens.len();
                    let id = RequestId(u64::MAX);
                    self.device.run(&[Chunk { id, tokens: tokens_now, past, pages, logits }])?
                }
            };
            self.model.file().check_intact()?;
            for (i, row) in logits.enumerate() {
                if each(first + i, row).is_break() {
                    return Ok(());
                }
            }
            past = end;
        }
        Ok(())
    }

    fn check_tokens(&self, tokens: &[u32]) -> Result<(), Error> {
        let n_vocab = self.model.tokenizer().vocab_size();
        match tokens.iter().position(|&id| id as usize >= n_vocab) {
            Some(position) => Err(Error::Token { position, id: tokens[position], n_vocab }),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (model, limits) = (self.model.file().file(), self.limits());
        f.debug_struct("Engine").field("model", &model).field("limits", &limits).finish_non_exhaustive()
    }
}
