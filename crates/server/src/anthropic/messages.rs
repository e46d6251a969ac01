//! `/v1/messages` and `/v1/messages/count_tokens`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use engine::StopReason;
use rustorch::{DeltaKind, End};
use serde_json::{Value, json};

use super::blocks::{Blocks, Content, Event};
use super::error;
use super::request::{self, Asked};
use crate::answer::{Answers, Reply};
use crate::app::{App, Place};
use crate::call::{Started, count_tokens};
use crate::error::ApiError;
use crate::http::{Client, call, with_ignored};
use crate::id;
use crate::models::Served;
use crate::sse::{self, Events, Gone};

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fields, served) = call(&app, request).await?;
    let request::Call { call, is_stream, shows_thinking, ignored } = request::read(fields, &app)?;
    let stop_sequences = call.parameters.params.stop.clone();
    let Started { answers, prompts, place, .. } = call.start(&app, &served, &client).await?;
    let writer = Writer {
        id: id::new("msg_"),
        served,
        prompt_tokens: prompts.iter().map(Vec::len).sum(),
        stop_sequences,
        blocks: Blocks::new(shows_thinking),
        reply: Reply::default(),
    };
    let response = match is_stream {
        true => sse::stream(move |events| writer.stream(answers, events, place)),
        false => Json(writer.whole(answers).await?).into_response(),
    };
    Ok(with_ignored(with_id(response), &ignored))
}

/// The length of the prompt that a call would have.
pub(super) async fn count(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fields, served) = call(&app, request).await?;
    let Asked { conversation, ignored, .. } = request::read_prompt(fields, &app)?;
    let _place = app.place(&client, 1)?;
    let n = count_tokens(&app, &served, conversation, "messages").await?;
    let response = Json(json!({ "input_tokens": n })).into_response();
    Ok(with_ignored(with_id(response), &ignored))
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

    /// Writes the answer as it comes. `place` is held until the end.
    async fn stream(mut self, mut answers: Answers, events: Events, place: Place) -> Result<(), Gone> {
        let _place = place;
        send(&events, &json!({ "type": "message_start", "message": self.empty() })).await?;
        send(&events, &json!({ "type": "ping" })).await?;
        loop {
            let delta = match answers.next().await {
                Ok(Some(delta)) => delta,
                Ok(None) => return send(&events, &json!({ "type": "message_stop" })).await,
                Err(error) => return send(&events, &error::shape(&error)).await,
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
