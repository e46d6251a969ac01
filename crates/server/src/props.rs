//! `/props`, `/tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::answer::token_text;
use crate::app::App;
use crate::conversation::too_long_for;
use crate::error::ApiError;
use crate::http::call;
use crate::openai::conversation;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/props", get(props))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/apply-template", post(apply_template))
}

async fn props(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let served = app.models.get(None).await?.generator()?;
    let sampling = engine::Sampling::default();
    let template = served.model.template().ok();
    let props = json!({
        "default_generation_settings": {
            "n_ctx": served.limits.n_ctx,
            "params": {
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "repeat_penalty": sampling.repeat_penalty,
            },
        },
        "total_slots": served.limits.sequences,
        "n_ctx": served.limits.n_ctx,
        "model_alias": served.name,
        "chat_template": template.map(chat::Template::source),
        "modalities": { "vision": false, "audio": false },
        "build_info": concat!("rustorch ", env!("CARGO_PKG_VERSION")),
    });
    Ok(Json(props).into_response())
}

async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let text: String = fields.take("content")?.unwrap_or_default();
    let encode = tokenizer::Encode {
        add_special: fields.take("add_special")?.unwrap_or(false),
        parse_special: fields.take("parse_special")?.unwrap_or(true),
    };
    let with_pieces: bool = fields.take("with_pieces")?.unwrap_or(false);
    let named = served.clone();
    let ids = app.blocking(move || named.model.tokenizer().encode(&text, encode)).await?;
    let tokens: Vec<Value> = match with_pieces {
        false => ids.into_iter().map(Value::from).collect(),
        true => {
            let piece = |id| match token_text(&served, id) {
                (text, bytes) if text.as_bytes() == bytes => json!(text),
                (_, bytes) => json!(bytes),
            };
            ids.into_iter().map(|id| json!({ "id": id, "piece": piece(id) })).collect()
        }
    };
    Ok(Json(json!({ "tokens": tokens })).into_response())
}

async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let ids: Vec<u32> = fields.take("tokens")?.unwrap_or_default();
    let n_vocab = served.model.tokenizer().vocab_size();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
        return Err(ApiError::invalid(
            "tokens",
            format!("`tokens` has the id {id}, expected ids below {n_vocab}"),
        ));
    }
    Ok(Json(json!({ "content": served.model.tokenizer().decode(&ids) })).into_response())
}

async fn apply_template(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let conversation = conversation::read(&mut fields, &app.config.limits)?;
    let bytes = conversation.bytes();
    too_long_for(&served, bytes)?;
    let prompt = app.blocking(move || conversation.prompt(&served)).await??;
    Ok(Json(json!({ "prompt": prompt })).into_response())
}
