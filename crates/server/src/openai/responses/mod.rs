//! `/v1/responses`: calls of one turn each. Nothing is stored, so that a client sends the whole conversation again.

mod input;
mod items;
mod object;
mod request;
mod stream;
mod tools;

pub(super) use request::Body;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use self::object::Object;
use self::request::Call;
use super::OPENAI;
use crate::app::App;
use crate::call::{self, Started};
use crate::error::ApiError;
use crate::fields::Read;
use crate::http::{Routes, with_ignored};
use crate::sse;

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
    let Call { call, repeated, is_stream, ignored } =
        request::read(read.body, &read.app).map_err(name_input)?;
    let started = call.start(&read.app, &served, &read.client).await.map_err(name_input)?;
    let Started { mut answers, admission, .. } = started;
    let mut object = Object::new(served, repeated);
    let response = if is_stream {
        sse::stream(move |events| stream::write(object, answers, events, admission))
    } else {
        while let Some(delta) = answers.next().await? {
            object.push(delta.kind);
        }
        Json(object.json()).into_response()
    };
    Ok(with_ignored(response, ignored))
}

/// The call, and the names of the tools that are ignored.
pub(super) fn read(body: Body, app: &App) -> Result<(call::Call, Vec<String>), ApiError> {
    request::read(body, app).map(|call| (call.call, call.ignored)).map_err(name_input)
}

/// The messages of other protocols are `input` here.
fn name_input(error: ApiError) -> ApiError {
    match error.param.as_deref() {
        Some("messages") => ApiError { param: Some("input".into()), ..error },
        _ => error,
    }
}
