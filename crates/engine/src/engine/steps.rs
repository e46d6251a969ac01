//! The steps of an [`Engine`]: plan, submit, wait, choose tokens.
//!
//! If a device samples tokens, and all requests decode, the next step is submitted before the outputs of the last one are waited
//! for: it takes tokens that only the device knows ([`Input::Ahead`](backend::Input::Ahead)). So the device waits neither for the host's choice of
//! text and stops nor for the plan. A request that has ended meanwhile has one row too many, whose outputs are dropped.

use std::ops::{ControlFlow, Range};
use std::time::Instant;

use backend::{Output, Outputs, Row, Step};
use runner::{ModelRunner, Submitted};

use super::Engine;
use crate::Error;
use crate::choose::{Choice, choose_all};
use crate::observe::{Observed, ObservedRow};
use crate::request::Event;
use crate::request_state::RequestState;
use crate::scheduler::{self, Chunk};
use crate::stop::StopReason;

/// A step that was submitted.
pub(super) struct InProgress {
    submitted: Submitted,
    step: Step,
    chunks: Vec<Chunk>,
    /// Whether it was submitted before the tokens of the step before were known.
    is_ahead: bool,
}

impl Engine {
    /// Runs one step.
    pub(super) fn advance(&mut self) -> Result<Vec<Event>, Error> {
        let began = Instant::now();
        let is_over =
            |step: &mut InProgress| !step.chunks.iter().any(|chunk| self.requests.contains_key(&chunk.id));
        if let Some(step) = self.ahead.take_if(is_over) {
            discard(&mut self.runner, step);
        }
        match self.run_one(began) {
            Ok([decoding, prompt_rows]) => {
                self.pace.measured(began.elapsed(), decoding, prompt_rows);
                Ok(std::mem::take(&mut self.pending.caller))
            }
            Err(error) => Err(self.ended_by(error)),
        }
    }

    /// Ends all requests, without events, because no result can be trusted.
    fn ended_by(&mut self, error: Error) -> Error {
        self.rollback();
        let ended = std::mem::take(&mut self.requests).into_keys();
        let ended = ended.map(|id| scheduler::Event::End { id, intact: false });
        // Requests that have ended before still have events for the scheduler.
        self.pending.scheduler.extend(ended);
        self.pending.caller.clear();
        error
    }

    /// Runs the step that was submitted ahead, or the next one. Returns its decode rows and its rows of prompts.
    fn run_one(&mut self, now: Instant) -> Result<[usize; 2], Error> {
        let ahead = self.ahead.take();
        let Some(current) = ahead.map_or_else(|| self.start(now), |ahead| Ok(Some(ahead)))? else {
            return Ok([0, 0]);
        };
        self.ahead = self.run_ahead(&current);
        let rows = current.step.rows().len();
        let decoding = current.chunks.iter().filter(|chunk| chunk.is_decode()).count();
        self.finish(current)?;
        Ok([decoding, rows - decoding])
    }

    /// Ends the step that was submitted ahead; the next step returns its events.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let settled = self.ahead.take().map_or(Ok(()), |step| self.finish(step));
        settled.map_err(|error| self.ended_by(error))
    }

    /// Plans and submits a step, if there is anything to do.
    fn start(&mut self, now: Instant) -> Result<Option<InProgress>, Error> {
        if let Some(speculator) = &mut self.speculator {
            speculator.on_events(&self.pending.scheduler);
        }
        let (pace, target) = (&self.pace, self.step_target);
        let prompt_rows = |active| target.map_or(usize::MAX, |target| pace.prompt_rows(target, active));
        let mut plan = self.scheduler.step(self.pending.scheduler.drain(..), prompt_rows);
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
        let chunks = plan.chunks;
        if chunks.is_empty() {
            return Ok(None);
        }
        let submitted = self.build_step(&chunks).and_then(|step| Ok((self.runner.submit(&step)?, step)));
        match submitted {
            Ok((submitted, step)) => Ok(Some(InProgress { submitted, step, chunks, is_ahead: false })),
            Err(error) => {
                self.model.file().check_intact()?;
                self.failed(chunks, error);
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
            || !self.pending.scheduler.iter().all(is_text)
            || !current.step.transfer().are_tokens()
            || !current.chunks.iter().all(|chunk| chunk.next_tokens() == 1 && chunk.outputs == 1)
        {
            return None;
        }
        let n_ctx = self.limits().n_ctx;
        let mut next = Vec::new();
        for (row, chunk) in (0..).zip(&current.chunks) {
            let Some(state) = self.requests.get(&chunk.id) else { continue };
            // The row ahead is one position later; its token must fit the context, too.
            if !state.ends_with_next() && chunk.output_position() + 2 < n_ctx {
                next.push((chunk.id, row));
            }
        }
        if next.is_empty() || !self.runner.can_follow(&current.submitted, next.len()) {
            return None;
        }
        let chunks = self.scheduler.follow(self.pending.scheduler.drain(..), &next)?;
        let submitted = self.build_step(&chunks).and_then(|step| {
            let can_run = step.transfer().are_tokens();
            Ok(if can_run { Some((self.runner.submit(&step)?, step)) } else { None })
        });
        // A step that fails is submitted again, and fails again, once the current one has ended.
        let submitted =
            submitted.inspect_err(|error| tracing::debug!(%error, "no step ahead")).ok().flatten();
        if submitted.is_none() {
            self.scheduler.rollback();
        }
        submitted.map(|(submitted, step)| InProgress { submitted, step, chunks, is_ahead: true })
    }

    /// Drops the step that was submitted ahead: its rows are computed again.
    fn rollback(&mut self) {
        if let Some(step) = self.ahead.take() {
            discard(&mut self.runner, step);
        }
        self.scheduler.rollback();
    }

    /// Waits for a step, and chooses tokens. A failure of the backend ends its requests.
    fn finish(&mut self, current: InProgress) -> Result<(), Error> {
        let InProgress { submitted, step, chunks, is_ahead } = current;
        if is_ahead {
            // The tokens of the step before belong to the history from which tokens are chosen now.
            self.scheduler.commit(&mut self.pending.scheduler);
        }
        match self.finish_step(submitted, step, &chunks) {
            Err(Error::Backend(error)) => {
                self.rollback();
                if is_ahead && error != backend::Error::Interrupted {
                    // Blocks that it has filled may have been published.
                    self.pending.scheduler.push(scheduler::Event::Clear);
                }
                self.failed(chunks, error);
                Ok(())
            }
            finished => finished,
        }
    }

    /// Ends the requests of a failed step. After an interrupt, their rows are planned again.
    fn failed(&mut self, chunks: Vec<Chunk>, error: backend::Error) {
        if error == backend::Error::Interrupted {
            self.interrupt.lower();
            let rewind =
                |chunk: Chunk| scheduler::Event::Rewind { id: chunk.id, n_past: chunk.sequence.n_past };
            self.pending.scheduler.extend(chunks.into_iter().map(rewind));
            return;
        }
        for Chunk { id, .. } in chunks {
            if self.requests.remove(&id).is_some() {
                self.pending.push(Event::Failed { id, error: error.clone().into() });
            }
        }
    }

    fn finish_step(&mut self, submitted: Submitted, mut step: Step, chunks: &[Chunk]) -> Result<(), Error> {
        let Engine { model, runner, scheduler, requests, pending, ahead, sampling_threads, drafts, .. } =
            self;
        let waited = runner.wait(submitted);
        model.file().check_intact()?;
        let mut outputs = waited?;
        // A device returns nothing for a row if no token can be sampled: a logit is NaN or infinite, or none is finite, or all are
        // ruled out. Only the logits show which.
        if (0..step.outputs().len()).any(|index| outputs.answer(index).is_err()) {
            if let Some(next) = ahead.take() {
                discard(runner, next);
            }
            scheduler.rollback();
            // Rerun the step with logits. It overwrites the same cache slots.
            let logits = |row: &Row| match row.output {
                Output::None => row.clone(),
                _ => Row { output: Output::Logits, ..row.clone() },
            };
            step = Step::new(step.rows().iter().map(logits).collect(), step.sequences().to_vec())?;
            let again = runner.run(&step);
            model.file().check_intact()?;
            outputs = again?;
        }
        let now = Instant::now();
        let n_ctx = scheduler.limits().n_ctx;
        let logits_name = &model.graph().value(model.graph().output()).name;
        let mut choices = Vec::with_capacity(chunks.len());
        for (chunk, rows) in with_outputs(chunks) {
            let id = chunk.id;
            let Some(state) = requests.get_mut(&id) else { continue };
            let tokens = scheduler.tokens(id).unwrap_or_default();
            let observed = show(state, logits_name, (chunk, tokens), rows.start, &outputs);
            let is_over = observed != Ok(ControlFlow::Continue(())) || chunk.next_tokens() > 0;
            let Some(state) = is_over.then(|| requests.remove(&id)).flatten() else { continue };
            let reason = match observed {
                Err(error) => {
                    pending.push(Event::Failed { id, error: error.into() });
                    continue;
                }
                Ok(ControlFlow::Break(())) => Some(StopReason::Cancelled),
                Ok(ControlFlow::Continue(())) => state.is_spent().then_some(StopReason::MaxTokens),
            };
            if let Some(reason) = reason {
                pending.push(Event::Done { id, reason, usage: state.usage(now) });
                continue;
            }
            let next = rows.end - chunk.next_tokens()..rows.end;
            match next.map(|index| outputs.answer(index)).collect() {
                Ok(answers) => choices.push(Choice::new(id, state, tokens, answers)),
                Err(error) => pending.push(Event::Failed { id, error: error.into() }),
            }
        }
        choose_all(&mut choices, *sampling_threads, n_ctx, now);
        let mut chosen = vec![0; step.outputs().len()];
        for Choice { id, state, events, last, drafts: counts, is_over, .. } in choices {
            *drafts += counts;
            let rows = with_outputs(chunks).find(|(chunk, _)| chunk.id == id).map(|(_, rows)| rows);
            if let (Some(rows), Some(last)) = (rows, last) {
                chosen[rows.end - 1] = last;
            }
            events.into_iter().for_each(|event| pending.push(event));
            if !is_over {
                requests.insert(id, state);
            }
        }
        if let Some(next) = ahead {
            next.step.resolve(&chosen);
        }
        self.show_values(chunks)
    }

    /// Shows the values of a step to the observer of the engine.
    fn show_values(&mut self, chunks: &[Chunk]) -> Result<(), Error> {
        let Some((names, observer)) = &self.observer else { return Ok(()) };
        let graph = self.model.graph();
        let is_output = |chunk: &Chunk, row: &ObservedRow| row.position >= chunk.output_position();
        let mut flow = ControlFlow::Continue(());
        for name in names {
            let has_all = graph.find(name).is_some_and(|id| graph.value(id).rows == graph::Rows::Step);
            let chunk_rows = |chunk: &'_ Chunk| -> Vec<ObservedRow> {
                let tokens = self.scheduler.tokens(chunk.id).unwrap_or_default();
                let row = |position| ObservedRow { request: chunk.id, position, token: tokens[position] };
                let rows = chunk.sequence.positions().map(row);
                rows.filter(|row| has_all || is_output(chunk, row)).collect()
            };
            let rows: Vec<ObservedRow> = chunks.iter().flat_map(chunk_rows).collect();
            let observed = Observed { name, rows: &rows, values: self.runner.read(name)? };
            if flow.is_continue() {
                flow = observer.show(observed);
            }
        }
        if flow.is_break() {
            chunks.iter().for_each(|chunk| self.cancel(chunk.id));
        }
        Ok(())
    }

    fn build_step(&self, chunks: &[Chunk]) -> Result<Step, backend::Error> {
        let mut rows = Vec::with_capacity(chunks.iter().map(|chunk| chunk.sequence.len).sum());
        let mut sequences = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let state = self.requests.get(&chunk.id).filter(|_| chunk.next_tokens() > 0);
            let history = self.scheduler.tokens(chunk.id).unwrap_or_default();
            let first = chunk.output_position();
            let output =
                |position| state.map_or(Output::Logits, |state| state.output(first, history.get(..position)));
            rows.extend(self.scheduler.rows(chunk, output));
            sequences.push(chunk.sequence.clone());
        }
        Ok(Step::new(rows, sequences)?.with_interrupt(self.interrupt.clone()))
    }
}

/// The chunks of a step, each with its range of output rows.
fn with_outputs(chunks: &[Chunk]) -> impl Iterator<Item = (&Chunk, Range<usize>)> {
    chunks.iter().scan(0, |end, chunk| {
        *end += chunk.outputs;
        Some((chunk, *end - chunk.outputs..*end))
    })
}

/// Waits for a step whose outputs are not needed. If the device has failed, later steps fail, too.
fn discard(runner: &mut ModelRunner, step: InProgress) {
    if let Err(error) = runner.wait(step.submitted) {
        tracing::debug!(%error, "a step failed whose outputs are not needed");
    }
}

/// Shows the logits of a chunk's output rows, the first of which is `first`, to the observer of the request with these tokens.
fn show(
    state: &mut RequestState,
    name: &str,
    (chunk, tokens): (&Chunk, &[u32]),
    first: usize,
    outputs: &Outputs<'_>,
) -> Result<ControlFlow<()>, backend::Error> {
    let start = chunk.output_position();
    let Some((positions, observer)) = state.observe(start..start + chunk.outputs) else {
        return Ok(ControlFlow::Continue(()));
    };
    let row = |position| ObservedRow { request: chunk.id, position, token: tokens[position] };
    for position in positions {
        let values = outputs.logits(first + position - start);
        let values = values.ok_or_else(|| backend::Error::Step("the backend returned no logits".into()))?;
        if observer.show(Observed { name, rows: &[row(position)], values }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
