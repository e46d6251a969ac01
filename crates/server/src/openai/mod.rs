//! OpenAI's protocol.

mod chat;
mod completions;
pub(crate) mod conversation;
mod embeddings;
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
        .post("/v1/completions", completions::handle)
        .post("/completions", completions::handle)
        .post("/v1/embeddings", embeddings::handle)
        .post("/embeddings", embeddings::handle)
        .post("/v1/rerank", rerank::handle)
        .post("/rerank", rerank::handle)
        .post("/v1/responses", responses::handle)
        .post("/responses", responses::handle)
        .get("/v1/models", models::list)
        .get("/models", models::list)
        .get("/v1/models/{*id}", models::one)
}

/// `stream_options`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// Why an answer without tool calls ended.
fn finish_reason(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Eog(_) | StopReason::StopId(_) | StopReason::StopString(_) | StopReason::Cancelled => {
            "stop"
        }
        StopReason::MaxTokens | StopReason::ContextFull => "length",
    }
}
