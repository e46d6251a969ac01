//! The state of a request: from logits to text and stop conditions.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::chat::TurnEnd;
use backend::{Answer, MAX_CANDIDATES, Output};
use tokenizer::{Detokenizer, Kind, Tokenizer};

use crate::Error;
use crate::model::Model;
use crate::observe::Observer;
use crate::params::Params;
use crate::request::{DraftCounts, Request, Usage};
use crate::sampling::{Logprobs, Sampler, SamplingError};
use crate::speculation::length::DraftLength;
use crate::stop::{NoEndBefore, StopReason, StopStrings};

/// State of a request, except its tokens, which the scheduler holds.
pub(crate) struct RequestState {
    sampler: Sampler,
    logprobs: Option<usize>,
    draw_logprobs: bool,
    /// The observer of the prompt's logits, and the position of the first row that it has not seen.
    observer: Option<(usize, Observer)>,
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    stop_ids: Vec<u32>,
    stop_strings: StopStrings,
    min_tokens: usize,
    max_tokens: Option<usize>,
    time_limit: Option<Duration>,
    has_line: bool,
    draft_length: DraftLength,
    usage: Usage,
    began: Option<Instant>,
    first_token: Option<Instant>,
}

impl RequestState {
    /// The state for `request`, whose prompt is already checked; and the prompt.
    pub(crate) fn new(request: Request, model: &Model) -> Result<(RequestState, Vec<u32>), Error> {
        let tokenizer = model.tokenizer().clone();
        let Request { prompt, params, turn_end, mut processors, observer, .. } = request;
        let Params { max_tokens, min_tokens, time_limit, logprobs, draw_logprobs, ignore_eos, .. } = params;
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
        let observer = observer.map(|(rows, observer)| (rows.first(prompt.len()), observer));
        let state = RequestState {
            sampler,
            logprobs,
            draw_logprobs,
            observer: observer.filter(|(first, _)| *first < prompt.len()),
            detokenizer: Detokenizer::following(tokenizer.clone(), &prompt),
            tokenizer,
            stop_ids,
            stop_strings: StopStrings::new(strings),
            min_tokens,
            max_tokens,
            time_limit,
            has_line: false,
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
    pub(crate) fn observed_from(&self) -> Option<usize> {
        self.observer.as_ref().map(|(first, _)| *first)
    }

    /// Those of `positions` whose logits the observer has not seen yet, and the observer; they count as seen from now on.
    pub(crate) fn observe(&mut self, positions: Range<usize>) -> Option<(Range<usize>, &Observer)> {
        let (first, observer) = self.observer.as_mut()?;
        let seen = positions.start.max(*first)..positions.end.min(self.usage.prompt_tokens);
        *first = seen.end.max(*first);
        (!seen.is_empty()).then_some((seen, &*observer))
    }

    /// What a row that yields a next token is to return, if the first one of the step is at `first`. `before` are the tokens
    /// before the row's own.
    pub(crate) fn output(&self, first: usize, before: Option<&[u32]>) -> Output {
        let is_observed =
            self.observed_from().is_some_and(|from| from <= first && first < self.usage.prompt_tokens);
        if self.logprobs.is_some() || self.is_spent() || is_observed {
            return Output::Logits;
        }
        if self.sampler.is_greedy() {
            return Output::Greedy;
        }
        if let Some(draw) = before.and_then(|before| self.sampler.draw(before)) {
            return Output::Draw(draw.into());
        }
        match self.sampler.candidates_needed() {
            Some(needed) if needed <= MAX_CANDIDATES => Output::Candidates,
            _ => Output::Logits,
        }
    }

    /// Chooses the token after `tokens`, with log-probabilities if requested.
    pub(crate) fn choose(
        &mut self,
        answer: Answer<'_>,
        tokens: &[u32],
    ) -> Result<(u32, Option<Logprobs>), SamplingError> {
        match answer {
            Answer::Token(token) => Ok((token, None)),
            Answer::Candidates(best) => Ok((self.sampler.sample_best(best, tokens)?, None)),
            Answer::Logits(logits) => {
                let token = self.sampler.sample(logits, tokens)?;
                let logprobs = self.logprobs.map(|top| {
                    if self.draw_logprobs {
                        self.sampler.draw_logprobs(token, top)
                    } else {
                        Logprobs::new(logits, token, top)
                    }
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
            self.has_line |= text.contains('\n');
            let is_late = self.has_line && self.time_limit.is_some_and(|limit| now - first > limit);
            if self.is_spent() || is_late {
                ended = Some(StopReason::MaxTokens);
            } else if len >= n_ctx {
                ended = Some(StopReason::ContextFull);
            }
        }
        if ended.is_some() {
            text += &self.detokenizer.finish();
        }
        let (mut printable, string) = if self.usage.generated_tokens > self.min_tokens {
            self.stop_strings.push(&text)
        } else {
            (text, None)
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
