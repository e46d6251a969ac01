//! `/api/embed`, and `/api/embeddings`, which has one text.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::Call;
use crate::app::App;
use crate::embedding::{Embedding, Texts};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::{Client, with_ignored};

/// One string or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Durations are in nanoseconds.
#[derive(Serialize)]
struct Answer {
    model: String,
    embeddings: Vec<Vec<f32>>,
    total_duration: u128,
    load_duration: u128,
    prompt_eval_count: usize,
}

#[derive(Serialize)]
struct OldAnswer {
    embedding: Vec<f32>,
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let Call { mut fields, model, name } = Call::read(&app, request).await?;
    let loaded = began.elapsed();
    let encoder = model.encoder()?;
    let texts = match fields.take("input")? {
        None => Texts::many(Vec::new()),
        Some(OneOrMany::One(text)) => Texts::one(text),
        Some(OneOrMany::Many(texts)) => Texts::many(texts),
    };
    let embedding = Embedding { texts, param: "input", dimensions: fields.take("dimensions")? };
    let ignored = ignored(fields);
    let (embeddings, tokens) = embedding.compute(&app, &encoder, &client).await?;
    let answer = Answer {
        model: name,
        embeddings,
        total_duration: began.elapsed().as_nanos(),
        load_duration: loaded.as_nanos(),
        prompt_eval_count: tokens,
    };
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}

pub(super) async fn old(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let Call { mut fields, model, .. } = Call::read(&app, request).await?;
    let encoder = model.encoder()?;
    let embedding =
        Embedding { texts: Texts::one(fields.require("prompt")?), param: "prompt", dimensions: None };
    let ignored = ignored(fields);
    let (mut embeddings, _) = embedding.compute(&app, &encoder, &client).await?;
    let answer = OldAnswer { embedding: embeddings.pop().unwrap_or_default() };
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}

/// A text is never cut, which `truncate: false` asks for; `true` allows it.
pub(crate) const WITHOUT_EFFECT: &[&str] = &["truncate", "keep_alive"];

/// Options are those of a model's load.
fn ignored(mut fields: Fields) -> Vec<String> {
    fields.ignore(WITHOUT_EFFECT);
    fields.unknown()
}
