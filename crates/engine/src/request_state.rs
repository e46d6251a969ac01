//! The state of a request: from logits to text and stop conditions.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ::chat::TurnEnd;
use backend::{Draw, MAX_CANDIDATES, Wanted};
use tokenizer::{Detokenizer, Kind, Tokenizer};

use crate::Error;
use crate::model::Model;
use crate::params::Params;
use crate::request::{DraftCounts, LogitRows, Request, Usage};
use crate::sampling::{Logprobs, Sampler, SamplingError};
use crate::speculation::length::DraftLength;
use crate::stop::{NoEndBefore, StopReason, StopStrings};

/// Receives a position and the logits after its token.
pub(crate) type OnLogits<'a> = dyn FnMut(usize, &[f32]) -> ControlFlow<()> + 'a;

type OwnObserver = dyn FnMut(usize, &[f32]) -> ControlFlow<()> + Send;

/// The observer of a prompt's logits; `None` is the caller of the step.
pub(crate) type Observer = Option<Box<OwnObserver>>;

/// Prompt rows, from position `next` on, whose logits are observed.
struct PromptLogits {
    next: usize,
    observer: Observer,
}

/// Output of a row that needs a next token: logits or the best candidates to sample from, or a token sampled on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowOutput<'a> {
    Logits(&'a [f32]),
    Candidates(&'a [(u32, f32)]),
    Token(u32),
}

/// State of a request, except its tokens, which the scheduler holds.
pub(crate) struct RequestState {
    sampler: Sampler,
    logprobs: Option<usize>,
    logprobs_of_draw: bool,
    prompt_logits: Option<PromptLogits>,
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    stop_ids: Vec<u32>,
    stop_strings: StopStrings,
    min_tokens: usize,
    max_tokens: Option<usize>,
    draft_length: DraftLength,
    usage: Usage,
    began: Option<Instant>,
    first_token: Option<Instant>,
}

impl RequestState {
    /// The state for `request`, whose prompt is already checked, with the rows to observe; and the prompt.
    pub(crate) fn new(
        request: Request,
        observed: Option<(LogitRows, Observer)>,
        model: &Model,
    ) -> Result<(RequestState, Vec<u32>), Error> {
        let tokenizer = model.tokenizer().clone();
        let Request { prompt, params, turn_end, mut processors, .. } = request;
        let Params { max_tokens, min_tokens, logprobs, logprobs_of_draw, ignore_eos, .. } = params;
        let (mut strings, mut stop_ids) = (params.stop.clone(), params.stop_token_ids.clone());
        match turn_end {
            Some(TurnEnd::Token(id)) => stop_ids.push(id),
            Some(TurnEnd::Text(text)) => strings.push(text),
            None => {}
        }
        if strings.iter().any(String::is_empty) {
            return Err(Error::EmptyStopString);
        }
        if let Some(max) = max_tokens.filter(|&max| max < min_tokens) {
            return Err(Error::MinTokens { min: min_tokens, max });
        }
        let special = tokenizer.special_ids();
        let ends = special.end_of_generation.iter().copied();
        let mut banned: Vec<u32> = special.suppressed.iter().copied().collect();
        if ignore_eos {
            banned.extend(ends.clone());
        }
        if min_tokens > 0 {
            let ends = ends.chain(stop_ids.iter().copied()).collect();
            processors.push(Box::new(NoEndBefore::new(prompt.len().saturating_add(min_tokens), ends)));
        }
        let sampler = Sampler::with(params, banned, processors, model.breakers(), &tokenizer)?;
        let seed = sampler.seed();
        let first = |(rows, observer): (LogitRows, Observer)| {
            let next = rows.first(prompt.len());
            (next < prompt.len()).then_some(PromptLogits { next, observer })
        };
        let state = RequestState {
            sampler,
            logprobs,
            logprobs_of_draw,
            prompt_logits: observed.and_then(first),
            detokenizer: Detokenizer::following(tokenizer.clone(), &prompt),
            tokenizer,
            stop_ids,
            stop_strings: StopStrings::new(strings),
            min_tokens,
            max_tokens,
            draft_length: DraftLength::default(),
            usage: Usage { prompt_tokens: prompt.len(), seed, ..Usage::default() },
            began: None,
            first_token: None,
        };
        Ok((state, prompt))
    }

    /// Called at the first step; `reused` prompt tokens were cached.
    pub(crate) fn begin(&mut self, reused: usize, now: Instant) {
        self.usage.reused_tokens = reused;
        self.began = Some(now);
    }

    /// The first prompt row that is still to be observed.
    pub(crate) fn shows_from(&self) -> Option<usize> {
        self.prompt_logits.as_ref().map(|shown| shown.next)
    }

    /// Whether the row at `position` is to be observed.
    pub(crate) fn shows(&self, position: usize) -> bool {
        let next = self.shows_from().unwrap_or(usize::MAX);
        (next..self.usage.prompt_tokens).contains(&position)
    }

    /// Whether nothing less than logits will do for rows that yield a next token, if the first one is at `position`.
    fn needs_logits(&self, position: usize) -> bool {
        self.logprobs.is_some() || self.is_spent() || self.shows(position)
    }

    /// What a row that yields a next token needs, if the first one is at `position` and the device does not draw.
    pub(crate) fn wanted(&self, position: usize) -> Wanted {
        if self.needs_logits(position) {
            return Wanted::Logits;
        }
        match self.sampler.candidates_needed() {
            _ if self.sampler.is_greedy() => Wanted::Tokens,
            Some(needed) if needed <= MAX_CANDIDATES => Wanted::Candidates,
            _ => Wanted::Logits,
        }
    }

    /// How the device may draw the token after a row, if the first row that yields one is at `position`. `before` are the tokens before
    /// the row's own. `None` if only the host can choose it, or if it is the argmax.
    pub(crate) fn draw(&self, position: usize, before: &[u32]) -> Option<Draw> {
        if self.needs_logits(position) { None } else { self.sampler.draw(before) }
    }

    /// Passes the logits of the row at `position`, which is to be [observed](RequestState::shows), to the observer.
    /// Without `caller`, logits for the caller are dropped.
    pub(crate) fn show(
        &mut self,
        position: usize,
        logits: &[f32],
        caller: Option<&mut OnLogits<'_>>,
    ) -> ControlFlow<()> {
        let Some(shown) = &mut self.prompt_logits else { return ControlFlow::Continue(()) };
        shown.next = position + 1;
        match (&mut shown.observer, caller) {
            (Some(observer), _) => observer(position, logits),
            (None, Some(caller)) => caller(position, logits),
            (None, None) => ControlFlow::Break(()),
        }
    }

    /// Chooses the token after `tokens`, with log-probabilities if requested.
    pub(crate) fn choose(
        &mut self,
        output: RowOutput<'_>,
        tokens: &[u32],
    ) -> Result<(u32, Option<Logprobs>), SamplingError> {
        match output {
            RowOutput::Token(token) => Ok((token, None)),
            RowOutput::Candidates(best) => Ok((self.sampler.sample_best(best, tokens)?, None)),
            RowOutput::Logits(logits) => {
                let token = self.sampler.sample(logits, tokens)?;
                let logprobs = self.logprobs.map(|top| match self.logprobs_of_draw {
                    true => self.sampler.logprobs_of_draw(token, top),
                    false => Logprobs::new(logits, token, top),
                });
                Ok((token, logprobs))
            }
        }
    }

    /// Appends `token`, the last of `len` tokens in a context of `n_ctx`. Returns the text to print and the stop
    /// reason, if any.
    pub(crate) fn accept(
        &mut self,
        token: u32,
        len: usize,
        n_ctx: usize,
        now: Instant,
    ) -> (String, Option<StopReason>) {
        let first = *self.first_token.get_or_insert(now);
        self.usage.generated_tokens += 1;
        self.usage.prefill = self.began.map_or(self.usage.prefill, |began| first - began);
        self.usage.decode = now - first;

        let (mut text, mut ended) = (String::new(), None);
        if self.tokenizer.ends_generation(token) {
            ended = Some(StopReason::Eog(token));
        } else if self.stop_ids.contains(&token) {
            ended = Some(StopReason::StopId(token));
        } else {
            text = self.detokenizer.push(token);
            if self.is_spent() {
                ended = Some(StopReason::MaxTokens);
            } else if len >= n_ctx {
                ended = Some(StopReason::ContextFull);
            }
        }
        if ended.is_some() {
            text += &self.detokenizer.finish();
        }
        let (mut printable, string) = match self.usage.generated_tokens > self.min_tokens {
            true => self.stop_strings.push(&text),
            false => (text, None),
        };
        // A special token ends what may be the beginning of a stop string, and may be a mark in the answer.
        if string.is_none() && self.tokenizer.kind(token).is_some_and(Kind::is_special) {
            printable += &self.stop_strings.flush();
        }
        let ended = string.map(StopReason::StopString).or(ended);
        match ended {
            Some(_) => printable += &self.stop_strings.flush(),
            None => self.sampler.chosen(token),
        }
        (printable, ended)
    }

    /// Tokens to draft for the next step, at least `least` or none: no more than `most`, and than it may still generate
    /// besides the one that the step yields anyway. Called once a step.
    pub(crate) fn draft_length(&mut self, least: usize, most: usize) -> usize {
        let left =
            self.max_tokens.map_or(usize::MAX, |max| max.saturating_sub(self.usage.generated_tokens + 1));
        // The first token is not drafted: rows of the prompt are observed.
        let most = if self.first_token.is_some() { most.min(left) } else { 0 };
        let length = self.draft_length.next(least, most);
        if length < least { 0 } else { length }
    }

    /// A draft was verified.
    pub(crate) fn verified(&mut self, counts: DraftCounts) {
        self.draft_length.verified(counts.drafted as usize, counts.accepted as usize);
        self.usage.drafts += counts;
    }

    /// Whether it has generated `max_tokens`.
    pub(crate) fn is_spent(&self) -> bool {
        self.max_tokens.is_some_and(|most| self.usage.generated_tokens >= most)
    }

    /// Whether the next token is the last one by `max_tokens`.
    pub(crate) fn ends_with_next(&self) -> bool {
        self.max_tokens.is_some_and(|most| self.usage.generated_tokens + 1 >= most)
    }

    pub(crate) fn usage(&self, now: Instant) -> Usage {
        match (self.began, self.first_token) {
            (Some(began), None) => Usage { prefill: now - began, ..self.usage },
            _ => self.usage,
        }
    }
}
