//! The number of tokens that a prompt would have: `/v1/responses/input_tokens`, and the same for chat completions.

use axum::Json;
use axum::response::{IntoResponse, Response};
use rustorch::Input;
use serde_json::json;

use super::{OPENAI, chat, responses};
use crate::call::count_tokens;
use crate::error::ApiError;
use crate::fields::Read;
use crate::http::{Routes, with_ignored};

pub(super) fn routes() -> Routes {
    let summary = "Counts the tokens of a prompt";
    let paths = &["/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"];
    let example = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let chats = OPENAI.endpoint("count", paths, summary).reads("ChatCall", example);
    let paths = &["/v1/responses/input_tokens", "/responses/input_tokens"];
    let responses = OPENAI.endpoint("count", paths, summary).reads("ResponseCall", json!({ "input": "Hi" }));
    Routes::default()
        .post(chats.answers("#InputTokens"), count_chat)
        .post(responses.answers("#InputTokens"), count_response)
        .shapes([("InputTokens", json!({ "object": "=response.input_tokens", "input_tokens": "integer" }))])
}

async fn count_chat(read: Read<chat::Body>) -> Result<Response, ApiError> {
    let Read { app, client, model, body, .. } = read;
    let chat::Call { request, ignored, .. } = chat::read(body, &app)?;
    let read = Read { app, client, model, body: request.input, ignored: Vec::new() };
    Ok(with_ignored(count(read, "messages").await?, ignored))
}

async fn count_response(read: Read<responses::Body>) -> Result<Response, ApiError> {
    let Read { app, client, model, body, .. } = read;
    let (request, ignored) = responses::read(body, &app)?;
    let read = Read { app, client, model, body: request.input, ignored: Vec::new() };
    Ok(with_ignored(count(read, "input").await?, ignored))
}

async fn count(read: Read<Input>, input_field: &str) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let _admission = read.app.admit(&read.client, 1)?;
    let n = count_tokens(&read.app, &served, read.body, input_field).await?;
    Ok(Json(json!({ "object": "response.input_tokens", "input_tokens": n })).into_response())
}
