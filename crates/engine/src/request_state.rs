//! A request on its way: from its logits to its text and its end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use tokenizer::{Detokenizer, Kind, Tokenizer};

use crate::Error;
use crate::request::{LogitRows, Request, Usage};
use crate::sampling::{Logprobs, Sampler, SamplingError};
use crate::stop::{Stop, StopReason, StopStrings};

/// Who is shown logits: a position, and the logits after its token.
pub(crate) type OnLogits<'a> = dyn FnMut(usize, &[f32]) -> ControlFlow<()> + 'a;

/// One that a request brings.
type OwnObserver = dyn FnMut(usize, &[f32]) -> ControlFlow<()> + Send;

/// Who is shown the logits of a prompt.
pub(crate) enum Observer {
    /// A function of the request's own.
    Own(Box<OwnObserver>),
    /// Whoever runs the step.
    Caller,
}

/// The rows of a prompt whose logits are shown.
struct PromptLogits {
    /// The next one.
    next: usize,
    observer: Observer,
}

/// The logits of a row whose request goes on with a token, or the token itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowOutput<'a> {
    /// To be sampled from.
    Logits(&'a [f32]),
    /// What was chosen where the logits are.
    Token(u32),
}

/// What the engine remembers of a request besides its tokens, which are with the scheduler.
pub(crate) struct RequestState {
    sampler: Sampler,
    logprobs: Option<usize>,
    prompt_logits: Option<PromptLogits>,
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    stop_ids: Vec<u32>,
    stop_strings: StopStrings,
    max_tokens: Option<usize>,
    usage: Usage,
    began: Option<Instant>,
    first_token: Option<Instant>,
}

impl RequestState {
    /// For `request`, whose prompt has been checked, and the rows whose logits are to be shown. Returns its prompt, too.
    pub(crate) fn new(
        request: Request,
        observed: Option<(LogitRows, Observer)>,
        tokenizer: Arc<Tokenizer>,
    ) -> Result<(RequestState, Vec<u32>), Error> {
        let Request { prompt, sampling, stop, max_tokens, sequence: _, logprobs, processors } = request;
        let Stop { ids: stop_ids, strings, ignore_eog } = stop;
        if strings.iter().any(String::is_empty) {
            return Err(Error::EmptyStopString);
        }
        let n_vocab = tokenizer.vocab_size();
        let mut sampling = sampling;
        if let Some(&(token, _)) = sampling.logit_bias.iter().find(|(token, _)| *token as usize >= n_vocab) {
            return Err(SamplingError::Bias { token, n_vocab }.into());
        }
        if ignore_eog {
            let ends = tokenizer.special_ids().end_of_generation.iter();
            sampling.logit_bias.extend(ends.map(|&id| (id, f32::NEG_INFINITY)));
        }
        let sampler = Sampler::new(sampling)?.with(processors);
        let seed = sampler.seed();
        // After special tokens alone the answer begins the text, so the space that SentencePiece puts
        // before every text is not part of it.
        let begins = prompt.iter().all(|&id| tokenizer.kind(id).is_some_and(Kind::is_special));
        let detokenizer = if begins { Detokenizer::new } else { Detokenizer::continuing };
        let first = |(rows, observer): (LogitRows, Observer)| {
            let next = rows.first(prompt.len());
            (next < prompt.len()).then_some(PromptLogits { next, observer })
        };
        let state = RequestState {
            sampler,
            logprobs,
            prompt_logits: observed.and_then(first),
            detokenizer: detokenizer(tokenizer.clone()),
            tokenizer,
            stop_ids,
            stop_strings: StopStrings::new(strings),
            max_tokens,
            usage: Usage { prompt_tokens: prompt.len(), seed, ..Usage::default() },
            began: None,
            first_token: None,
        };
        Ok((state, prompt))
    }

    /// Its first step begins; `reused` tokens of the prompt were in the cache.
    pub(crate) fn begin(&mut self, reused: usize, now: Instant) {
        self.usage.reused_tokens = reused;
        self.began = Some(now);
    }

    /// The first row of the prompt whose logits are still to be shown.
    pub(crate) fn shows_from(&self) -> Option<usize> {
        self.prompt_logits.as_ref().map(|shown| shown.next)
    }

    /// Whether the logits of the row at `position` are to be shown.
    pub(crate) fn shows(&self, position: usize) -> bool {
        let next = self.shows_from().unwrap_or(usize::MAX);
        (next..self.usage.prompt_tokens).contains(&position)
    }

    /// Whether all that is asked of the row at `position` is the token with the largest logit, so that a device can
    /// choose it.
    pub(crate) fn is_token_only(&self, position: usize) -> bool {
        self.sampler.is_greedy() && self.logprobs.is_none() && !self.is_spent() && !self.shows(position)
    }

    /// Shows the logits of the row at `position`, one that it [shows](RequestState::shows); without `caller` nobody looks
    /// at those that are the caller's.
    pub(crate) fn show(
        &mut self,
        position: usize,
        logits: &[f32],
        caller: Option<&mut OnLogits<'_>>,
    ) -> ControlFlow<()> {
        let Some(shown) = &mut self.prompt_logits else { return ControlFlow::Continue(()) };
        shown.next = position + 1;
        match (&mut shown.observer, caller) {
            (Observer::Own(observer), _) => observer(position, logits),
            (Observer::Caller, Some(caller)) => caller(position, logits),
            (Observer::Caller, None) => ControlFlow::Break(()),
        }
    }

    /// Chooses the token after `tokens`, and what is asked for with it.
    pub(crate) fn choose(
        &mut self,
        output: RowOutput<'_>,
        tokens: &[u32],
    ) -> Result<(u32, Option<Logprobs>), SamplingError> {
        match output {
            RowOutput::Token(token) => Ok((token, None)),
            RowOutput::Logits(logits) => {
                let token = self.sampler.sample(logits, tokens)?;
                Ok((token, self.logprobs.map(|top| Logprobs::new(logits, token, top))))
            }
        }
    }

    /// Takes note of `token`, after which the sequence has `len` tokens of at most `n_ctx`. Returns
    /// what may be printed now and, when it is the last token, why.
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

        let ended = if self.tokenizer.ends_generation(token) {
            Some(StopReason::Eog(token))
        } else {
            self.stop_ids.contains(&token).then_some(StopReason::StopId(token))
        };
        let mut text = String::new();
        if ended.is_none() {
            text = self.detokenizer.push(token);
        }
        let ended = ended.or_else(|| self.is_spent().then_some(StopReason::MaxTokens));
        let ended = ended.or_else(|| (len >= n_ctx).then_some(StopReason::ContextFull));
        if ended.is_some() {
            text += &self.detokenizer.finish();
        }
        let (mut printable, string) = self.stop_strings.push(&text);
        let ended = string.map(StopReason::StopString).or(ended);
        if ended.is_some() {
            printable += &self.stop_strings.flush();
        }
        (printable, ended)
    }

    /// Whether it has generated all the tokens it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.max_tokens.is_some_and(|most| self.usage.generated_tokens >= most)
    }

    /// What it took so far.
    pub(crate) fn usage(&self, now: Instant) -> Usage {
        match (self.began, self.first_token) {
            (Some(began), None) => Usage { prefill: now - began, ..self.usage },
            _ => self.usage,
        }
    }
}
