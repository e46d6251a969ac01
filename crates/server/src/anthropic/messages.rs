//! `/v1/messages` and `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use engine::StopReason;
use rustorch::{DeltaKind, End};
use serde_json::{Value, json};

use super::ANTHROPIC;
use super::blocks::{Blocks, Content, Event};
use super::request::{self, Asked, Length, Prompt, Uncounted};
use crate::answer::{Answers, Reply};
use crate::app::Admission;
use crate::call::{Sampling, Started, count_tokens};
use crate::error::ApiError;
use crate::fields::Read;
use crate::http::{Routes, with_ignored};
use crate::models::Served;
use crate::sse::{self, Events, Gone};
use crate::{id, shape};

pub(crate) fn routes() -> Routes {
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    let message = ANTHROPIC
        .endpoint("message", &["/v1/messages"], "Answers a conversation, as blocks")
        .reads("MessageCall", json!({ "messages": hi, "max_tokens": 4 }))
        .answers("#AnthropicMessage")
        .answers_as("text/event-stream", "#MessageEvent");
    let count = ANTHROPIC
        .endpoint("count", &["/v1/messages/count_tokens"], "Counts the tokens of a prompt")
        .reads("CountCall", json!({ "messages": hi }))
        .answers(json!({ "input_tokens": "integer" }));
    Routes::default()
        .post(message, handle)
        .post(count, count_prompt)
        .shapes(shapes())
        .shapes(super::models::shapes())
}

fn shapes() -> [(&'static str, Value); 5] {
    let block = json!({
        "type": "=text|=thinking|=redacted_thinking|=tool_use|=tool_result", "text?": "string", "thinking?": "string",
        "signature?": "string", "id?": "string", "name?": "string", "input?": "object", "tool_use_id?": "string",
        "content?": ["string", ["object"], "null"], "is_error?": "boolean|null",
    });
    let usage = json!({
        "input_tokens": "integer", "cache_creation_input_tokens": "integer", "cache_read_input_tokens": "integer",
        "output_tokens": "integer", "output_tokens_details?": { "thinking_tokens": "integer" },
    });
    let message = json!({
        "id": "string", "type": "=message", "role": "=assistant", "model": "string", "content": ["#AnthropicBlock"],
        "usage": "#AnthropicUsage", "stop_sequence": "string|null",
        "stop_reason": "=end_turn|=max_tokens|=stop_sequence|=tool_use|=model_context_window_exceeded|null",
    });
    let delta = json!({
        "type?": "=text_delta|=input_json_delta|=thinking_delta|=signature_delta", "text?": "string",
        "partial_json?": "string", "thinking?": "string", "signature?": "string", "stop_reason?": "string|null",
        "stop_sequence?": "string|null",
    });
    let event = json!({
        "type": "string", "message?": "#AnthropicMessage", "index?": "integer", "content_block?": "#AnthropicBlock",
        "delta?": delta, "usage?": "#AnthropicUsage",
    });
    let error = json!({ "type": "=error", "error": { "type": "string", "message": "string" }, "request_id": "string" });
    [
        ("AnthropicBlock", block),
        ("AnthropicUsage", usage),
        ("AnthropicMessage", message),
        ("MessageEvent", json!([event, "#AnthropicError"])),
        ("AnthropicError", error),
    ]
}

async fn handle(read: Read<(Length, Prompt, Sampling)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let request::Call { call, is_stream, shows_thinking, ignored } = request::read(read.body, &read.app)?;
    let stop_sequences = call.parameters.params.stop.clone();
    let Started { answers, prompts, admission, .. } = call.start(&read.app, &served, &read.client).await?;
    let writer = Writer {
        id: id::new("msg_"),
        served,
        prompt_tokens: prompts.iter().map(Vec::len).sum(),
        stop_sequences,
        blocks: Blocks::new(shows_thinking),
        reply: Reply::default(),
    };
    let response = if is_stream {
        sse::stream(move |events| writer.stream(answers, events, admission))
    } else {
        Json(writer.whole(answers).await?).into_response()
    };
    Ok(with_ignored(with_id(response), ignored))
}

/// The length of the prompt that a call would have.
async fn count_prompt(read: Read<(Prompt, Uncounted)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let Asked { conversation, ignored, .. } = request::ask(read.body.0, &read.app.config)?;
    let _admission = read.app.admit(&read.client, 1)?;
    let n = count_tokens(&read.app, &served, conversation, "messages").await?;
    Ok(with_ignored(with_id(Json(json!({ "input_tokens": n })).into_response()), ignored))
}

fn with_id(mut response: Response) -> Response {
    if let Ok(id) = HeaderValue::from_str(&id::new("req_")) {
        response.headers_mut().insert("request-id", id);
    }
    response
}

/// Writes the answer of a call.
struct Writer {
    id: String,
    served: Arc<Served>,
    prompt_tokens: usize,
    stop_sequences: Vec<String>,
    blocks: Blocks,
    reply: Reply,
}

/// How an answer ended, in this protocol.
struct Ending {
    stop_reason: &'static str,
    stop_sequence: Option<String>,
    usage: Value,
}

impl Writer {
    /// The events of a piece of the answer, and its end if it is the last.
    fn read(&mut self, kind: DeltaKind) -> (Vec<Event>, Option<Ending>) {
        match kind {
            DeltaKind::Part(part) => {
                self.reply.count(&part);
                (self.blocks.push(part), None)
            }
            DeltaKind::End(end) => (self.blocks.end(), Some(self.ending(end))),
            _ => (Vec::new(), None),
        }
    }

    fn ending(&self, End { reason, usage, reasoning_tokens }: End) -> Ending {
        let (stop_reason, stop_sequence) = match reason {
            // The template's end of a turn is a stop string, too.
            StopReason::StopString(string) if self.stop_sequences.contains(&string) => {
                ("stop_sequence", Some(string))
            }
            StopReason::MaxTokens => ("max_tokens", None),
            StopReason::ContextFull => ("model_context_window_exceeded", None),
            StopReason::Eog(_)
            | StopReason::StopId(_)
            | StopReason::StopString(_)
            | StopReason::Cancelled => (if self.reply.has_calls() { "tool_use" } else { "end_turn" }, None),
        };
        let usage = json!({
            "input_tokens": usage.prefilled_tokens(),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.reused_tokens,
            "output_tokens": usage.generated_tokens,
            "output_tokens_details": { "thinking_tokens": reasoning_tokens },
        });
        Ending { stop_reason, stop_sequence, usage }
    }

    async fn whole(mut self, mut answers: Answers) -> Result<Value, ApiError> {
        let (mut content, mut message) = (Content::default(), self.empty());
        while let Some(delta) = answers.next().await? {
            let (events, end) = self.read(delta.kind);
            events.into_iter().for_each(|event| content.push(event));
            if let Some(Ending { stop_reason, stop_sequence, usage }) = end {
                message["stop_reason"] = stop_reason.into();
                message["stop_sequence"] = stop_sequence.into();
                message["usage"] = usage;
            }
        }
        message["content"] = content.json();
        Ok(message)
    }

    /// Writes the answer as it comes. The admission is held until the end.
    async fn stream(
        mut self,
        mut answers: Answers,
        events: Events,
        _admission: Admission,
    ) -> Result<(), Gone> {
        send(&events, &json!({ "type": "message_start", "message": self.empty() })).await?;
        send(&events, &json!({ "type": "ping" })).await?;
        loop {
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => return send(&events, &json!({ "type": "message_stop" })).await,
                Err(error) => return send(&events, &shape::anthropic(&error)).await,
            };
            let (steps, end) = self.read(delta.kind);
            for step in steps {
                send(&events, &json!(step)).await?;
            }
            if let Some(Ending { stop_reason, stop_sequence, usage }) = end {
                let delta = json!({ "stop_reason": stop_reason, "stop_sequence": stop_sequence });
                send(&events, &json!({ "type": "message_delta", "delta": delta, "usage": usage })).await?;
            }
        }
    }

    /// The message before it begins. How much of the prompt is cached is known only when it has begun.
    fn empty(&self) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.served.name,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": self.prompt_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 0,
            },
        })
    }
}

/// Sends an event, which is named by its type.
async fn send(events: &Events, json: &Value) -> Result<(), Gone> {
    events.event(json["type"].as_str().unwrap_or_default(), json).await
}
