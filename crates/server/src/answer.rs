//! The answers of a call, and the parts of them that several protocols write.

use std::time::{Duration, Instant};

use engine::Usage;
use rustorch::{Delta, DeltaKind, End, Progress, Stream};
use serde_json::{Value as Json, json};

use crate::app::Admission;
use crate::error::ApiError;
use crate::models::Served;

/// The answers to a call that the engine has accepted. Each generated token is charged to the client.
pub(crate) struct Answers {
    pub(crate) stream: Stream,
    pub(crate) n: usize,
    pub(crate) prompts: Vec<Vec<u32>>,
    pub(crate) admission: Admission,
}

impl Answers {
    /// The next piece of an answer; `None` when all answers have ended. Fails if one of them does.
    pub(crate) async fn next(&mut self) -> Result<Option<Delta>, ApiError> {
        let Some(delta) = self.stream.next_delta().await else { return Ok(None) };
        let delta = delta.map_err(|error| ApiError::from_model(error, "messages", "response_format"))?;
        if let DeltaKind::Token { .. } = delta.kind {
            self.admission.charge(1);
        }
        Ok(Some(delta))
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

    pub(crate) fn sum(totals: &[Totals]) -> Totals {
        totals.iter().fold(Totals::default(), |sum, one| Totals {
            prompt: sum.prompt + one.prompt,
            cached: sum.cached + one.cached,
            generated: sum.generated + one.generated,
            reasoning: sum.reasoning + one.reasoning,
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
    timings(&Usage {
        prompt_tokens: progress.processed,
        reused_tokens: progress.cached,
        prefill: progress.time,
        ..Usage::default()
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

/// `json`, an object, with the fields of `more` after its own.
pub(crate) fn joined(mut json: Json, more: Json) -> Json {
    if let (Json::Object(fields), Json::Object(more)) = (&mut json, more) {
        fields.extend(more);
    }
    json
}
