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

use std::sync::Arc;

use engine::StopReason;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::Routes;
use crate::id;
use crate::models::Served;
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
struct StreamOptions {
    /// End with the counts of tokens.
    include_usage: Option<bool>,
}

/// The fields of an answer before its choices.
struct Head {
    id: String,
    created: i64,
    served: Arc<Served>,
}

impl Head {
    fn new(prefix: &str, served: Arc<Served>) -> Head {
        Head { id: id::new(prefix), created: id::now(), served }
    }

    /// An answer, or an event of one. The same seed gives the same answer while `system_fingerprint` stays the same.
    fn json(&self, object: &str, choices: impl Into<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "system_fingerprint": concat!("build-", env!("CARGO_PKG_VERSION")),
            "model": self.served.name,
            "choices": choices.into(),
        })
    }
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
