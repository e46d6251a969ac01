//! `/api/embed`, and `/api/embeddings`, which has one text.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::Call;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::{Client, with_ignored};
use crate::job::OneOrMany;
use crate::models::{Encoder, Lease};

/// Texts of a call.
const MAX_TEXTS: usize = 2048;

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
        None => Vec::new(),
        Some(OneOrMany::One(text)) => vec![text],
        Some(OneOrMany::Many(texts)) => texts,
    };
    if texts.len() > MAX_TEXTS {
        let message = format!("`input` has {} texts, expected at most {MAX_TEXTS}", texts.len());
        return Err(ApiError::invalid("input", message));
    }
    if let Some(dimensions) = fields.take::<usize>("dimensions")?
        && dimensions != encoder.width
    {
        let message =
            format!("`dimensions` is {dimensions}, but this model's embeddings have {}", encoder.width);
        return Err(ApiError::unsupported("dimensions", message));
    }
    let ignored = ignored(fields);
    let (embeddings, tokens) = embed(&app, &client, encoder, texts, |n| format!("input[{n}]")).await?;
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
    let text: String = fields.require("prompt")?;
    let ignored = ignored(fields);
    let (mut embeddings, _) =
        embed(&app, &client, model.encoder()?, vec![text], |_| "prompt".to_owned()).await?;
    let answer = OldAnswer { embedding: embeddings.pop().unwrap_or_default() };
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}

/// Options are those of a model's load.
fn ignored(mut fields: Fields) -> Vec<String> {
    // A text is never cut, which `truncate: false` asks for; `true` allows it.
    fields.ignore(&["truncate", "keep_alive"]);
    fields.unknown()
}

/// The embeddings, and the number of tokens.
async fn embed(
    app: &Arc<App>,
    client: &Client,
    encoder: Arc<Lease<Encoder>>,
    texts: Vec<String>,
    param: impl Fn(usize) -> String + Clone + Send + 'static,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    if encoder.is_reranker() {
        return Err(ApiError::unsupported("model", "this model scores documents; use /v1/rerank"));
    }
    let place = app.place(client, 1)?;
    let encoding = encoder.clone();
    let places = param.clone();
    let encode = move || {
        let one = |(n, text): (usize, &String)| encoding.encode(text, &places(n));
        texts.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()
    };
    let texts = app.blocking(encode).await??;
    let tokens = texts.iter().map(Vec::len).sum();
    place.meter().iter().for_each(|meter| meter.charge(tokens));
    Ok((encoder.embeddings(texts, param).await?, tokens))
}
