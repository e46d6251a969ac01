//! `/v1/models`, which Anthropic's clients ask, too.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::anthropic;
use crate::app::App;
use crate::error::ApiError;
use crate::served::Served;

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response {
    if anthropic::is_spoken(uri.path(), &headers) {
        return Json(anthropic::models::list(&app.models)).into_response();
    }
    let models: Vec<Value> = app.models.0.iter().map(|served| describe(served)).collect();
    Json(json!({ "object": "list", "data": models })).into_response()
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let served = app.models.get(Some(&id))?;
    let shape = match anthropic::is_spoken(uri.path(), &headers) {
        true => anthropic::models::describe(served),
        false => describe(served),
    };
    Ok(Json(shape).into_response())
}

fn describe(served: &Served) -> Value {
    let config = served.model.config();
    json!({
        "id": served.name,
        "object": "model",
        "created": served.created,
        "owned_by": "rustorch",
        "max_model_len": served.limits.n_ctx,
        "meta": {
            "architecture": config.architecture,
            "n_ctx": served.limits.n_ctx,
            "n_ctx_train": config.context_length,
            "n_vocab": served.model.tokenizer().vocab_size(),
        },
    })
}
