//! `/props`, `/tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::answer::token_text;
use crate::app::App;
use crate::conversation::too_long_for;
use crate::error::{ApiError, Kind};
use crate::http::{Client, call};
use crate::models::Held;
use crate::openai::conversation;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/props", get(props))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/apply-template", post(apply_template))
}

/// Looking at a model does not load it.
async fn props(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let (name, held) = app.models.look(None)?;
    let Some(Held::Generator(served)) = held else {
        let message =
            format!("the model `{name}` is not loaded, or writes no text; ask it for something first");
        return Err(ApiError::new(Kind::Busy, message));
    };
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

async fn tokenize(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let text: String = fields.take("content")?.unwrap_or_default();
    let encode = tokenizer::Encode {
        add_special: fields.take("add_special")?.unwrap_or(false),
        parse_special: fields.take("parse_special")?.unwrap_or(true),
    };
    let with_pieces: bool = fields.take("with_pieces")?.unwrap_or(false);
    let _place = app.place(&client, 1)?;
    let tokens = app.blocking(move || {
        let ids = served.model.tokenizer().encode(&text, encode).into_iter();
        let piece = |id| match token_text(&served, id) {
            (text, bytes) if text.as_bytes() == bytes => json!({ "id": id, "piece": text }),
            (_, bytes) => json!({ "id": id, "piece": bytes }),
        };
        let tokens: Vec<Value> =
            if with_pieces { ids.map(piece).collect() } else { ids.map(Value::from).collect() };
        tokens
    });
    Ok(Json(json!({ "tokens": tokens.await? })).into_response())
}

async fn detokenize(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let ids: Vec<u32> = fields.take("tokens")?.unwrap_or_default();
    let n_vocab = served.model.tokenizer().vocab_size();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
        return Err(ApiError::invalid(
            "tokens",
            format!("`tokens` has the id {id}, expected ids below {n_vocab}"),
        ));
    }
    let _place = app.place(&client, 1)?;
    let content = app.blocking(move || served.model.tokenizer().decode(&ids)).await?;
    Ok(Json(json!({ "content": content })).into_response())
}

async fn apply_template(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let conversation = conversation::read(&mut fields, &app.config)?;
    too_long_for(&served, conversation.bytes())?;
    let _place = app.place(&client, 1)?;
    let prompt = app.blocking(move || conversation.prompt(&served)).await??;
    Ok(Json(json!({ "prompt": prompt })).into_response())
}
