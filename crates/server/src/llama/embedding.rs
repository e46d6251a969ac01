//! `/embedding`: embeddings in llama-server's own shape.

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::LLAMA;
use crate::embedding::{Cut, Texts, Truncation};
use crate::error::ApiError;
use crate::fields::{Group, Read, Within};
use crate::http::Routes;

#[derive(Deserialize, JsonSchema)]
struct Body {
    /// Texts, or their token ids.
    content: Option<Texts>,
    /// The same as `content`.
    input: Option<Texts>,
    /// Embeddings have the Euclidean length 1.
    #[expect(dead_code, reason = "there is one value, which embeddings have anyway")]
    embd_normalize: Option<Within<2, 2>>,
}

impl Group for Body {}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "LlamaEmbedding")]
struct Datum {
    index: usize,
    /// One, in a list: without pooling, there would be those of the text's tokens.
    embedding: [Vec<f32>; 1],
}

pub(super) fn routes() -> Routes {
    let embed = LLAMA.endpoint("embed", &["/embedding"], "Computes embeddings, of Euclidean length 1");
    let embed = embed.reads("LlamaEmbeddingCall", json!({ "content": ["a b", "c"] }));
    Routes::default().post(embed.answers_with::<Vec<Datum>>(), handle)
}

async fn handle(read: Read<(Body, Truncation)>) -> Result<Response, ApiError> {
    let encoder = read.encoder().await?;
    let (Body { content, input, .. }, truncation) = read.body;
    let cut = truncation.cut(Cut::Never)?;
    let param = if content.is_none() && input.is_some() { "input" } else { "content" };
    let texts =
        content.or(input).ok_or_else(|| ApiError::invalid("content", "is missing; expected texts"))?;
    let (embeddings, _) = texts.embed(param, None, cut, &encoder, &read.app, &read.client).await?;
    let one = |(index, embedding)| Datum { index, embedding: [embedding] };
    let answer: Vec<Datum> = embeddings.into_iter().enumerate().map(one).collect();
    Ok(Json(answer).into_response())
}
