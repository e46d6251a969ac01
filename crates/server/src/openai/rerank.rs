//! `/v1/rerank`, as Jina's and Cohere's clients know it.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::embeddings::Usage;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::HARMLESS;
use crate::http::{Client, call_encoder, with_ignored};
use crate::id;

/// Documents of a call.
pub(crate) const MAX_DOCUMENTS: usize = 1024;

/// Bytes of the query, once for each document: so often it is encoded.
const MAX_QUERY_BYTES: usize = 32 << 20;

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a string, or an object with `text`")]
enum Document {
    Text(String),
    Named { text: String },
}

impl Document {
    fn text(self) -> String {
        match self {
            Document::Text(text) | Document::Named { text } => text,
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    id: String,
    object: &'static str,
    model: &'a str,
    results: Vec<Scored>,
    usage: Usage,
}

#[derive(Serialize)]
struct Scored {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
}

/// The same in the shape of Hugging Face's text-embeddings-inference, whose clients send `texts` in place of `documents`.
#[derive(Serialize)]
struct ScoredText {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, encoder) = call_encoder(&app, request).await?;
    let query: String = fields.require("query")?;
    let documents: Option<Vec<Document>> = fields.list("documents", MAX_DOCUMENTS)?;
    let texts: Option<Vec<Document>> = fields.list("texts", MAX_DOCUMENTS)?;
    let param = if documents.is_none() && texts.is_some() { "texts" } else { "documents" };
    let documents = documents.or(texts);
    let documents = documents
        .filter(|documents| !documents.is_empty())
        .ok_or_else(|| ApiError::invalid("documents", "`documents` is missing or empty"))?;
    let top_n = fields.within("top_n", 1..=usize::MAX)?.unwrap_or(usize::MAX);
    let is_returned = fields.take("return_documents")?.unwrap_or(false);
    let is_text_returned = fields.take("return_text")?.unwrap_or(false);
    fields.ignore(HARMLESS);
    let ignored = fields.unknown();
    if !encoder.is_reranker() {
        return Err(ApiError::unsupported("model", "this model computes embeddings; use /v1/embeddings"));
    }

    let most = MAX_QUERY_BYTES / documents.len();
    if query.len() > most {
        let (found, n) = (query.len(), documents.len());
        let message = format!("`query` has {found} bytes, expected at most {most} with {n} documents");
        return Err(ApiError::invalid("query", message));
    }
    let place = app.place(&client, 1)?;
    let documents: Vec<String> = documents.into_iter().map(Document::text).collect();
    let (pairing, paired) = (encoder.clone(), documents.clone());
    let pairs = app.blocking(move || {
        let pair = |(n, document): (usize, &String)| pairing.pair(&query, document, &place_of(param, n));
        paired.iter().enumerate().map(pair).collect::<Result<Vec<_>, _>>()
    });
    let pairs = pairs.await??;
    let tokens: usize = pairs.iter().map(Vec::len).sum();
    place.charge(tokens);
    let scores = encoder.scores(pairs, |n| place_of(param, n)).await?;
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ranked = ranked.into_iter().take(top_n);
    if param == "texts" {
        let text = |index: usize| is_text_returned.then(|| documents[index].clone());
        let scored = ranked.map(|(index, score)| ScoredText { index, score, text: text(index) });
        return Ok(with_ignored(Json(scored.collect::<Vec<_>>()).into_response(), &ignored));
    }
    let result = |(index, relevance_score)| Scored {
        index,
        relevance_score,
        document: is_returned.then(|| Document::Named { text: documents[index].clone() }),
    };
    let answer = Answer {
        id: id::new("rerank-"),
        object: "list",
        model: &encoder.name,
        results: ranked.map(result).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(with_ignored(Json(answer).into_response(), &ignored))
}

/// The field of document number `n`.
fn place_of(param: &str, n: usize) -> String {
    format!("{param}[{n}]")
}
