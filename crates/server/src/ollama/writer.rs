//! Answers: lines of JSON, or one object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::response::{IntoResponse, Response};
use chat::{Answer, ToolCall};
use engine::StopReason;
use jiff::Timestamp;
use rustorch::{Delta, DeltaKind, End, Part};
use serde_json::{Value, json};

use crate::answer::joined;
use crate::error::ApiError;
use crate::models::Served;
use crate::openai::logprobs;
use crate::sse::{self, Out};
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

pub(super) struct Writer {
    endpoint: Endpoint,
    model: String,
    served: Arc<Served>,
    begin: Instant,
    pending: Pending,
    calls: usize,
    whole: Value,
}

/// The pieces of an answer that have not been written.
#[derive(Default)]
struct Pending {
    answer: Answer,
    logprobs: Vec<Value>,
    /// A tool call has begun and is not complete.
    is_calling: bool,
}

impl sse::Writer for Writer {
    const IS_LINES: bool = true;

    fn push(&mut self, Delta { kind, .. }: Delta, out: &mut Out) {
        let pending = &mut self.pending;
        let mut end = None;
        match kind {
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                pending.logprobs.push(logprobs::token_json(&self.served, id, &logprobs));
            }
            DeltaKind::Part(part) => {
                pending.is_calling =
                    matches!(part, Part::ToolCallBegin { .. } | Part::ToolCallArguments { .. });
                // Arguments are an object here: a call that is cut is left out.
                if matches!(part, Part::ToolCallCut { .. }) {
                    pending.answer.tool_calls.pop();
                }
                pending.answer.push(part);
            }
            DeltaKind::End(found) => end = Some(found),
            _ => {}
        }
        if out.is_stream && !pending.is_calling && pending.answer != Answer::default() {
            out.data(&self.line());
        }
        // The last line has no text: some clients do not read that of it.
        if let Some(end) = end {
            self.whole = self.last(&end);
            if out.is_stream {
                out.data(&self.whole);
            }
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        if let Some(error) = error {
            out.data(&shape::ollama(&error));
        }
    }

    fn whole(self) -> Value {
        self.whole
    }
}

impl Writer {
    pub(super) fn new(endpoint: Endpoint, model: String, served: Arc<Served>) -> Writer {
        let (begin, pending, whole) = (Instant::now(), Pending::default(), Value::Null);
        Writer { endpoint, model, served, begin, pending, calls: 0, whole }
    }

    /// The answer to a request that only loads the model.
    pub(super) fn loaded(mut self) -> Response {
        let mut line = self.line();
        (line["done"], line["done_reason"]) = (true.into(), "load".into());
        Json(line).into_response()
    }

    /// A line of what is pending.
    fn line(&mut self) -> Value {
        let Pending { answer, logprobs, .. } = std::mem::take(&mut self.pending);
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
            let first = self.calls;
            self.calls += tool_calls.len();
            text["tool_calls"] =
                (first..).zip(tool_calls).map(|(index, call)| call_json(index, call)).collect();
        }
        if !logprobs.is_empty() {
            line["logprobs"] = logprobs.into();
        }
        line
    }

    fn last(&mut self, End { reason, usage, .. }: &End) -> Value {
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
        joined(self.line(), figures)
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
