//! The steps of an [`Engine`]: plan, submit, wait, choose tokens.
//!
//! If a device samples tokens, and all requests decode, the next step is submitted before the outputs of the last one are waited
//! for: it takes tokens that only the device knows ([`Step::following`]). So the device waits neither for the host's choice of
//! text and stops nor for the plan. A request that has ended meanwhile has one row too many, whose outputs are dropped.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use backend::{OutputRow, Outputs, Sequence, Step, Wanted};
use runner::{ModelRunner, Submitted};

use super::Engine;
use crate::Error;
use crate::choose::{Chosen, Rows, choose_all};
use crate::request::Event;
use crate::request_state::{OnLogits, RequestState, RowOutput};
use crate::scheduler::{self, Chunk, RequestId};
use crate::stop::StopReason;

/// A step that was submitted.
pub(super) struct InProgress {
    submitted: Submitted,
    step: Step,
    slices: Vec<Slice>,
    /// Whether it was submitted before the tokens of the step before were known.
    is_ahead: bool,
}

/// The output rows of a request in a step.
struct Slice {
    id: RequestId,
    n_past: usize,
    /// Position of its first output row.
    position: usize,
    /// Indices among the output rows of the step.
    outputs: Range<usize>,
    /// Number of output rows, at the end, whose outputs yield the next tokens: those of the last token and of drafted ones.
    next: usize,
    is_decode: bool,
}

impl Engine {
    /// Runs one step. `caller` receives the logits of [`Engine::logits`].
    pub(super) fn advance(&mut self, caller: Option<&mut OnLogits<'_>>) -> Result<Vec<Event>, Error> {
        let began = Instant::now();
        let is_over =
            |step: &mut InProgress| !step.slices.iter().any(|slice| self.requests.contains_key(&slice.id));
        if let Some(step) = self.ahead.take_if(is_over) {
            discard(&mut self.runner, step);
        }
        match self.run_one(began, caller) {
            Ok([decoding, of_prompts]) => {
                self.pace.measured(began.elapsed(), decoding, of_prompts);
                Ok(std::mem::take(&mut self.pending.of_caller))
            }
            Err(error) => Err(self.ended_by(error)),
        }
    }

    /// Ends all requests, without events, because no result can be trusted.
    fn ended_by(&mut self, error: Error) -> Error {
        self.take_back();
        let ended = std::mem::take(&mut self.requests).into_keys();
        let ended = ended.map(|id| scheduler::Event::End { id, intact: false });
        // Requests that have ended before still have events for the scheduler.
        self.pending.of_scheduler.extend(ended);
        self.pending.of_caller.clear();
        error
    }

    /// Runs the step that was submitted ahead, or the next one. Returns its decode rows and its rows of prompts.
    fn run_one(&mut self, now: Instant, caller: Option<&mut OnLogits<'_>>) -> Result<[usize; 2], Error> {
        let ahead = self.ahead.take();
        let Some(current) = ahead.map_or_else(|| self.start(now), |ahead| Ok(Some(ahead)))? else {
            return Ok([0, 0]);
        };
        if caller.is_none() {
            self.ahead = self.run_ahead(&current);
        }
        let rows = current.step.tokens().len();
        let decoding = current.slices.iter().filter(|slice| slice.is_decode).count();
        self.finish(current, caller)?;
        Ok([decoding, rows - decoding])
    }

    /// Ends the step that was submitted ahead; the next step returns its events.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let settled = self.ahead.take().map_or(Ok(()), |step| self.finish(step, None));
        settled.map_err(|error| self.ended_by(error))
    }

    /// Plans and submits a step, if there is anything to do.
    fn start(&mut self, now: Instant) -> Result<Option<InProgress>, Error> {
        if let Some(speculator) = &mut self.speculator {
            speculator.hear(&self.pending.of_scheduler);
        }
        let (pace, target) = (&self.pace, self.step_target);
        let prompt_rows = |active| target.map_or(usize::MAX, |target| pace.prompt_rows(target, active));
        let mut plan = self.scheduler.step(self.pending.of_scheduler.drain(..), prompt_rows);
        for admitted in plan.admitted.iter().filter(|admitted| !admitted.is_resumed) {
            if let Some(state) = self.requests.get_mut(&admitted.id) {
                state.begin(admitted.reused, now);
            }
        }
        for id in &plan.preempted {
            self.preemptions += 1;
            tracing::debug!(request = id.0, "preempted: the KV cache is full");
        }
        if let Some(speculator) = &mut self.speculator {
            speculator.draft(&mut self.scheduler, &mut self.requests, &mut plan.chunks, plan.prompt_rows);
        }
        if plan.chunks.is_empty() {
            return Ok(None);
        }
        let slices = slices(&plan.chunks);
        let submitted =
            self.build_step(plan.chunks, &slices).and_then(|step| Ok((self.runner.submit(&step)?, step)));
        match submitted {
            Ok((submitted, step)) => Ok(Some(InProgress { submitted, step, slices, is_ahead: false })),
            Err(error) => {
                self.model.file().check_intact()?;
                self.failed(slices, error);
                Ok(None)
            }
        }
    }

    /// Submits the step after `current`, if all its requests go on with tokens that the device chooses.
    fn run_ahead(&mut self, current: &InProgress) -> Option<InProgress> {
        let is_text = |event: &scheduler::Event| {
            matches!(event, scheduler::Event::Token { .. } | scheduler::Event::End { .. })
        };
        if self.observer.is_some()
            || self.speculator.is_some()
            || !self.pending.of_scheduler.iter().all(is_text)
            || !current.step.wanted().are_tokens()
            || !current.slices.iter().all(|slice| slice.next == 1 && slice.outputs.len() == 1)
        {
            return None;
        }
        let n_ctx = self.limits().n_ctx;
        let (mut ids, mut follows) = (Vec::new(), Vec::new());
        for slice in &current.slices {
            let Some(state) = self.requests.get(&slice.id) else { continue };
            // The row ahead is at `position + 1`; its token must fit the context, too.
            if state.ends_with_next() || slice.position + 2 >= n_ctx {
                continue;
            }
            ids.push(slice.id);
            follows.push(slice.outputs.start as u32);
        }
        if ids.is_empty() || !self.runner.can_follow(&current.submitted, ids.len()) {
            return None;
        }
        let chunks = self.scheduler.follow(self.pending.of_scheduler.drain(..), &ids)?;
        let slices = slices(&chunks);
        let step = self.build_step(chunks, &slices).map(|step| step.following(follows));
        let submitted = step.and_then(|step| match step.wanted().are_tokens() {
            true => Ok(Some((self.runner.submit(&step)?, step))),
            false => Ok(None),
        });
        // A step that fails is submitted again, and fails again, once the current one has ended.
        let submitted =
            submitted.inspect_err(|error| tracing::debug!(%error, "no step ahead")).ok().flatten();
        if submitted.is_none() {
            self.scheduler.take_back();
        }
        submitted.map(|(submitted, step)| InProgress { submitted, step, slices, is_ahead: true })
    }

    /// Drops the step that was submitted ahead: its rows are computed again.
    fn take_back(&mut self) {
        if let Some(step) = self.ahead.take() {
            discard(&mut self.runner, step);
        }
        self.scheduler.take_back();
    }

    /// Waits for a step, and chooses tokens. A failure of the backend ends its requests.
    fn finish(&mut self, current: InProgress, caller: Option<&mut OnLogits<'_>>) -> Result<(), Error> {
        let InProgress { submitted, step, slices, is_ahead } = current;
        if is_ahead {
            // The tokens of the step before belong to the history from which tokens are chosen now.
            self.scheduler.learn(&mut self.pending.of_scheduler);
        }
        match self.finish_step(submitted, step, &slices, caller) {
            Err(Error::Backend(error)) => {
                self.take_back();
                if is_ahead && error != backend::Error::Interrupted {
                    // Pages that it has filled may have been published.
                    self.pending.of_scheduler.push(scheduler::Event::Clear);
                }
                self.failed(slices, error);
                Ok(())
            }
            finished => finished,
        }
    }

    /// Ends the requests of a failed step. After an interrupt, their rows are planned again.
    fn failed(&mut self, slices: Vec<Slice>, error: backend::Error) {
        if error == backend::Error::Interrupted {
            self.interrupt.lower();
            let rewind = |slice: Slice| scheduler::Event::Rewind { id: slice.id, n_past: slice.n_past };
            self.pending.of_scheduler.extend(slices.into_iter().map(rewind));
            return;
        }
        for Slice { id, .. } in slices {
            if self.requests.remove(&id).is_some() {
                self.pending.failed(id, error.clone().into());
            }
        }
    }

    fn finish_step(
        &mut self,
        submitted: Submitted,
        mut step: Step,
        slices: &[Slice],
        mut caller: Option<&mut OnLogits<'_>>,
    ) -> Result<(), Error> {
        let Engine { model, runner, scheduler, requests, pending, ahead, sampling_threads, drafts, .. } =
            self;
        let waited = runner.wait(submitted);
        model.file().check_intact()?;
        let mut outputs = waited?;
        if !are_answered(&step, &outputs) {
            if let Some(next) = ahead.take() {
                discard(runner, next);
            }
            scheduler.take_back();
            // Rerun the step with logits. It overwrites the same cache slots.
            let rows = step.outputs().iter().map(|output| output.row);
            step = Step::new(step.tokens().to_vec(), step.sequences().to_vec(), OutputRow::all(rows))?;
            let again = runner.run(&step);
            model.file().check_intact()?;
            outputs = again?;
        }
        let now = Instant::now();
        let n_ctx = scheduler.limits().n_ctx;
        let mut all = Vec::with_capacity(slices.len());
        for slice in slices {
            let id = slice.id;
            let Some(state) = requests.get_mut(&id) else { continue };
            let shown = show(state, slice, &outputs, caller.as_deref_mut());
            let is_over = shown != Ok(ControlFlow::Continue(())) || slice.next > 0;
            let Some(state) = is_over.then(|| requests.remove(&id)).flatten() else { continue };
            let reason = match shown {
                Err(error) => {
                    pending.failed(id, error.into());
                    continue;
                }
                Ok(ControlFlow::Break(())) => Some(StopReason::Cancelled),
                Ok(ControlFlow::Continue(())) => state.is_spent().then_some(StopReason::MaxTokens),
            };
            if let Some(reason) = reason {
                pending.done(id, reason, state.usage(now));
                continue;
            }
            let next = slice.outputs.end - slice.next..slice.outputs.end;
            match next.map(|index| row_output(&outputs, index)).collect() {
                Ok(outputs) => {
                    let tokens = scheduler.tokens(id).unwrap_or_default();
                    all.push(Rows { id, state, tokens, outputs, chosen: Vec::new(), end: None });
                }
                Err(error) => pending.failed(id, error.into()),
            }
        }
        choose_all(&mut all, *sampling_threads, n_ctx, now);
        let mut of_rows = vec![0; step.outputs().len()];
        for rows in all {
            *drafts += rows.draft_counts();
            let Rows { id, state, chosen, end, .. } = rows;
            let slice = slices.iter().find(|slice| slice.id == id);
            if let (Some(slice), Some(last)) = (slice, chosen.last()) {
                of_rows[slice.outputs.end - 1] = last.token;
            }
            for Chosen { token, text, logprobs } in chosen {
                pending.of_scheduler.push(scheduler::Event::Token { id, token });
                pending.of_caller.push(Event::Token { id, token, text, logprobs });
            }
            match end {
                Some(Ok(reason)) => pending.done(id, reason, state.usage(now)),
                Some(Err(error)) => pending.failed(id, error.into()),
                None => drop(requests.insert(id, state)),
            }
        }
        *ahead = ahead.take().map(|next| InProgress { step: next.step.with_tokens_of(&of_rows), ..next });
        if let Some(observer) = &mut self.observer {
            observer(&step, runner);
        }
        Ok(())
    }

    fn build_step(&self, chunks: Vec<Chunk>, slices: &[Slice]) -> Result<Step, backend::Error> {
        let mut tokens = Vec::with_capacity(chunks.iter().map(|chunk| chunk.tokens.len()).sum());
        let mut sequences = Vec::with_capacity(chunks.len());
        let mut outputs = Vec::with_capacity(slices.last().map_or(0, |slice| slice.outputs.end));
        let mut draws = Vec::with_capacity(outputs.capacity());
        // The observer may read the logits.
        let logits = self.observer.is_some();
        for (chunk, slice) in chunks.into_iter().zip(slices) {
            let Chunk { n_past, tables, slots, .. } = chunk;
            tokens.extend_from_slice(&chunk.tokens);
            sequences.push(Sequence { n_past, len: chunk.tokens.len(), tables, slots });
            let state = self.requests.get(&slice.id).filter(|_| slice.next > 0);
            let wanted = state.map_or(Wanted::Logits, |state| state.wanted(slice.position));
            let rows = tokens.len() as u32 - slice.outputs.len() as u32..tokens.len() as u32;
            outputs.extend(rows.map(|row| match wanted {
                Wanted::Tokens => OutputRow { logits, ..OutputRow::greedy(row) },
                Wanted::Candidates => OutputRow { logits, ..OutputRow::candidates(row) },
                Wanted::Drawn | Wanted::Logits => OutputRow::logits(row),
            }));
            let history = self.scheduler.tokens(slice.id).unwrap_or_default();
            let positions = slice.position..slice.position + slice.outputs.len();
            draws.extend(positions.map(|position| {
                let state = state.filter(|_| !logits)?;
                state.draw(slice.position, history.get(..position)?)
            }));
        }
        let step = Step::new(tokens, sequences, outputs)?.with_draws(draws)?;
        Ok(step.with_interrupt(self.interrupt.clone()))
    }
}

fn slices(chunks: &[Chunk]) -> Vec<Slice> {
    let mut outputs = 0;
    let slice = |chunk: &Chunk| {
        let from = outputs;
        outputs += chunk.outputs;
        Slice {
            id: chunk.id,
            n_past: chunk.n_past,
            position: chunk.n_past + chunk.tokens.len() - chunk.outputs,
            outputs: from..outputs,
            next: if chunk.is_last { 1 + chunk.drafted } else { 0 },
            is_decode: chunk.is_decode(),
        }
    };
    chunks.iter().map(slice).collect()
}

/// Waits for a step whose outputs nobody needs. If the device has failed, later steps fail, too.
fn discard(runner: &mut ModelRunner, step: InProgress) {
    if let Err(error) = runner.wait(step.submitted) {
        tracing::debug!(%error, "a step failed whose outputs nobody needs");
    }
}

/// Whether every row has a token, candidates or logits. A device returns none of these if no token can be sampled: a logit is NaN
/// or infinite, or none is finite, or all are ruled out. Only the logits show which.
fn are_answered(step: &Step, outputs: &Outputs<'_>) -> bool {
    (0..step.outputs().len()).all(|index| row_output(outputs, index).is_ok())
}

/// Passes the logits of a slice's rows to their observer, until it breaks.
fn show(
    state: &mut RequestState,
    slice: &Slice,
    outputs: &Outputs<'_>,
    mut caller: Option<&mut OnLogits<'_>>,
) -> Result<ControlFlow<()>, backend::Error> {
    for (index, position) in slice.outputs.clone().zip(slice.position..) {
        if state.shows(position) {
            let logits = outputs.logits(index).ok_or_else(|| nothing_for(index))?;
            if state.show(position, logits, caller.as_deref_mut()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn row_output<'a>(outputs: &'a Outputs<'_>, index: usize) -> Result<RowOutput<'a>, backend::Error> {
    let token = outputs.token(index).map(RowOutput::Token);
    let or_candidates = token.or_else(|| outputs.candidates(index).map(RowOutput::Candidates));
    let or_logits = or_candidates.or_else(|| outputs.logits(index).map(RowOutput::Logits));
    or_logits.ok_or_else(|| nothing_for(index))
}

fn nothing_for(index: usize) -> backend::Error {
    backend::Error::Step(format!("the backend gave nothing for output row {index}"))
}
