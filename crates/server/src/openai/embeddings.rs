//! `/v1/embeddings`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::OPENAI;
use crate::embedding::{Cut, Texts, Truncation};
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::Routes;

#[derive(Deserialize, JsonSchema)]
struct Body {
    /// Texts, or their token ids.
    input: Texts,
    #[serde(default)]
    encoding_format: Encoding,
    /// Only the first so many values of embeddings.
    dimensions: Option<usize>,
}

impl Group for Body {}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    /// float32, little-endian.
    Base64,
}

impl Encoding {
    fn datum(self, (index, embedding): (usize, &Vec<f32>)) -> Datum<'_> {
        let embedding = match self {
            Encoding::Float => Written::Floats(embedding),
            Encoding::Base64 => {
                let bytes: Vec<u8> = embedding.iter().flat_map(|value| value.to_le_bytes()).collect();
                Written::Text(BASE64_STANDARD.encode(bytes))
            }
        };
        Datum { object: "embedding", index, embedding }
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Embeddings")]
struct Answer<'a> {
    object: &'static str,
    model: &'a str,
    data: Vec<Datum<'a>>,
    usage: Usage,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Datum<'a> {
    object: &'static str,
    index: usize,
    embedding: Written<'a>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
#[serde(untagged)]
enum Written<'a> {
    Floats(&'a [f32]),
    Text(String),
}

/// Tokens of a call that generates none.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) total_tokens: usize,
}

pub(super) fn routes() -> Routes {
    let paths = &["/v1/embeddings", "/embeddings"];
    let embed = OPENAI.endpoint("embed", paths, "Computes embeddings, of Euclidean length 1");
    let embed = embed.reads("EmbeddingCall", json!({ "input": ["a b", "c"] }));
    Routes::default().post(embed.answers_with::<Answer<'_>>(), handle)
}

async fn handle(read: Read<(Body, Truncation)>) -> Result<Response, ApiError> {
    let encoder = read.encoder().await?;
    let (Body { input, encoding_format, dimensions }, truncation) = read.body;
    let cut = truncation.cut(Cut::Never)?;
    let embedded = input.embed("input", dimensions, cut, &encoder, &read.app, &read.client);
    let (embeddings, tokens) = embedded.await?;
    let answer = Answer {
        object: "list",
        model: &encoder.name,
        data: embeddings.iter().enumerate().map(|datum| encoding_format.datum(datum)).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(Json(answer).into_response())
}
