//! `/v1/models`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::models::Held;

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    let models: Vec<Value> = app.models.list().map(|(name, held)| describe(&app, name, held)).collect();
    Json(json!({ "object": "list", "data": models })).into_response()
}

pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let (name, held) = app.models.look(Some(&id))?;
    Ok(Json(describe(&app, name, held)).into_response())
}

/// A model that is not loaded has only its name.
fn describe(app: &App, name: &str, held: Option<Held>) -> Value {
    let mut shape = json!({
        "id": name,
        "object": "model",
        "created": app.started,
        "owned_by": "rustorch",
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
