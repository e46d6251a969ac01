//! From what the engine generates to the parts of an answer.

use std::time::{Duration, Instant};

use std::sync::Arc;

use chat::{Answer, AnswerParser, Delta};
use engine::{Event, Logprobs, RequestError, SamplingError, StopReason, Usage};
use serde_json::{Value as Json, json};

use crate::error::{ApiError, Kind};
use crate::models::Served;
use crate::quota::Meter;
use crate::watch::Progress;
use crate::worker::{Update, Updates};

/// A token with its log-probabilities.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) token: u32,
    pub(crate) logprobs: Logprobs,
}

/// News of an answer.
#[derive(Debug)]
pub(crate) enum News {
    /// More of answer number `index`: at most a token.
    More {
        index: usize,
        deltas: Vec<Delta>,
        token: Option<u32>,
        chosen: Option<Chosen>,
        progress: Option<Progress>,
    },
    /// Answer number `index` has ended.
    Done { index: usize, deltas: Vec<Delta>, reason: StopReason, usage: Usage },
}

/// The answers of a job.
pub(crate) struct Answers {
    updates: Updates,
    parsers: Vec<AnswerParser>,
    open: usize,
    /// Tokens of the prompts, where their log-probabilities were asked for.
    prompts: Vec<Vec<Chosen>>,
    /// Counts the client's tokens.
    meter: Option<Arc<Meter>>,
}

impl Answers {
    /// Whose tokens `meter` counts; those of prompts are counted already.
    pub(crate) fn new(updates: Updates, parsers: Vec<AnswerParser>, meter: Option<Arc<Meter>>) -> Answers {
        let n = parsers.len();
        Answers { updates, parsers, open: n, prompts: vec![Vec::new(); n], meter }
    }

    /// The tokens of the prompt of answer number `index`, but for the first. They are there with the first news of it.
    pub(crate) fn take_prompt(&mut self, index: usize) -> Vec<Chosen> {
        std::mem::take(&mut self.prompts[index])
    }

    /// What is next; none when all answers have ended. Fails if one of them does.
    pub(crate) async fn next(&mut self) -> Result<Option<News>, ApiError> {
        if self.open == 0 {
            return Ok(None);
        }
        let (index, update) = loop {
            match self.updates.recv().await {
                Some((index, Update::Prompt(token, logprobs))) => {
                    self.prompts[index].push(Chosen { token, logprobs });
                }
                Some(update) => break update,
                None => return Err(ApiError::internal(crate::worker::ENDED)),
            }
        };
        match update {
            Update::Engine(Event::Token { token, text, logprobs, .. }) => {
                self.meter.iter().for_each(|meter| meter.charge(1));
                let deltas = self.parsers[index].push(token, &text);
                let chosen = logprobs.map(|logprobs| Chosen { token, logprobs });
                Ok(Some(News::More { index, deltas, token: Some(token), chosen, progress: None }))
            }
            Update::Engine(Event::Done { reason, usage, .. }) => {
                self.open -= 1;
                let parser = &mut self.parsers[index];
                let mut deltas = if reason.is_cut() { parser.cut() } else { parser.finish() };
                // A call within which the model ends stays what was passed on of it.
                deltas.retain(|delta| !matches!(delta, Delta::ToolCallBroken { .. }));
                Ok(Some(News::Done { index, deltas, reason, usage }))
            }
            Update::Engine(Event::Failed { error, .. }) => Err(failed(&error)),
            Update::Refused(error) => Err(error),
            Update::Progress(progress) => Ok(Some(silence(index, Some(progress)))),
            Update::Accepted | Update::Prompt(..) => Ok(Some(silence(index, None))),
        }
    }
}

/// News without a token.
fn silence(index: usize, progress: Option<Progress>) -> News {
    News::More { index, deltas: Vec::new(), token: None, chosen: None, progress }
}

/// A grammar or biases that leave no token are the client's own.
fn failed(error: &RequestError) -> ApiError {
    match error {
        RequestError::Sampling(SamplingError::RuledOut | SamplingError::Failed(_)) => {
            ApiError::new(Kind::Invalid, error.to_string())
        }
        _ => ApiError::internal(error.to_string()),
    }
}

/// One answer, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// Tokens while the answer was reasoning.
    pub(crate) reasoning_tokens: usize,
    /// Tool calls that are complete.
    calls: usize,
    /// A call has begun and is not complete.
    is_calling: bool,
}

impl Reply {
    /// Adds the parts of one token.
    pub(crate) fn push(&mut self, deltas: Vec<Delta>) {
        self.count(&deltas);
        deltas.into_iter().for_each(|delta| self.answer.push(delta));
    }

    /// Counts the parts of one token, without keeping them.
    pub(crate) fn count(&mut self, deltas: &[Delta]) {
        let is_reasoning = deltas.iter().any(|delta| matches!(delta, Delta::Reasoning(_)));
        self.reasoning_tokens += usize::from(is_reasoning);
        for delta in deltas {
            match delta {
                Delta::ToolCallBegin { .. } => self.is_calling = true,
                Delta::ToolCallEnd { .. } => (self.calls, self.is_calling) = (self.calls + 1, false),
                Delta::ToolCallBroken { .. } => self.is_calling = false,
                // It stays one that is not complete.
                Delta::ToolCallCut { .. } => {}
                Delta::Reasoning(_) | Delta::Content(_) | Delta::ToolCallArguments { .. } => {}
            }
        }
    }

    /// Whether it has ended with tool calls, all of which are complete.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0 && !self.is_calling
    }
}

/// Token counts of all answers to one prompt, in OpenAI's shape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    prompt: usize,
    cached: usize,
    generated: usize,
    reasoning: usize,
}

impl Totals {
    /// Adds an answer. Several answers have one prompt.
    pub(crate) fn add(&mut self, usage: &Usage, reasoning_tokens: usize) {
        // The first to be computed found the least in the cache: its prompt, then, is there for the others.
        let is_first = self.prompt == 0;
        self.cached = if is_first { usage.reused_tokens } else { self.cached.min(usage.reused_tokens) };
        self.prompt = usage.prompt_tokens;
        self.generated += usage.generated_tokens;
        self.reasoning += reasoning_tokens;
    }

    /// Of several prompts.
    pub(crate) fn sum(totals: &[Totals]) -> Totals {
        totals.iter().fold(Totals::default(), |sum, of| Totals {
            prompt: sum.prompt + of.prompt,
            cached: sum.cached + of.cached,
            generated: sum.generated + of.generated,
            reasoning: sum.reasoning + of.reasoning,
        })
    }

    pub(crate) fn json(&self) -> Json {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": { "cached_tokens": self.cached },
            "completion_tokens_details": { "reasoning_tokens": self.reasoning },
        })
    }
}

/// When the first token of an answer was there, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    begin: Option<Instant>,
    tokens: usize,
}

impl Pace {
    /// Counts a token, if there is one.
    pub(crate) fn count(&mut self, token: Option<u32>) {
        if token.is_some() {
            self.begin.get_or_insert_with(Instant::now);
            self.tokens += 1;
        }
    }

    /// Times of an answer that goes on, in llama-server's shape.
    pub(crate) fn timings(&self) -> Json {
        let seconds = self.begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
        let steps = self.tokens.saturating_sub(1) as f64;
        json!({
            "predicted_n": self.tokens,
            "predicted_ms": seconds * 1000.0,
            "predicted_per_token_ms": seconds * 1000.0 / steps.max(1.0),
            "predicted_per_second": steps / seconds.max(1e-6),
        })
    }
}

/// How far a prompt is, in llama-server's shape.
pub(crate) fn prompt_progress(progress: &Progress) -> Json {
    json!({
        "total": progress.total,
        "cache": progress.cached,
        "processed": progress.processed,
        "time_ms": progress.time.as_secs_f64() * 1000.0,
    })
}

/// Times while a prompt is computed, in llama-server's shape.
pub(crate) fn timings_of_prompt(progress: &Progress) -> Json {
    let (n, seconds) = (progress.processed - progress.cached, progress.time.as_secs_f64());
    json!({
        "cache_n": progress.cached,
        "prompt_n": n,
        "prompt_ms": seconds * 1000.0,
        "prompt_per_token_ms": seconds * 1000.0 / n.max(1) as f64,
        "prompt_per_second": n as f64 / seconds.max(1e-6),
        "predicted_n": 0,
        "predicted_ms": 0.0,
        "predicted_per_token_ms": 0.0,
        "predicted_per_second": 0.0,
    })
}

/// Times in llama-server's shape, in which a rate is a number, also of one token.
pub(crate) fn timings(usage: &Usage) -> Json {
    let per_token = |time: Duration, n: usize| time.as_secs_f64() * 1000.0 / n.max(1) as f64;
    let mut times = json!({
        "cache_n": usage.reused_tokens,
        "prompt_n": usage.prefilled_tokens(),
        "prompt_ms": usage.prefill.as_secs_f64() * 1000.0,
        "prompt_per_token_ms": per_token(usage.prefill, usage.prefilled_tokens()),
        "prompt_per_second": usage.prefill_rate().unwrap_or(0.0),
        "predicted_n": usage.generated_tokens,
        "predicted_ms": usage.decode.as_secs_f64() * 1000.0,
        "predicted_per_token_ms": per_token(usage.decode, usage.generated_tokens.saturating_sub(1)),
        "predicted_per_second": usage.decode_rate().unwrap_or(0.0),
    });
    if usage.drafts.drafted > 0 {
        times["draft_n"] = usage.drafts.drafted.into();
        times["draft_n_accepted"] = usage.drafts.accepted.into();
    }
    times
}

/// The text of tokens, with that of special ones.
pub(crate) fn text_of(served: &Served, tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| token_text(served, token).1).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text and the bytes of a token, which may be part of a character.
pub(crate) fn token_text(served: &Served, token: u32) -> (String, Vec<u8>) {
    let tokenizer = served.model.tokenizer();
    let bytes = match tokenizer.kind(token) {
        Some(kind) if kind.is_special() => tokenizer.token_text(token).unwrap_or_default().as_bytes(),
        _ => tokenizer.token_bytes(token).unwrap_or_default(),
    };
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}
