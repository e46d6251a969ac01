//! The answers of a call, and the parts of them that several protocols write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chat::{Answer, Delta as Part};
use engine::Usage;
use rustorch::{Delta, DeltaKind, End, Progress, Stream};
use serde_json::{Value as Json, json};

use crate::error::ApiError;
use crate::models::Served;
use crate::quota::Meter;

/// The answers of a call. Each generated token is charged to the client.
pub(crate) struct Answers {
    stream: Stream,
    meter: Option<Arc<Meter>>,
}

impl Answers {
    pub(crate) fn new(stream: Stream, meter: Option<Arc<Meter>>) -> Answers {
        Answers { stream, meter }
    }

    /// The next piece of an answer; `None` when all answers have ended. Fails if one of them does.
    pub(crate) async fn next(&mut self) -> Result<Option<Delta>, ApiError> {
        let Some(delta) = self.stream.next_delta().await else { return Ok(None) };
        let delta = delta.map_err(|error| ApiError::from_model(error, "messages", "response_format"))?;
        if let (DeltaKind::Token { .. }, Some(meter)) = (&delta.kind, &self.meter) {
            meter.charge(1);
        }
        Ok(Some(delta))
    }
}

/// One answer so far.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    /// Tool calls that are complete.
    calls: usize,
    /// A call has begun and is not complete.
    is_calling: bool,
}

impl Reply {
    /// Adds a part.
    pub(crate) fn push(&mut self, part: Part) {
        self.count(&part);
        self.answer.push(part);
    }

    /// Counts the calls of a part, without keeping it.
    pub(crate) fn count(&mut self, part: &Part) {
        match part {
            Part::ToolCallBegin { .. } => self.is_calling = true,
            Part::ToolCallEnd { .. } => (self.calls, self.is_calling) = (self.calls + 1, false),
            Part::ToolCallBroken { .. } => self.is_calling = false,
            // It stays one that is not complete.
            Part::ToolCallCut { .. } => {}
            Part::Reasoning(_) | Part::Content(_) | Part::ToolCallArguments { .. } => {}
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
    pub(crate) fn add(&mut self, End { usage, reasoning_tokens, .. }: &End) {
        // The first to be computed found the least in the cache: its prompt, then, is there for the others.
        let is_first = self.prompt == 0;
        self.cached = if is_first { usage.reused_tokens } else { self.cached.min(usage.reused_tokens) };
        self.prompt = usage.prompt_tokens;
        self.generated += usage.generated_tokens;
        self.reasoning += *reasoning_tokens;
    }

    /// The sum over several prompts.
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
    /// Counts a token.
    pub(crate) fn count(&mut self) {
        self.begin.get_or_insert_with(Instant::now);
        self.tokens += 1;
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
pub(crate) fn prompt_timings(progress: &Progress) -> Json {
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
pub(crate) fn tokens_text(served: &Served, tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| token_text(served, token).1).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text and the bytes of a token, which may be part of a character.
pub(crate) fn token_text(served: &Served, token: u32) -> (String, Vec<u8>) {
    let tokenizer = served.tokenizer();
    let bytes = match tokenizer.kind(token) {
        Some(kind) if kind.is_special() => tokenizer.token_text(token).unwrap_or_default().as_bytes(),
        _ => tokenizer.token_bytes(token).unwrap_or_default(),
    };
    (String::from_utf8_lossy(bytes).into_owned(), bytes.to_vec())
}
