//! A request on its way: from its logits to its text and its end.

use std::sync::Arc;
use std::time::Instant;

use tokenizer::{Detokenizer, Kind, Tokenizer};

use crate::Error;
use crate::request::{Request, Usage};
use crate::sampling::{Sampler, SamplingError};
use crate::stop::{Stop, StopReason, StopStrings};

/// What the engine remembers of a request besides its tokens, which are with the scheduler.
#[derive(Debug)]
pub(crate) struct Active {
    sampler: Sampler,
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    stop_ids: Vec<u32>,
    stop_strings: StopStrings,
    max_tokens: Option<usize>,
    usage: Usage,
    began: Option<Instant>,
    first_token: Option<Instant>,
}

impl Active {
    /// For `request`, whose prompt has been checked.
    pub(crate) fn new(request: Request, tokenizer: Arc<Tokenizer>) -> Result<(Active, Vec<u32>), Error> {
        let Stop { ids: stop_ids, strings, ignore_eog } = request.stop;
        if strings.iter().any(String::is_empty) {
            return Err(Error::EmptyStopString);
        }
        let n_vocab = tokenizer.vocab_size();
        let mut sampling = request.sampling;
        if let Some(&(token, _)) = sampling.logit_bias.iter().find(|(token, _)| *token as usize >= n_vocab) {
            return Err(SamplingError::Bias { token, n_vocab }.into());
        }
        if ignore_eog {
            let ends = tokenizer.special_ids().end_of_generation.iter();
            sampling.logit_bias.extend(ends.map(|&id| (id, f32::NEG_INFINITY)));
        }
        let sampler = Sampler::new(sampling)?;
        let seed = sampler.seed();
        // After special tokens alone the answer begins the text, so the space that SentencePiece puts
        // before every text is not part of it.
        let begins = request.prompt.iter().all(|&id| tokenizer.kind(id).is_some_and(Kind::is_special));
        let detokenizer = if begins { Detokenizer::new } else { Detokenizer::continuing };
        let active = Active {
            sampler,
            detokenizer: detokenizer(tokenizer.clone()),
            tokenizer,
            stop_ids,
            stop_strings: StopStrings::new(strings),
            max_tokens: request.max_tokens,
            usage: Usage { prompt_tokens: request.prompt.len(), seed, ..Usage::default() },
            began: None,
            first_token: None,
        };
        Ok((active, request.prompt))
    }

    /// Its first step begins; `reused` tokens of the prompt were in the cache.
    pub(crate) fn begin(&mut self, reused: usize, now: Instant) {
        self.usage.reused_tokens = reused;
        self.began = Some(now);
    }

    /// Chooses the token after `tokens`.
    pub(crate) fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, SamplingError> {
        self.sampler.sample(logits, tokens)
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
