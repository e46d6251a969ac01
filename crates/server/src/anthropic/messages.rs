//! `/v1/messages` and `/v1/messages/count_tokens`.

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use engine::StopReason;
use rustorch::{Delta, DeltaKind, End};
use serde_json::{Value, json};

use super::ANTHROPIC;
use super::request::{self, Asked, Length, Prompt, Uncounted};
use crate::answer::joined;
use crate::call::{self, Sampling, count_tokens};
use crate::constraint::Constraint;
use crate::error::ApiError;
use crate::fields::Read;
use crate::http::{Routes, with_ignored};
use crate::items::{Change, Item, Items, Kind, Status};
use crate::sse::{self, Out, Writer};
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
        .shapes(super::model_shapes())
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

async fn handle(read: Read<(Length, Prompt, Constraint, Sampling)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (length, prompt, constraint, sampling) = read.body;
    let mut request = length.request(sampling, &read.app.config.defaults.params)?;
    let Asked { conversation, format, shows_thinking, ignored } = request::ask(prompt, &read.app.config)?;
    let format = constraint.or(format)?;
    request.input = conversation.into();
    let stop_sequences = request.params.stop.clone();
    let answers = call::submit(&read.app, &served, &read.client, "messages", vec![request], format).await?;
    let usage = json!({
        "input_tokens": answers.prompts.iter().map(Vec::len).sum::<usize>(),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    });
    // The number of cached tokens is known only when the prompt has been computed.
    let message = json!({
        "id": id::new("msg_"),
        "type": "message",
        "role": "assistant",
        "model": served.name,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage,
    });
    let writer = MessageWriter { message, stop_sequences, shows_thinking, items: Items::default() };
    Ok(with_ignored(with_id(sse::respond(writer, answers, length.stream).await?), ignored))
}

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

/// Writes the answer of a call, as blocks one after the other.
struct MessageWriter {
    message: Value,
    stop_sequences: Vec<String>,
    /// Without it, thinking blocks are empty.
    shows_thinking: bool,
    items: Items,
}

impl Writer for MessageWriter {
    fn begin(&mut self, out: &mut Out) {
        out.event(&json!({ "type": "message_start", "message": self.message }));
        out.event(&json!({ "type": "ping" }));
    }

    fn push(&mut self, Delta { kind, .. }: Delta, out: &mut Out) {
        match kind {
            DeltaKind::Part(part) => {
                for change in self.items.push(part) {
                    self.send(change, out);
                }
            }
            DeltaKind::End(end) => {
                if let Some(change) = self.items.end(Status::Completed) {
                    self.send(change, out);
                }
                let (delta, usage) = self.ending(end);
                if out.is_stream {
                    out.event(&json!({ "type": "message_delta", "delta": delta, "usage": usage }));
                } else {
                    self.message = joined(self.message.take(), joined(delta, json!({ "usage": usage })));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, error: Option<ApiError>, out: &mut Out) {
        let stop = || json!({ "type": "message_stop" });
        out.event(&error.map_or_else(stop, |error| shape::anthropic(&error)));
    }

    fn whole(mut self) -> Value {
        let blocks = self.items.list.iter().map(|item| block_json(item, self.shows_thinking));
        self.message["content"] = blocks.collect();
        self.message
    }
}

impl MessageWriter {
    fn ending(&self, End { reason, usage, reasoning_tokens }: End) -> (Value, Value) {
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
            | StopReason::Cancelled => (if self.items.has_calls() { "tool_use" } else { "end_turn" }, None),
        };
        let usage = json!({
            "input_tokens": usage.prefilled_tokens(),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.reused_tokens,
            "output_tokens": usage.generated_tokens,
            "output_tokens_details": { "thinking_tokens": reasoning_tokens },
        });
        (json!({ "stop_reason": stop_reason, "stop_sequence": stop_sequence }), usage)
    }

    fn send(&self, change: Change, out: &mut Out) {
        if !out.is_stream {
            return;
        }
        let delta = |index, delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        match change {
            Change::Begun { index } => {
                let item = &self.items.list[index];
                let block = block_json(&Item::begun(item.id.clone(), item.kind.clone()), true);
                out.event(&json!({ "type": "content_block_start", "index": index, "content_block": block }));
            }
            Change::More { index, text, .. } => {
                let more = match self.items.list[index].kind {
                    Kind::Reasoning if !self.shows_thinking => return,
                    Kind::Reasoning => json!({ "type": "thinking_delta", "thinking": text }),
                    Kind::Message => json!({ "type": "text_delta", "text": text }),
                    Kind::Call { .. } => json!({ "type": "input_json_delta", "partial_json": text }),
                };
                out.event(&delta(index, more));
            }
            Change::Ended { index } => {
                if self.items.list[index].kind == Kind::Reasoning {
                    // Thoughts have no signature, but clients wait for one.
                    out.event(&delta(index, json!({ "type": "signature_delta", "signature": "" })));
                }
                out.event(&json!({ "type": "content_block_stop", "index": index }));
            }
        }
    }
}

fn block_json(Item { id, kind, text, .. }: &Item, shows_thinking: bool) -> Value {
    match kind {
        Kind::Reasoning => {
            let thinking = if shows_thinking { text } else { "" };
            json!({ "type": "thinking", "thinking": thinking, "signature": "" })
        }
        Kind::Message => json!({ "type": "text", "text": text }),
        Kind::Call { name, .. } => {
            // All pieces of a call's arguments together are an object, unless the answer was cut.
            let input = serde_json::from_str(text).unwrap_or_else(|_| complete_members(text));
            json!({ "type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": input })
        }
    }
}

/// The members of an object whose text was cut that are complete. A number at the end may go on.
fn complete_members(json: &str) -> Value {
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    // The end of the last member that another follows.
    let mut end = 0;
    for (at, byte) in json.bytes().enumerate() {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth -= 1,
            (false, b',') if depth == 1 => end = at,
            _ => {}
        }
    }
    let all = Some(json).filter(|json| !json.ends_with(|last: char| last.is_ascii_digit()));
    let closed = |members: &str| serde_json::from_str(&format!("{members}}}")).ok();
    all.and_then(closed).or_else(|| closed(&json[..end])).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use rustorch::Part;

    use super::*;

    /// The events of an answer, and its blocks.
    fn events(shows_thinking: bool) -> (Vec<Value>, Value) {
        let (message, stop_sequences) = (json!({}), Vec::new());
        let mut blocks = MessageWriter { message, stop_sequences, shows_thinking, items: Items::default() };
        let mut out = Out { is_stream: true, ..Out::default() };
        let call = |index, city: &str| {
            let (begin, rest) = (r#"{"city": "#.to_owned(), format!("\"{city}\"}}"));
            [
                Part::ToolCallBegin { index, name: "weather".into(), id: None },
                Part::ToolCallArguments { index, json: begin },
                Part::ToolCallArguments { index, json: rest },
                Part::ToolCallEnd { index },
            ]
        };
        let said = ["Let", " me see."].map(|text| Part::Content(text.into()));
        let thought = ["Two", " cities."].map(|text| Part::Reasoning(text.into()));
        let deltas = thought.into_iter().chain(said).chain(call(0, "Rome")).chain(call(1, "Oslo"));
        for part in deltas.chain([Part::Content("Wait.".into())]) {
            blocks.push(Delta { choice: 0, kind: DeltaKind::Part(part) }, &mut out);
        }
        let (reason, usage) = (StopReason::MaxTokens, rustorch::Usage::default());
        let end = End { reason, usage, reasoning_tokens: 0 };
        blocks.push(Delta { choice: 0, kind: DeltaKind::End(end) }, &mut out);
        let mut events: Vec<Value> =
            out.events.iter().map(|(_, text)| serde_json::from_str(text).expect("JSON")).collect();
        assert_eq!(events.pop().expect("an end")["type"], "message_delta");
        (events, blocks.whole()["content"].take())
    }

    #[test]
    fn blocks_follow_each_other_and_never_overlap() {
        let (mut open, mut next) = (None, 0);
        for event in events(true).0 {
            let index = event["index"].as_u64().expect("a number");
            match event["type"].as_str() {
                Some("content_block_start") => {
                    assert_eq!((open, index), (None, next));
                    (open, next) = (Some(index), next + 1);
                }
                Some("content_block_delta") => assert_eq!(open, Some(index)),
                _ => assert_eq!(open.take(), Some(index)),
            }
        }
        assert_eq!((open, next), (None, 5));
    }

    #[test]
    fn what_is_cut_is_an_object_of_what_is_complete() {
        for (cut, expected) in [
            ("", json!({})),
            ("{", json!({})),
            (r#"{"a": "#, json!({})),
            (r#"{"a": "x, y"#, json!({})),
            (r#"{"a": "x\", y", "b"#, json!({ "a": "x\", y" })),
            (r#"{"a": 1, "b": "x""#, json!({ "a": 1, "b": "x" })),
            (r#"{"a": true, "b": [2]"#, json!({ "a": true, "b": [2] })),
            (r#"{"a": true, "b": 12"#, json!({ "a": true })),
            (r#"{"a": true, "b": 1e"#, json!({ "a": true })),
            (r#"{"a": {"b": "x""#, json!({})),
            (r#"{"a": {"b": 1}, "#, json!({ "a": { "b": 1 } })),
            (r#"{"é"#, json!({})),
            (r#"{"a": [1, 2, {"b": 3, "#, json!({})),
            (r#"{"a": [1, {"b": 3}], "c": {"d": 4, "e"#, json!({ "a": [1, { "b": 3 }] })),
        ] {
            assert_eq!(complete_members(cut), expected, "{cut}");
        }
    }

    #[test]
    fn events_build_the_whole_answer() {
        let (events, mut blocks) = events(true);
        let mut built = Vec::new();
        let mut json = String::new();
        for event in events {
            match event["type"].as_str() {
                Some("content_block_start") => built.push(event["content_block"].clone()),
                Some("content_block_delta") => {
                    let (block, delta) = (built.last_mut().expect("a block"), &event["delta"]);
                    json += delta["partial_json"].as_str().unwrap_or_default();
                    for name in ["thinking", "text"] {
                        if let Some(more) = delta[name].as_str() {
                            block[name] = (block[name].as_str().expect("a text").to_owned() + more).into();
                        }
                    }
                }
                _ if json.is_empty() => {}
                _ => {
                    let input = serde_json::from_str(&std::mem::take(&mut json)).expect("an object");
                    built.last_mut().expect("a block")["input"] = input;
                }
            }
        }
        assert_eq!(blocks, Value::from(built));
        for index in [2, 3] {
            let id = blocks[index]["id"].take();
            assert!(id.as_str().is_some_and(|id| id.starts_with("toolu_")), "{id}");
        }
        let call = |city: &str| json!({ "type": "tool_use", "id": null, "name": "weather", "input": { "city": city } });
        let expected = json!([
            { "type": "thinking", "thinking": "Two cities.", "signature": "" },
            { "type": "text", "text": "Let me see." },
            call("Rome"),
            call("Oslo"),
            { "type": "text", "text": "Wait." },
        ]);
        assert_eq!(blocks, expected);
    }

    #[test]
    fn thinking_is_signed_and_may_be_omitted() {
        let signed = |shows_thinking| json!(events(shows_thinking).0[..4]);
        let start = json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "thinking", "thinking": "", "signature": "" } });
        let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
        let signature = delta(json!({ "type": "signature_delta", "signature": "" }));
        let thinking = |text: &str| delta(json!({ "type": "thinking_delta", "thinking": text }));
        assert_eq!(signed(true), json!([start, thinking("Two"), thinking(" cities."), signature]));
        let stop = json!({ "type": "content_block_stop", "index": 0 });
        let text = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
        assert_eq!(signed(false), json!([start, signature, stop, text]));
    }
}
