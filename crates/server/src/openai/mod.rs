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
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::Routes;
use crate::openapi::Protocol;

pub(crate) const OPENAI: Protocol = Protocol { tag: "OpenAI", error: "OpenAiError" };

pub(crate) fn routes() -> Routes {
    let error = json!({
        "message": "string", "type": "string", "param": "string|null", "code": "string|null",
        "n_prompt_tokens?": "integer", "n_ctx?": "integer",
    });
    chat::routes()
        .merge(input_tokens::routes())
        .merge(completions::routes())
        .merge(embeddings::routes())
        .merge(rerank::routes())
        .merge(responses::routes())
        .merge(models::routes())
        .shapes(logprobs::shapes())
        .shapes([("OpenAiError", json!({ "error": error }))])
}

/// `stream_options`.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(inline)]
struct StreamOptions {
    /// End with the counts of tokens.
    include_usage: Option<bool>,
}

impl StreamOptions {
    fn include_usage(&self) -> bool {
        self.include_usage.unwrap_or(false)
    }
}

/// `system_fingerprint`: the same seed gives the same answer as long as it stays the same.
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
