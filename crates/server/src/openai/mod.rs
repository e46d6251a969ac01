//! OpenAI's protocol.

mod chat;
mod completions;
pub(crate) mod conversation;
mod embeddings;
mod input_tokens;
pub(crate) mod logprobs;
mod models;
mod rerank;
mod responses;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use engine::StopReason;
use serde::Deserialize;

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/chat/completions", post(chat::handle))
        .route("/chat/completions", post(chat::handle))
        .route("/v1/chat/completions/input_tokens", post(input_tokens::of_chat))
        .route("/chat/completions/input_tokens", post(input_tokens::of_chat))
        .route("/v1/completions", post(completions::handle))
        .route("/completions", post(completions::handle))
        .route("/v1/embeddings", post(embeddings::handle))
        .route("/embeddings", post(embeddings::handle))
        .route("/v1/rerank", post(rerank::handle))
        .route("/rerank", post(rerank::handle))
        .route("/v1/reranking", post(rerank::handle))
        .route("/reranking", post(rerank::handle))
        .route("/v1/responses", post(responses::handle))
        .route("/responses", post(responses::handle))
        .route("/v1/responses/input_tokens", post(input_tokens::of_responses))
        .route("/responses/input_tokens", post(input_tokens::of_responses))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
}

/// `stream_options`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// Fields that mean something to other servers, and change nothing here.
const HARMLESS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "cache_prompt",
    "slot_id",
    "id_slot",
];

/// What computes the answers, in `system_fingerprint`: the same seed gives the same answer as long as it stays the same.
const FINGERPRINT: &str = concat!("build-", env!("CARGO_PKG_VERSION"));

/// Why an answer without tool calls ended.
fn finish_reason(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Eog(_) | StopReason::StopId(_) | StopReason::StopString(_) | StopReason::Cancelled => {
            "stop"
        }
        StopReason::MaxTokens | StopReason::ContextFull => "length",
    }
}
