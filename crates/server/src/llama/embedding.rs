//! `/embedding`: embeddings in llama-server's own shape.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::app::App;
use crate::embedding::{Embedding, Texts};
use crate::error::ApiError;
use crate::http::{Client, call_encoder, with_ignored};

#[derive(Serialize)]
struct Datum {
    index: usize,
    /// Of the text, where there would be those of its tokens without pooling.
    embedding: [Vec<f32>; 1],
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, encoder) = call_encoder(&app, request).await?;
    let content: Option<Texts> = fields.take("content")?;
    let input: Option<Texts> = fields.take("input")?;
    let param = if content.is_none() && input.is_some() { "input" } else { "content" };
    let texts = content
        .or(input)
        .ok_or_else(|| ApiError::invalid("content", "`content` is missing; expected texts"))?;
    if fields.take("embd_normalize")?.is_some_and(|norm: i64| norm != 2) {
        let message =
            "`embd_normalize`: the Euclidean length of embeddings is 1 here, which is 2; leave it out";
        return Err(ApiError::unsupported("embd_normalize", message));
    }
    let embedding = Embedding { texts, param, dimensions: None };
    let ignored = fields.unknown();
    let (embeddings, _) = embedding.compute(&app, &encoder, &client).await?;
    let one = |(index, embedding)| Datum { index, embedding: [embedding] };
    let answer: Vec<Datum> = embeddings.into_iter().enumerate().map(one).collect();
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}
