//! `/v1/responses`: calls of one turn each. Nothing is stored: a client sends the whole conversation each time.

mod input;
mod request;

pub(super) use request::Body;

use std::sync::Arc;

use axum::response::Response;
use rustorch::{Delta, DeltaKind, End, Request};
use serde_json::{Value, json};

use self::request::Call;
use super::logprobs::token_json;
use super::{OPENAI, finish_reason};
use crate::answer::joined;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::Read;
use crate::http::{Routes, with_ignored};
use crate::items::{Change, Item, Items, Kind, Status};
use crate::models::Served;
use crate::sse::{self, Out, Writer};
use crate::{call, id};

pub(super) fn routes() -> Routes {
    let respond = OPENAI
        .endpoint("respond", &["/v1/responses", "/responses"], "Answers a conversation, as items")
        .reads("ResponseCall", json!({ "input": "Hi", "max_output_tokens": 4 }))
        .answers("#Response")
        .answers_as("text/event-stream", "#ResponseEvent");
    Routes::default().post(respond, handle).shapes(shapes())
}

fn shapes() -> [(&'static str, Value); 3] {
    let part = json!({
        "type": "=output_text|=reasoning_text", "text": "string", "annotations?": ["any"], "logprobs?": ["#TokenLogprobs"],
    });
    let item = json!({
        "type": "=message|=reasoning|=function_call", "id": "string", "status": "=in_progress|=completed|=incomplete",
        "role?": "=assistant", "content?": [part], "summary?": ["any"], "call_id?": "string", "name?": "string",
        "arguments?": "string",
    });
    let usage = json!({
        "input_tokens": "integer",
        "input_tokens_details": { "cached_tokens": "integer", "cache_write_tokens": "integer" },
        "output_tokens": "integer", "output_tokens_details": { "reasoning_tokens": "integer" }, "total_tokens": "integer",
    });
    let tool = json!({
        "type": "=function", "name": "string", "description?": "string|null", "parameters?": "any",
        "strict?": "boolean|null",
    });
    let response = json!({
        "id": "string", "object": "=response", "created_at": "integer", "completed_at": "integer|null",
        "status": "=in_progress|=completed|=incomplete|=failed",
        "incomplete_details": ["null", { "reason": "string" }],
        "error": ["null", { "code": "string", "message": "string" }],
        "model": "string", "output": ["#ResponseItem"], "usage": ["null", usage], "background": "boolean",
        "instructions": "string|null", "max_output_tokens": "integer|null", "max_tool_calls": "any",
        "metadata": { "*": "string" }, "parallel_tool_calls": "boolean", "previous_response_id": "any",
        "prompt_cache_key": "string|null", "reasoning": "object", "safety_identifier": "string|null",
        "service_tier": "string", "store": "boolean", "temperature": "number", "text": "object",
        "tool_choice": "string|object", "tools": [tool], "top_logprobs": "integer", "top_p": "number",
        "truncation": "string", "user": "string|null",
    });
    let event = json!({
        "type": "string", "sequence_number": "integer", "response?": "#Response", "output_index?": "integer",
        "content_index?": "integer", "item_id?": "string", "item?": "#ResponseItem", "part?": "object",
        "delta?": "string", "text?": "string", "name?": "string", "arguments?": "string",
        "logprobs?": ["#TokenLogprobs"],
    });
    [("Response", response), ("ResponseItem", item), ("ResponseEvent", event)]
}

async fn handle(read: Read<Body>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let Call { request, format, repeated, is_stream, ignored } =
        request::read(read.body, &read.app).map_err(name_input)?;
    let answers = call::submit(&read.app, &served, &read.client, "input", vec![request], format);
    let answers = answers.await.map_err(name_input)?;
    let own = json!({
        "id": id::new("resp_"),
        "object": "response",
        "created_at": id::now(),
        "completed_at": null,
        "status": "in_progress",
        "incomplete_details": null,
        "error": null,
        "model": served.name,
        "output": [],
        "usage": null,
    });
    let writer = ResponseWriter { served, json: joined(repeated, own), items: Items::default(), sent: 0 };
    Ok(with_ignored(sse::respond(writer, answers, is_stream).await?, ignored))
}

/// The request, and the names of the tools that are ignored.
pub(super) fn read(body: Body, app: &App) -> Result<(Request, Vec<String>), ApiError> {
    request::read(body, app).map(|call| (call.request, call.ignored)).map_err(name_input)
}

/// The messages of other protocols are `input` here.
fn name_input(error: ApiError) -> ApiError {
    match error.param.as_deref() {
        Some("messages") => ApiError { param: Some("input".into()), ..error },
        _ => error,
    }
}

/// A response, as far as it has come.
struct ResponseWriter {
    served: Arc<Served>,
    /// The response with the fields of the call that it repeats, without its items.
    json: Value,
    items: Items,
    /// Events that have been written.
    sent: usize,
}

impl Writer for ResponseWriter {
    fn begin(&mut self, out: &mut Out) {
        self.send_response("created", out);
        self.send_response("in_progress", out);
    }

    fn push(&mut self, Delta { kind, .. }: Delta, out: &mut Out) {
        let changes = match kind {
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                return self.items.push_token(token_json(&self.served, id, &logprobs));
            }
            DeltaKind::Part(part) => self.items.push(part),
            DeltaKind::End(end) => {
                let (is_cut, mut changes) = (finish_reason(&end.reason) == "length", Vec::new());
                let says_nothing = self.items.list.iter().all(|item| item.kind == Kind::Reasoning);
                if says_nothing && !is_cut {
                    self.items.begin(Kind::Message, &mut changes);
                }
                let status = if is_cut { Status::Incomplete } else { self.items.left() };
                changes.extend(self.items.end(status));
                self.json["usage"] = usage_json(&end);
                if is_cut {
                    self.json["status"] = "incomplete".into();
                    self.json["incomplete_details"] = json!({ "reason": "max_output_tokens" });
                } else {
                    self.json["status"] = "completed".into();
                    self.json["completed_at"] = id::now().into();
                }
                changes
            }
            _ => return,
        };
        if out.is_stream {
            changes.into_iter().for_each(|change| self.send_change(change, out));
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        if let Some(error) = error {
            self.items.end(Status::Incomplete);
            self.json["status"] = "failed".into();
            self.json["error"] = json!({ "code": "server_error", "message": error.message });
        }
        let state = self.json["status"].as_str().unwrap_or_default().to_owned();
        self.send_response(&state, out);
    }

    fn whole(mut self) -> Value {
        self.json["output"] = self.items.list.iter().map(item_json).collect();
        self.json
    }
}

impl ResponseWriter {
    /// Sends the next event; each has a number.
    fn send(&mut self, name: &str, mut json: Value, out: &mut Out) {
        json["type"] = format!("response.{name}").into();
        json["sequence_number"] = self.sent.into();
        self.sent += 1;
        out.event(&json);
    }

    fn send_response(&mut self, state: &str, out: &mut Out) {
        let mut response = self.json.clone();
        response["output"] = self.items.list.iter().map(item_json).collect();
        self.send(state, json!({ "response": response }), out);
    }

    fn send_change(&mut self, change: Change, out: &mut Out) {
        let (Change::Begun { index } | Change::More { index, .. } | Change::Ended { index }) = change;
        let item = &self.items.list[index];
        let mut place = json!({ "output_index": index, "item_id": item_id(item) });
        if !matches!(item.kind, Kind::Call { .. }) {
            place["content_index"] = 0.into();
        }
        let event = |own| joined(place.clone(), own);
        let text_name = match item.kind {
            Kind::Reasoning => "reasoning_text",
            Kind::Message => "output_text",
            Kind::Call { .. } => "function_call_arguments",
        };
        match change {
            Change::Begun { .. } => {
                let item = Item::begun(item.id.clone(), item.kind.clone());
                let part = part_json(&item).map(|part| event(json!({ "part": part })));
                self.send(
                    "output_item.added",
                    json!({ "output_index": index, "item": item_json(&item) }),
                    out,
                );
                part.into_iter().for_each(|part| self.send("content_part.added", part, out));
            }
            Change::More { text, logprobs, .. } => {
                let mut more = event(json!({ "delta": text }));
                if item.kind == Kind::Message {
                    more["logprobs"] = logprobs.into();
                }
                self.send(&format!("{text_name}.delta"), more, out);
            }
            Change::Ended { .. } => {
                let done = event(match &item.kind {
                    Kind::Reasoning => json!({ "text": item.text }),
                    Kind::Message => json!({ "text": item.text, "logprobs": item.logprobs }),
                    Kind::Call { name, .. } => json!({ "name": name, "arguments": item.text }),
                });
                let part = part_json(item).map(|part| event(json!({ "part": part })));
                let item = item_json(item);
                self.send(&format!("{text_name}.done"), done, out);
                part.into_iter().for_each(|part| self.send("content_part.done", part, out));
                self.send("output_item.done", json!({ "output_index": index, "item": item }), out);
            }
        }
    }
}

fn item_id(item: &Item) -> String {
    let prefix = match item.kind {
        Kind::Reasoning => "rs",
        Kind::Message => "msg",
        Kind::Call { .. } => "fc",
    };
    format!("{prefix}_{}", item.id)
}

/// An item. While it is in progress, it has no content.
fn item_json(item: &Item) -> Value {
    let (id, is_open) = (item_id(item), item.status == Status::InProgress);
    let status = match item.status {
        Status::InProgress => "in_progress",
        Status::Completed => "completed",
        Status::Incomplete => "incomplete",
    };
    let content: Vec<Value> = part_json(item).into_iter().filter(|_| !is_open).collect();
    match &item.kind {
        Kind::Reasoning => {
            json!({ "id": id, "type": "reasoning", "status": status, "summary": [], "content": content })
        }
        Kind::Message => {
            json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
        }
        Kind::Call { id: call_id, name } => json!({
            "id": id,
            "type": "function_call",
            "status": status,
            "call_id": call_id.clone().unwrap_or_else(|| format!("call_{}", item.id)),
            "name": name,
            "arguments": item.text,
        }),
    }
}

/// The only part of an item's content. A call has none.
fn part_json(item: &Item) -> Option<Value> {
    match item.kind {
        Kind::Reasoning => Some(json!({ "type": "reasoning_text", "text": item.text })),
        Kind::Message => Some(json!({
            "type": "output_text",
            "text": item.text,
            "annotations": [],
            "logprobs": item.logprobs,
        })),
        Kind::Call { .. } => None,
    }
}

fn usage_json(End { usage, reasoning_tokens, .. }: &End) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.reused_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": reasoning_tokens },
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
    })
}
