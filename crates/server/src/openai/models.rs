//! `/v1/models`, which Anthropic's clients ask, too.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::anthropic;
use crate::app::App;
use crate::error::ApiError;
use crate::http::open_part;
use crate::models::Held;

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    if anthropic::is_spoken(uri.path(), &headers) {
        return Json(anthropic::models::list(&app)).into_response();
    }
    let models: Vec<Value> = app.models.list().map(|(name, held)| describe(&app, name, held)).collect();
    Json(json!({ "object": "list", "data": models })).into_response()
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (name, held) = app.models.look(Some(&open_part(id)?)).await?;
    let shape = match anthropic::is_spoken(uri.path(), &headers) {
        true => anthropic::models::describe(&app, name, held),
        false => describe(&app, name, held),
    };
    Ok(Json(shape).into_response())
}

/// A model that is not loaded has only its names.
fn describe(app: &App, name: &str, held: Option<Held>) -> Value {
    let is_first = app.models.list().next().is_some_and(|(first, _)| first == name);
    let aliases: Vec<&str> = app.models.aliases().filter(|_| is_first).collect();
    let mut shape = json!({
        "id": name,
        "object": "model",
        "created": app.started,
        "owned_by": "rustorch",
        "aliases": aliases,
        "status": { "value": if held.is_some() { "loaded" } else { "unloaded" } },
    });
    if let Some(held) = held {
        let (model, n_ctx) = (held.model(), held.n_ctx());
        shape["max_model_len"] = n_ctx.into();
        shape["meta"] = json!({
            "architecture": model.config().architecture,
            "n_ctx": n_ctx,
            "n_ctx_train": model.config().context_length,
            "n_vocab": model.tokenizer().vocab_size(),
        });
    }
    shape
}
