//! Anthropic's protocol.

mod conversation;
mod messages;
mod request;

pub(crate) use messages::routes;

use axum::http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::app::App;
use crate::models::Held;
use crate::openapi::Protocol;

const ANTHROPIC: Protocol = Protocol { tag: "Anthropic", error: "AnthropicError" };

/// Whether a request for `path` with these headers speaks this protocol. The models are at the same path as OpenAI's.
pub(crate) fn is_spoken(path: &str, headers: &HeaderMap) -> bool {
    let is_below =
        |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below("/v1/messages") || is_below("/v1/models") && headers.contains_key("anthropic-version")
}

/// The answers of `/v1/models` in this protocol, for the OpenAPI document. Their paths are declared with OpenAI's.
fn model_shapes() -> [(&'static str, Json); 2] {
    let model = json!({
        "type": "=model", "id": "string", "display_name": "string", "created_at": "string", "lifecycle": "string",
        "max_input_tokens": "integer|null", "max_tokens": "integer|null",
    });
    let id = "string|null";
    let models = json!({ "data": ["#AnthropicModel"], "has_more": "boolean", "first_id": id, "last_id": id });
    [("AnthropicModel", model), ("AnthropicModels", models)]
}

pub(crate) fn list_models(app: &App) -> Json {
    let data: Vec<Json> = app.models.list().map(|(name, held)| describe_model(app, name, held)).collect();
    let id = |model: Option<&Json>| model.map(|model| model["id"].clone());
    json!({ "has_more": false, "first_id": id(data.first()), "last_id": id(data.last()), "data": data })
}

/// A model that is not loaded has only its name.
pub(crate) fn describe_model(app: &App, name: &str, held: Option<Held>) -> Json {
    let created = Timestamp::from_second(app.started).unwrap_or_default();
    let n_ctx = held.map(|held| held.n_ctx);
    json!({
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": created.to_string(),
        "lifecycle": "active",
        "max_input_tokens": n_ctx,
        "max_tokens": n_ctx,
    })
}
