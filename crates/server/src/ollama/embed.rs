//! `/api/embed`, and `/api/embeddings`, which has one text.

use std::time::Instant;

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::writer::nanoseconds;
use super::{Named, OLLAMA, model};
use crate::embedding::{Item, Texts};
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::Routes;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// One text or several.
    input: Option<OneOrMany>,
    /// Only the number that the model has.
    dimensions: Option<usize>,
}

impl Group for Input {
    /// Texts are never truncated, whatever it says.
    const IGNORED: &'static [&'static str] = &["truncate"];
}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    prompt: String,
}

impl Group for Prompt {
    const IGNORED: &'static [&'static str] = &["truncate"];
}

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

async fn handle(mut read: Read<(Named, Input)>) -> Result<Response, ApiError> {
    let began = Instant::now();
    let old = read.body.0.name.take();
    let (model, name) = model(&read, old).await?;
    let loaded = began.elapsed();
    let encoder = model.encoder()?;
    let Input { input, dimensions } = read.body.1;
    let texts = match input {
        None => Texts::Many(Vec::new()),
        Some(OneOrMany::One(text)) => Texts::One(Item::Text(text)),
        Some(OneOrMany::Many(texts)) => Texts::Many(texts.into_iter().map(Item::Text).collect()),
    };
    let embedded = texts.embed("input", dimensions, &encoder, &read.app, &read.client);
    let (embeddings, prompt_eval_count) = embedded.await?;
    let (total_duration, load_duration) = (nanoseconds(began.elapsed()), nanoseconds(loaded));
    Ok(Json(Answer { model: name, embeddings, total_duration, load_duration, prompt_eval_count })
        .into_response())
}

async fn handle_old(mut read: Read<(Named, Prompt)>) -> Result<Response, ApiError> {
    let old = read.body.0.name.take();
    let (model, _) = model(&read, old).await?;
    let encoder = model.encoder()?;
    let texts = Texts::One(Item::Text(read.body.1.prompt));
    let (mut embeddings, _) = texts.embed("prompt", None, &encoder, &read.app, &read.client).await?;
    Ok(Json(OldAnswer { embedding: embeddings.pop().unwrap_or_default() }).into_response())
}
