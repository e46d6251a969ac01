//! The engine: serves several requests at once.

mod export;
mod steps;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use backend::{Backend, Interrupt, Memory, Taps};
use runner::{FileWeights, ModelRunner};

use crate::Error;
use crate::model::Model;
use crate::observe::{Observed, Observer};
use crate::options::Options;
use crate::pace::Pace;
use crate::queue::Admission;
use crate::random::random_key;
use crate::request::{DraftCounts, Event, Load, LogitRows, Request, Tenant};
use crate::request_state::RequestState;
use crate::scheduler::{self, Limits, RequestId, Scheduler};
use crate::speculation::{DraftModel, Speculator};
use crate::stop::StopReason;
use steps::InProgress;

/// A model on a backend, serving requests.
///
/// It has no thread of its own: [`Engine::step`] runs one step for all requests and returns its events. A device that samples
/// tokens itself computes the next step while the host handles the tokens of the last one. A request's
/// text depends on its prompt, sampling and seed only, provided that the backend computes a row the same way in every
/// batch, as the CPU backends do.
pub struct Engine {
    model: Arc<Model>,
    runner: ModelRunner,
    scheduler: Scheduler,
    requests: BTreeMap<RequestId, Box<RequestState>>,
    pending: PendingEvents,
    /// The step that the device already computes after the last one, whose tokens it takes.
    ahead: Option<InProgress>,
    sampling_threads: usize,
    step_target: Option<Duration>,
    pace: Pace,
    preemptions: u64,
    speculator: Option<Speculator>,
    drafts: DraftCounts,
    observer: Option<(Vec<String>, Observer)>,
    interrupt: Interrupt,
    next_request: u64,
}

/// Events that the next step delivers.
#[derive(Default)]
struct PendingEvents {
    scheduler: Vec<scheduler::Event>,
    caller: Vec<Event>,
}

impl PendingEvents {
    /// Adds an event of a request.
    fn push(&mut self, event: Event) {
        self.scheduler.push(match event {
            Event::Token { id, token, .. } => scheduler::Event::Token { id, token },
            Event::Done { id, .. } => scheduler::Event::End { id, intact: true },
            Event::Failed { id, .. } => scheduler::Event::End { id, intact: false },
        });
        self.caller.push(event);
    }
}

impl Engine {
    /// Loads `model` on `backend`. Fails if an option is invalid, or the backend cannot load the model.
    pub fn new(model: Arc<Model>, backend: Box<dyn Backend>, options: Options) -> Result<Engine, Error> {
        if let Some(pooling) = model.config().pooling {
            return Err(Error::ComputesEmbeddings { pooling });
        }
        let layout = options.layout(&model)?;
        let (n_ctx, trained) = (layout.limits.n_ctx, model.config().context_length);
        if n_ctx > trained {
            tracing::warn!(n_ctx, trained, "the context is longer than the model was trained on");
        }
        let (file, graph) = (model.file(), model.graph());
        let mut runner = ModelRunner::new(file, graph, backend, &layout.kv_layout, &layout.buckets)?;
        runner.prepare(file)?;
        file.check_intact()?;
        let sampling_threads = options.sampling_threads.or_else(|| available_parallelism().ok());
        let backend::KvLayout { blocks, slots, .. } = layout.kv_layout;
        let speculation = options.speculation_for(graph);
        if options.speculation.is_some() && speculation.is_none() {
            tracing::warn!(
                "no speculative decoding: the model has recurrent layers, whose state cannot go back to before drafted \
                 tokens that are not accepted"
            );
        }
        let groups: Vec<_> = graph.groups().iter().copied().zip(blocks).collect();
        Ok(Engine {
            runner,
            speculator: speculation.map(|speculation| Speculator::new(speculation, layout.limits.n_batch)),
            scheduler: Scheduler::new(
                layout.limits,
                &groups,
                slots,
                options.prefix_key.map_or_else(random_key, |key| key.0),
            ),
            model,
            requests: BTreeMap::new(),
            pending: PendingEvents::default(),
            ahead: None,
            // Cached: the system call takes as long as sampling a token.
            sampling_threads: sampling_threads.map_or(1, NonZero::get),
            step_target: options.step_target,
            pace: Pace::default(),
            preemptions: 0,
            drafts: DraftCounts::default(),
            observer: None,
            interrupt: Interrupt::default(),
            next_request: 0,
        })
    }

    /// Memory that an engine with these options would use on `backend`. Loads nothing. Fails as [`Engine::new`].
    pub fn requirements(model: &Model, backend: &dyn Backend, options: Options) -> Result<Memory, Error> {
        let layout = options.layout(model)?;
        let weights = FileWeights(model.file());
        Ok(backend.requirements(model.graph(), &weights, &layout.kv_layout, &layout.buckets, Taps::None)?)
    }

    /// The model that it serves.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The loaded model: its backend, memory use and timings.
    pub fn runner(&self) -> &ModelRunner {
        &self.runner
    }

    /// The effective limits.
    pub fn limits(&self) -> Limits {
        self.scheduler.limits()
    }

    /// Lets `draft` write the drafts of requests that are submitted from now on, instead of looking them up. Fails if the engine
    /// does not speculate.
    pub fn draft_with(&mut self, draft: DraftModel) -> Result<(), Error> {
        let speculator = self.speculator.as_mut().ok_or(Error::NotSpeculating)?;
        speculator.draft_with(draft);
        Ok(())
    }

    /// Shows the values in `names`, names of the model's graph, to `observer` after every step: one after the other, each with
    /// all rows of the step that it has. Replaces an earlier observer. Breaking cancels the requests of the step.
    ///
    /// Observed values are not fused away, so steps can be slower, and logits can differ by rounding. The values of a
    /// whole step are held in memory; a smaller `n_batch` reduces that. Fails if the graph has no such value, or
    /// allocation fails. Nothing has changed then, unless reallocating the old programs fails too.
    pub fn observe(
        &mut self,
        names: &[&str],
        observer: impl FnMut(Observed<'_>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<(), Error> {
        self.settle()?;
        self.runner.tap(names)?;
        let names = names.iter().map(|&name| name.to_owned()).collect();
        self.observer = Some((names, Observer::new(observer)));
        Ok(())
    }

    /// Compiles the program for logits of many rows, which otherwise happens when a request first needs it: detects a
    /// lack of memory early. Fails if allocation fails.
    pub fn prepare_logits(&mut self) -> Result<(), Error> {
        self.settle()?;
        let rows = self.limits().logit_rows;
        Ok(self.runner.compile(backend::Bucket { rows, outputs: rows })?)
    }

    /// Drops all cached prefixes that no running request uses, at the next step.
    pub fn clear_cache(&mut self) {
        self.pending.scheduler.push(scheduler::Event::Clear);
    }

    /// Queues `request`; later steps serve it. Fails if the prompt is empty, leaves no room for a token in the context
    /// or contains an invalid id, when sampling or stop strings are invalid, or when allocation for the logits of many
    /// observed rows fails. Nothing has changed then.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        let observed = request.observer.as_ref().map(|(rows, _)| *rows);
        let only_logits = observed.is_some() && request.params.max_tokens == Some(0);
        self.scheduler.admits(request.prompt.len(), usize::from(!only_logits))?;
        let n_vocab = self.model.tokenizer().vocab_size();
        if let Some(position) = request.prompt.iter().position(|&id| id as usize >= n_vocab) {
            return Err(Error::Token { position, id: request.prompt[position], n_vocab });
        }
        let (Tenant { client, priority, cache_salt: salt }, adapter) =
            (request.tenant.clone(), request.adapter);
        let admission = Admission { client, priority, was_preempted: false };
        let (state, tokens) = RequestState::new(request, &self.model)?;
        if observed.is_some_and(|rows| rows != LogitRows::Last) {
            self.prepare_logits()?;
        }
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let outputs_from = state.observed_from();
        if state.is_spent() && outputs_from.is_none() {
            let usage = state.usage(Instant::now());
            self.pending.caller.push(Event::Done { id, reason: StopReason::MaxTokens, usage });
        } else {
            self.requests.insert(id, Box::new(state));
            let submitted = scheduler::Event::Submit { id, tokens, salt, adapter, admission, outputs_from };
            self.pending.scheduler.push(submitted);
        }
        Ok(id)
    }

    /// Cancels a request, if it has not ended; the next step reports its end.
    pub fn cancel(&mut self, id: RequestId) {
        if let Some(state) = self.requests.remove(&id) {
            let usage = state.usage(Instant::now());
            self.pending.push(Event::Done { id, reason: StopReason::Cancelled, usage });
        }
    }

    /// A handle that interrupts the running step from another thread. The step is rolled back without events, and the next
    /// call of [`Engine::step`] repeats it, unless its requests were cancelled.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// What is going on, as of the last step.
    pub fn load(&self) -> Load {
        Load { preemptions: self.preemptions, drafts: self.drafts, ..self.scheduler.load() }
    }

    /// Tokens of a running request that are in the cache, computed or reused: the progress of its prefill.
    pub fn cached(&self, id: RequestId) -> usize {
        if self.requests.contains_key(&id) { self.scheduler.cached(id) } else { 0 }
    }

    /// Prompt tokens of a request in progress that were not computed, because they were cached.
    pub fn reused(&self, id: RequestId) -> usize {
        self.requests.get(&id).map_or(0, |state| state.usage(Instant::now()).reused_tokens)
    }

    /// Whether every request has ended and been reported.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.pending.caller.is_empty()
    }

    /// Runs one step: one token for each decoding request, or several if they were drafted, and chunks of prompts.
    ///
    /// When the backend fails, the requests in the step end with [`Event::Failed`], and their blocks are
    /// released. Other requests continue. Fails if the model file was modified or truncated, so that no result can
    /// be trusted. All requests have ended then, without further events.
    pub fn step(&mut self) -> Result<Vec<Event>, Error> {
        self.advance()
    }

    /// Computes the logits after `tokens` and calls `each` with every row and its position, until it breaks. A row has
    /// one `f32` per token of the vocabulary. Other requests continue meanwhile; their events are returned by the next
    /// [`Engine::step`]. Fails if `tokens` is empty, exceeds the context or contains an invalid id; when the backend
    /// fails, or the file was truncated.
    pub fn logits(
        &mut self,
        tokens: &[u32],
        rows: LogitRows,
        mut each: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        let request = Request::new(tokens.to_vec()).max_tokens(0).observe(rows, move |observed| {
            let rows = observed.iter().map(|(row, logits)| (row.position, logits.to_vec()));
            let sent = rows.map(|row| sender.send(row)).collect::<Result<Vec<()>, _>>();
            if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let own = self.submit(request)?;
        let (mut others, mut ended) = (Vec::new(), None);
        while ended.is_none() {
            for event in self.step()? {
                match event {
                    Event::Done { id, .. } if id == own => ended = Some(Ok(())),
                    Event::Failed { id, error } if id == own => ended = Some(Err(error.into())),
                    other => others.push(other),
                }
            }
            if receiver.try_iter().any(|(position, logits)| each(position, &logits).is_break()) {
                self.cancel(own);
                self.pending.caller.retain(|event| !matches!(event, Event::Done { id, .. } if *id == own));
                break;
            }
        }
        self.pending.caller.splice(..0, others);
        ended.unwrap_or(Ok(()))
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (model, limits) = (self.model.file().file(), self.limits());
        f.debug_struct("Engine").field("model", &model).field("limits", &limits).finish_non_exhaustive()
    }
}
