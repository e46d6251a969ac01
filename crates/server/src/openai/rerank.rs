//! `/v1/rerank`, as Jina's and Cohere's clients know it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::OPENAI;
use super::embeddings::Usage;
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Read, Within, at_most};
use crate::http::Routes;
use crate::id;

/// Documents of a call.
const MAX_DOCUMENTS: usize = 1024;

/// Bytes of the query times the number of documents: the query is encoded once per document.
const MAX_QUERY_BYTES: usize = 32 << 20;

#[derive(Deserialize, JsonSchema)]
struct Body {
    /// The question.
    query: String,
    /// Texts to be scored.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    documents: Option<Vec<Document>>,
    /// The same; answers are in Hugging Face's shape.
    #[schemars(length(min = 1, max = MAX_DOCUMENTS))]
    texts: Option<Vec<Document>>,
    /// Return so many of them.
    top_n: Option<Within<1, { usize::MAX }>>,
    /// Return their texts.
    #[serde(default)]
    return_documents: bool,
    /// The same of `texts`.
    #[serde(default)]
    return_text: bool,
}

impl Group for Body {}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(inline)]
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

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Ranking")]
struct Answer<'a> {
    id: String,
    object: &'static str,
    model: &'a str,
    results: Vec<Scored>,
    usage: Usage,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct Scored {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
}

/// The same in the shape of Hugging Face's text-embeddings-inference, whose clients send `texts` in place of `documents`.
#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct ScoredText {
    index: usize,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[expect(dead_code, reason = "for the document")]
enum AnyAnswer<'a> {
    Ranking(Answer<'a>),
    Texts(Vec<ScoredText>),
}

pub(super) fn routes() -> Routes {
    let paths = &["/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"];
    let rank = OPENAI.endpoint("rank", paths, "Scores documents for a query, best first");
    let rank = rank.reads("RankCall", json!({ "query": "a", "documents": ["a b", "c"] }));
    Routes::default().post(rank.answers_with::<AnyAnswer<'_>>(), handle)
}

async fn handle(read: Read<Body>) -> Result<Response, ApiError> {
    let encoder = read.encoder().await?;
    let Read {
        app,
        client,
        body: Body { query, documents, texts, top_n, return_documents, return_text },
        ..
    } = read;
    let param = if documents.is_none() && texts.is_some() { "texts" } else { "documents" };
    let documents = documents.or(texts).unwrap_or_default();
    at_most(param, &documents, MAX_DOCUMENTS)?;
    if documents.is_empty() {
        return Err(ApiError::invalid("documents", "is missing or empty"));
    }
    let top_n = top_n.map_or(usize::MAX, |n| n.0);
    if !encoder.is_reranker() {
        let message = "this model computes embeddings; use /v1/embeddings";
        return Err(ApiError::new(Kind::Unsupported, message).at("model"));
    }
    let most = MAX_QUERY_BYTES / documents.len();
    if query.len() > most {
        let (found, n) = (query.len(), documents.len());
        let why = format!("has {found} bytes, expected at most {most} with {n} documents");
        return Err(ApiError::invalid("query", why));
    }
    let admission = app.admit(&client, 1)?;
    let documents: Vec<String> = documents.into_iter().map(Document::text).collect();
    let (pairing, paired) = (encoder.clone(), documents.clone());
    let field = move |n: usize| format!("{param}[{n}]");
    let pairs = app.blocking(move || {
        let pair = |(n, document): (usize, &String)| pairing.pair(&query, document, &field(n));
        paired.iter().enumerate().map(pair).collect::<Result<Vec<_>, _>>()
    });
    let pairs = pairs.await??;
    let tokens: usize = pairs.iter().map(Vec::len).sum();
    admission.charge(tokens);
    let scores = encoder.scores(pairs, field).await?;
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ranked = ranked.into_iter().take(top_n);
    if param == "texts" {
        let text = |index: usize| return_text.then(|| documents[index].clone());
        let scored = ranked.map(|(index, score)| ScoredText { index, score, text: text(index) });
        return Ok(Json(scored.collect::<Vec<_>>()).into_response());
    }
    let result = |(index, relevance_score)| Scored {
        index,
        relevance_score,
        document: return_documents.then(|| Document::Named { text: documents[index].clone() }),
    };
    let answer = Answer {
        id: id::new("rerank-"),
        object: "list",
        model: &encoder.name,
        results: ranked.map(result).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(Json(answer).into_response())
}
