//! OpenAI's protocol.

mod chat;
mod completions;
pub(crate) mod conversation;
mod embeddings;
mod input_tokens;
pub(crate) mod logprobs;
mod models;
mod rerank;
pub(crate) mod responses;

use engine::StopReason;
use serde::Deserialize;

pub(crate) use chat::REFUSED as REFUSED_BY_CHATS;
pub(crate) use completions::REFUSED as REFUSED_BY_COMPLETIONS;
pub(crate) use rerank::MAX_DOCUMENTS;

use crate::http::Routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .post("/v1/chat/completions", chat::handle)
        .post("/chat/completions", chat::handle)
        .post("/v1/chat/completions/input_tokens", input_tokens::of_chat)
        .post("/chat/completions/input_tokens", input_tokens::of_chat)
        .post("/v1/completions", completions::handle)
        .post("/completions", completions::handle)
        .post("/v1/embeddings", embeddings::handle)
        .post("/embeddings", embeddings::handle)
        .post("/v1/rerank", rerank::handle)
        .post("/rerank", rerank::handle)
        .post("/v2/rerank", rerank::handle)
        .post("/v1/reranking", rerank::handle)
        .post("/reranking", rerank::handle)
        .post("/v1/responses", responses::handle)
        .post("/responses", responses::handle)
        .post("/v1/responses/input_tokens", input_tokens::of_responses)
        .post("/responses/input_tokens", input_tokens::of_responses)
        .get("/v1/models", models::list)
        .get("/models", models::list)
        .get("/v1/models/{*id}", models::one)
}

/// `stream_options`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl StreamOptions {
    fn includes_usage(&self) -> bool {
        self.include_usage.unwrap_or(false)
    }
}

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
