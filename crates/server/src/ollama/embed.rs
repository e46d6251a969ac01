//! `/api/embed`, and `/api/embeddings`, which has one text.

use std::time::Instant;

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::writer::nanoseconds;
use super::{Named, OLLAMA, model};
use crate::embedding::{Cut, Item, Texts, Truncation};
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::Routes;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// One text or several.
    input: Option<OneOrMany>,
    /// Only the first so many values of embeddings.
    dimensions: Option<usize>,
}

impl Group for Input {}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    prompt: String,
}

impl Group for Prompt {}

/// One string or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Durations are in nanoseconds.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "OllamaEmbeddings")]
struct Answer {
    model: String,
    embeddings: Vec<Vec<f32>>,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct OldAnswer {
    embedding: Vec<f32>,
}

pub(super) fn routes() -> Routes {
    let embed = OLLAMA.endpoint("embed", &["/api/embed"], "Computes embeddings");
    let embed = embed.reads("OllamaEmbedCall", json!({ "input": ["a b", "c"] }));
    let old = OLLAMA.endpoint("embed", &["/api/embeddings"], "Computes the embedding of one text");
    let old = old.reads("OllamaEmbeddingCall", json!({ "prompt": "a b" }));
    Routes::default()
        .post(embed.answers_with::<Answer>(), handle)
        .post(old.answers_with::<OldAnswer>(), handle_old)
}

async fn handle(read: Read<(Named, Input, Truncation)>) -> Result<Response, ApiError> {
    let began = Instant::now();
    let (model, name) = model(&read).await?;
    let loaded = began.elapsed();
    let encoder = model.encoder()?;
    let (_, Input { input, dimensions }, truncation) = read.body;
    let cut = truncation.cut(Cut::End)?;
    let texts = match input {
        None => Texts::Many(Vec::new()),
        Some(OneOrMany::One(text)) => Texts::One(Item::Text(text)),
        Some(OneOrMany::Many(texts)) => Texts::Many(texts.into_iter().map(Item::Text).collect()),
    };
    let embedded = texts.embed("input", dimensions, cut, &encoder, &read.app, &read.client);
    let (embeddings, prompt_eval_count) = embedded.await?;
    let (total_duration, load_duration) = (nanoseconds(began.elapsed()), nanoseconds(loaded));
    Ok(Json(Answer { model: name, embeddings, total_duration, load_duration, prompt_eval_count })
        .into_response())
}

async fn handle_old(read: Read<(Named, Prompt, Truncation)>) -> Result<Response, ApiError> {
    let (model, _) = model(&read).await?;
    let encoder = model.encoder()?;
    let (_, Prompt { prompt }, truncation) = read.body;
    let (texts, cut) = (Texts::One(Item::Text(prompt)), truncation.cut(Cut::End)?);
    let (mut embeddings, _) = texts.embed("prompt", None, cut, &encoder, &read.app, &read.client).await?;
    Ok(Json(OldAnswer { embedding: embeddings.pop().unwrap_or_default() }).into_response())
}
