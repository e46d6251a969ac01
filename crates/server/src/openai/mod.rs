//! OpenAI's protocol.

mod chat;
mod completions;
mod conversation;
mod logprobs;
mod models;

pub(crate) use conversation::{Conversation, too_long_for};

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::{get, post};
use engine::StopReason;
use serde::Deserialize;

use crate::app::App;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::body;
use crate::served::Served;

/// Names the fields of a request that this server does not know.
const IGNORED: HeaderName = HeaderName::from_static("x-ignored-fields");

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/chat/completions", post(chat::handle))
        .route("/chat/completions", post(chat::handle))
        .route("/v1/completions", post(completions::handle))
        .route("/completions", post(completions::handle))
        .route("/v1/models", get(models::list))
        .route("/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
}

/// The fields of a call's body, and the model that they name.
pub(crate) async fn call(app: &App, request: Request) -> Result<(Fields, Arc<Served>), ApiError> {
    let mut fields = body(request, &app.config.limits).await?;
    let served = app.models.get(fields.take::<String>("model")?.as_deref())?.clone();
    Ok((fields, served))
}

/// `stream_options`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// Notes which fields were ignored.
fn with_ignored(mut response: Response, names: &[String]) -> Response {
    if !names.is_empty()
        && let Ok(value) = HeaderValue::from_str(&names.join(", "))
    {
        response.headers_mut().insert(IGNORED, value);
    }
    response
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

/// Why an answer without tool calls ended.
fn finish_reason(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::Eog(_) | StopReason::StopId(_) | StopReason::StopString(_) | StopReason::Cancelled => {
            "stop"
        }
        StopReason::MaxTokens | StopReason::ContextFull => "length",
    }
}
