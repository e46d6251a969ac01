//! `/props`, `/tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::answer::token_text;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::MAX_VALUES;
use crate::http::{Client, Routes, call, with_ignored};
use crate::llama::settings;
use crate::models::Held;
use crate::openai::conversation;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .get("/props", props)
        .post("/tokenize", tokenize)
        .post("/detokenize", detokenize)
        .post("/apply-template", apply_template)
}

/// Looking at a model that is loaded on demand does not load it: then it sleeps.
async fn props(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let (name, held) = app.models.look(None).await?;
    let mut props = json!({
        "model_alias": name,
        "modalities": { "vision": false, "audio": false },
        "build_info": concat!("rustorch ", env!("CARGO_PKG_VERSION")),
        "is_sleeping": held.is_none(),
    });
    if let (Some(held), Value::Object(props)) = (held, &mut props) {
        props.extend(of_model(&app, &held));
    }
    Ok(Json(props).into_response())
}

/// What is known of a model that is loaded.
fn of_model(app: &App, held: &Held) -> Map<String, Value> {
    let (model, n_ctx) = (held.model(), held.n_ctx());
    let params = &app.config.defaults.params;
    // The seed that stands for a random one.
    let seed = params.seed.unwrap_or(u32::MAX);
    let slots = match held {
        Held::Generator(generator) => generator.limits.sequences,
        Held::Encoder(_) => 1,
    };
    let special = |id: Option<u32>| id.and_then(|id| model.tokenizer().token_text(id)).unwrap_or_default();
    let ids = model.tokenizer().special_ids();
    let props = [
        (
            "default_generation_settings",
            json!({ "n_ctx": n_ctx, "params": settings::json(params, seed, false) }),
        ),
        ("total_slots", slots.into()),
        ("n_ctx", n_ctx.into()),
        // Its folder concerns nobody.
        ("model_path", Path::new(model.file().file()).file_name().map(OsStr::to_string_lossy).into()),
        ("chat_template", model.template().ok().map(chat::Template::source).into()),
        ("bos_token", special(ids.bos()).into()),
        ("eos_token", special(ids.eos()).into()),
    ];
    props.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
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
    let ignored = fields.unknown();
    let _place = app.place(&client, 1)?;
    let response = app.blocking(move || {
        let ids = served.tokenizer().encode(&text, encode);
        if !with_pieces {
            return Ok(Json(Tokens { tokens: ids }).into_response());
        }
        if ids.len() > MAX_VALUES {
            let found = ids.len();
            return Err(ApiError::invalid(
                "content",
                format!("`content` has {found} tokens, expected at most {MAX_VALUES} with pieces; send it in parts"),
            ));
        }
        let tokens = ids.into_iter().map(|id| TokenPiece { id, piece: Piece::of(token_text(&served, id)) });
        Ok(Json(Tokens { tokens: tokens.collect() }).into_response())
    });
    Ok(with_ignored(response.await??, &ignored))
}

#[derive(Serialize)]
struct Tokens<T> {
    tokens: Vec<T>,
}

#[derive(Serialize)]
struct TokenPiece {
    id: u32,
    piece: Piece,
}

/// A token's text, or its bytes if they are no text.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

impl Piece {
    fn of((text, bytes): (String, Vec<u8>)) -> Piece {
        if text.as_bytes() == bytes { Piece::Text(text) } else { Piece::Bytes(bytes) }
    }
}

async fn detokenize(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let ids: Vec<u32> = fields.take("tokens")?.unwrap_or_default();
    let ignored = fields.unknown();
    let n_vocab = served.tokenizer().vocab_size();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
        return Err(ApiError::invalid(
            "tokens",
            format!("`tokens` has the id {id}, expected ids below {n_vocab}"),
        ));
    }
    let _place = app.place(&client, 1)?;
    let content = app.blocking(move || served.tokenizer().decode(&ids)).await?;
    Ok(with_ignored(Json(json!({ "content": content })).into_response(), &ignored))
}

async fn apply_template(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let (conversation, _) = conversation::read(&mut fields, &app.config)?;
    let ignored = fields.unknown();
    let _place = app.place(&client, 1)?;
    let prompt = app.blocking(move || served.model.prompt_text(conversation)).await?;
    let prompt = prompt.map_err(|error| ApiError::of_model(error, "messages", "response_format"))?;
    Ok(with_ignored(Json(json!({ "prompt": prompt })).into_response(), &ignored))
}
