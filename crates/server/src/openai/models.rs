//! `/v1/models`, which Anthropic's clients ask, too.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::OPENAI;
use crate::anthropic;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Routes, open_part};
use crate::models::{Held, parameters};

pub(super) fn routes() -> Routes {
    let (version, help) = ("anthropic-version", "Below /v1, the answer has Anthropic's shape.");
    let all = OPENAI.endpoint("models", &["/v1/models", "/models"], "Lists the models");
    let all = all.asks(version, "header", help).fails_as("AnyError", &[400, 401, 403, 500]);
    let one = OPENAI.endpoint("model", &["/v1/models/{*id}"], "Describes a model");
    let one =
        one.asks("id", "path", "The model's name, which may have slashes.").asks(version, "header", help);
    let one = one.fails_as("AnyError", &[400, 401, 403, 404]);
    let model = json!({
        "id": "string", "object": "=model", "created": "integer", "owned_by": "string", "aliases": ["string"],
        "status": { "value": "=loaded|=loading|=unloaded" }, "max_model_len?": "integer", "meta?": "object",
        "capabilities?": ["=chat|=completion|=embedding"],
    });
    Routes::default()
        .get(all.answers("#Models|#AnthropicModels"), list)
        .get(one.answers("#Model|#AnthropicModel"), describe_one)
        .shapes([
            ("Model", model),
            ("Models", json!({ "object": "=list", "data": ["#Model"] })),
            ("AnyError", json!("#OpenAiError|#AnthropicError")),
        ])
}

async fn list(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    if anthropic::is_spoken(uri.path(), &headers) {
        return Json(anthropic::list_models(&app)).into_response();
    }
    let models: Vec<Value> = app.models.list().map(|(name, held)| describe(&app, name, held)).collect();
    Json(json!({ "object": "list", "data": models })).into_response()
}

async fn describe_one(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = open_part(id)?;
    // A list of names does not have those for which a model stands in.
    if app.models.used_for(&id).is_some() {
        return Err(app.models.unknown(&id));
    }
    let (name, held) = app.models.look(Some(&id)).await?;
    let is_anthropic = anthropic::is_spoken(uri.path(), &headers);
    let describe = if is_anthropic { anthropic::describe_model } else { describe };
    Ok(Json(describe(&app, name, held)).into_response())
}

/// A model that is not loaded has only its names.
fn describe(app: &App, name: &str, held: Option<Held>) -> Value {
    let is_first = app.models.list().next().is_some_and(|(first, _)| first == name);
    let status = match held {
        Some(_) => "loaded",
        None if app.models.is_loading(name) => "loading",
        None => "unloaded",
    };
    let aliases: Vec<&str> = app.models.aliases().filter(|_| is_first).collect();
    let mut shape = json!({
        "id": name,
        "object": "model",
        "created": app.started,
        "owned_by": "rustorch",
        "aliases": aliases,
        "status": { "value": status },
    });
    if let Some(held) = held {
        let (model, n_ctx) = (&held.file, held.n_ctx);
        shape["max_model_len"] = n_ctx.into();
        shape["meta"] = json!({
            "architecture": model.config().architecture,
            "n_ctx": n_ctx,
            "n_ctx_train": model.config().context_length,
            "n_vocab": model.tokenizer().vocab_size(),
            "n_params": parameters(model.file()),
        });
        shape["capabilities"] = match &held {
            Held::Encoder(_) => json!(["embedding"]),
            Held::Generator(_) if model.template().is_ok() => json!(["completion", "chat"]),
            Held::Generator(_) => json!(["completion"]),
        };
    }
    shape
}
