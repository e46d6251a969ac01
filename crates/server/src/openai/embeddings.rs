//! `/v1/embeddings`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::embedding::{Embedding, Texts};
use crate::error::ApiError;
use crate::fields::HARMLESS;
use crate::http::{Client, call_encoder, with_ignored};

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Float,
    /// Of float32, little-endian.
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

#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    model: &'a str,
    data: Vec<Datum<'a>>,
    usage: Usage,
}

#[derive(Serialize)]
struct Datum<'a> {
    object: &'static str,
    index: usize,
    embedding: Written<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Floats(&'a [f32]),
    Text(String),
}

/// Tokens of a call that generates none.
#[derive(Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: usize,
    pub(super) total_tokens: usize,
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, encoder) = call_encoder(&app, request).await?;
    let texts: Texts = fields.require("input")?;
    let encoding = fields.take("encoding_format")?.unwrap_or(Encoding::Float);
    let embedding = Embedding { texts, param: "input", dimensions: fields.take("dimensions")? };
    fields.ignore(HARMLESS);
    let ignored = fields.unknown();
    let (embeddings, tokens) = embedding.compute(&app, &encoder, &client).await?;
    let answer = Answer {
        object: "list",
        model: &encoder.name,
        data: embeddings.iter().enumerate().map(|datum| encoding.datum(datum)).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}
