//! Answers: lines of JSON, or one object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use chat::{Answer, ToolCall};
use engine::{Logprobs, StopReason};
use jiff::Timestamp;
use rustorch::{DeltaKind, End, Part};
use serde_json::{Value, json};

use crate::answer::Answers;
use crate::app::Admission;
use crate::call::Started;
use crate::error::ApiError;
use crate::models::Served;
use crate::openai::logprobs;
use crate::sse::{self, Gone, Lines};
use crate::{id, shape};

pub(super) fn shapes() -> [(&'static str, Value); 2] {
    let function = json!({ "name": "string", "arguments?": "any", "index?": "integer" });
    let message = json!({
        "role": "string", "content?": "string|null", "thinking?": "string|null", "tool_name?": "string|null",
        "tool_calls?": [[{ "id?": "string|null", "function": function }], "null"],
    });
    let answer = json!({
        "model": "string", "created_at": "string", "done": "boolean", "message?": "#OllamaMessage",
        "response?": "string", "thinking?": "string", "tool_calls?": ["any"], "logprobs?": ["#TokenLogprobs"],
        "done_reason?": "=stop|=length|=load", "prompt_eval_count?": "integer", "eval_count?": "integer",
        "total_duration?": "integer", "load_duration?": "integer", "prompt_eval_duration?": "integer",
        "eval_duration?": "integer",
    });
    [("OllamaMessage", message), ("OllamaAnswer", answer)]
}

/// The endpoint, which determines where the text is.
#[derive(Clone, Copy)]
pub(super) enum Endpoint {
    Chat,
    Generate,
}

/// Writes the answer to a call.
pub(super) struct Writer {
    endpoint: Endpoint,
    model: String,
    served: Arc<Served>,
    begin: Instant,
}

/// The pieces of an answer that have not been written.
#[derive(Default)]
struct Pending {
    answer: Answer,
    logprobs: Vec<Value>,
    /// A tool call has begun and is not complete.
    is_calling: bool,
}

impl Pending {
    /// Adds a piece. Returns the end, if that is the piece.
    fn push(&mut self, served: &Served, kind: DeltaKind) -> Option<End> {
        match kind {
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                self.push_logprobs(served, id, &logprobs)
            }
            DeltaKind::Part(part) => {
                self.is_calling = matches!(part, Part::ToolCallBegin { .. } | Part::ToolCallArguments { .. });
                // Arguments are an object here: a call that is cut is left out.
                if matches!(part, Part::ToolCallCut { .. }) {
                    self.answer.tool_calls.pop();
                }
                self.answer.push(part);
            }
            DeltaKind::End(end) => return Some(end),
            _ => {}
        }
        None
    }

    fn push_logprobs(&mut self, served: &Served, id: u32, logprobs: &Logprobs) {
        self.logprobs.push(logprobs::token_json(served, id, logprobs));
    }

    /// Whether there is something to write now.
    fn is_ready(&self) -> bool {
        !self.is_calling && self.answer != Answer::default()
    }
}

impl Writer {
    pub(super) fn new(endpoint: Endpoint, model: String, served: Arc<Served>) -> Writer {
        Writer { endpoint, model, served, begin: Instant::now() }
    }

    /// The answer to a request that only loads the model.
    pub(super) fn loaded(&self) -> Response {
        let mut line = self.line(Pending::default(), 0);
        (line["done"], line["done_reason"]) = (true.into(), "load".into());
        Json(line).into_response()
    }

    pub(super) async fn respond(self, started: Started, is_stream: bool) -> Result<Response, ApiError> {
        let Started { answers, admission, .. } = started;
        Ok(if is_stream {
            sse::lines(move |lines| self.stream(answers, lines, admission))
        } else {
            Json(self.whole(answers).await?).into_response()
        })
    }

    async fn whole(&self, mut answers: Answers) -> Result<Value, ApiError> {
        let (mut pending, mut line) = (Pending::default(), Value::Null);
        while let Some(delta) = answers.next().await? {
            if let Some(end) = pending.push(&self.served, delta.kind) {
                line = self.last(std::mem::take(&mut pending), &end);
            }
        }
        Ok(line)
    }

    /// Writes the answer as it comes. The admission is held until the end.
    async fn stream(self, mut answers: Answers, lines: Lines, _admission: Admission) -> Result<(), Gone> {
        let (mut pending, mut calls) = (Pending::default(), 0);
        loop {
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => return Ok(()),
                Err(error) => return lines.line(&shape::ollama(&error)).await,
            };
            let end = pending.push(&self.served, delta.kind);
            if pending.is_ready() {
                let ready = std::mem::take(&mut pending);
                let before = calls;
                calls += ready.answer.tool_calls.len();
                lines.line(&self.line(ready, before)).await?;
            }
            // The last line has no text: some clients do not read that of it.
            if let Some(end) = end {
                lines.line(&self.last(std::mem::take(&mut pending), &end)).await?;
            }
        }
    }

    /// A line whose first tool call is number `calls`.
    fn line(&self, Pending { answer, logprobs, .. }: Pending, calls: usize) -> Value {
        let mut line =
            json!({ "model": self.model, "created_at": Timestamp::now().to_string(), "done": false });
        let Answer { reasoning, content, tool_calls } = answer;
        let text = match self.endpoint {
            Endpoint::Chat => {
                line["message"] = json!({ "role": "assistant", "content": content });
                &mut line["message"]
            }
            Endpoint::Generate => {
                line["response"] = content.into();
                &mut line
            }
        };
        if !reasoning.is_empty() {
            text["thinking"] = reasoning.into();
        }
        if !tool_calls.is_empty() {
            text["tool_calls"] =
                (calls..).zip(tool_calls).map(|(index, call)| call_json(index, call)).collect();
        }
        if !logprobs.is_empty() {
            line["logprobs"] = logprobs.into();
        }
        line
    }

    fn last(&self, pending: Pending, End { reason, usage, .. }: &End) -> Value {
        let mut line = self.line(pending, 0);
        let figures = json!({
            "done": true,
            "done_reason": match reason {
                StopReason::MaxTokens | StopReason::ContextFull => "length",
                _ => "stop",
            },
            "total_duration": nanoseconds(self.begin.elapsed()),
            "load_duration": 0,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": nanoseconds(usage.prefill),
            "eval_count": usage.generated_tokens,
            "eval_duration": nanoseconds(usage.decode),
        });
        if let (Value::Object(line), Value::Object(figures)) = (&mut line, figures) {
            line.extend(figures);
        }
        line
    }
}

fn call_json(index: usize, call: ToolCall) -> Value {
    let arguments = match &call.function.arguments {
        // The text of an object.
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        other => other.clone(),
    };
    let id = call.id.unwrap_or_else(|| id::new("call_"));
    json!({ "id": id, "function": { "index": index, "name": call.function.name, "arguments": arguments } })
}

/// At least one: clients divide by it.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}
