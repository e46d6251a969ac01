//! `/props`, `/tokenize`, `/detokenize` and `/apply-template`, as llama-server has them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::Params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokenizer::{Detokenizer, Kind, Tokenizer};

use crate::answer::{joined, token_text};
use crate::app::App;
use crate::error::ApiError;
use crate::fields::{Group, MAX_VALUES, Read};
use crate::http::{Routes, with_ignored};
use crate::models::Held;
use crate::openai::conversation;
use crate::openapi::Protocol;

/// Errors have OpenAI's shape.
const LLAMA: Protocol = Protocol { error: "OpenAiError", ..super::LLAMA };

pub(super) fn routes() -> Routes {
    let describe =
        LLAMA.endpoint("props", &["/props"], "Tells of the first model").fails(&[400, 401, 403, 503]);
    let split = LLAMA.endpoint("tokenize", &["/tokenize"], "Splits a text into tokens");
    let join = LLAMA.endpoint("detokenize", &["/detokenize"], "Joins tokens to a text");
    let render =
        LLAMA.endpoint("render", &["/apply-template"], "Renders a conversation with the chat template");
    let props_shape = json!({
        "model_alias": "string", "is_sleeping": "boolean", "default_generation_settings?": "object",
        "total_slots?": "integer", "n_ctx?": "integer", "model_path?": "string|null", "chat_template?": "string|null",
        "bos_token?": "string", "eos_token?": "string", "modalities": "object", "build_info": "string",
    });
    let piece = json!({ "id": "integer", "piece": ["string", ["integer"]] });
    let hi = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    Routes::default()
        .get(describe.answers(props_shape), props)
        .post(
            split
                .reads("TokenizeCall", json!({ "content": "Hi" }))
                .answers(json!({ "tokens": [["integer", piece]] })),
            tokenize,
        )
        .post(
            join.reads("DetokenizeCall", json!({ "tokens": [1, 2] })).answers(json!({ "content": "string" })),
            detokenize,
        )
        .post(render.reads("TemplateCall", hi).answers(json!({ "prompt": "string" })), apply_template)
}

#[derive(Deserialize, JsonSchema)]
struct Tokenize {
    /// The text.
    #[serde(default)]
    content: String,
    /// Begin and end it as a prompt.
    #[serde(default)]
    add_special: bool,
    /// Read special tokens in the text.
    parse_special: Option<bool>,
    /// Return the text of each token.
    #[serde(default)]
    with_pieces: bool,
}

impl Group for Tokenize {}

#[derive(Deserialize, JsonSchema)]
struct Detokenize {
    #[serde(default)]
    tokens: Vec<u32>,
}

impl Group for Detokenize {}

/// The settings of an answer, under the names of the request's fields.
pub(super) fn settings(params: &Params, seed: u32, is_stream: bool) -> Value {
    let common = Params::TABLE.iter().map(|param| (param.name.to_owned(), param.get(params)));
    let common: Value = common.collect();
    let own = json!({
        "seed": seed,
        "n_predict": common["max_tokens"],
        "n_probs": params.logprobs.unwrap_or(0),
        "stream": is_stream,
        // A sampler that is always off here.
        "adaptive_target": -1.0,
        "adaptive_decay": 0.9,
    });
    joined(common, own)
}

/// Looking at a model that is loaded on demand does not load it: then it sleeps.
async fn props(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let (name, held) = app.models.look(None).await?;
    let props = json!({
        "model_alias": name,
        "modalities": { "vision": false, "audio": false },
        "build_info": concat!("rustorch ", env!("CARGO_PKG_VERSION")),
        "is_sleeping": held.is_none(),
    });
    let own = held.map_or(Value::Null, |held| model_props(&app.config.defaults.params, &held));
    Ok(Json(joined(props, own)).into_response())
}

fn model_props(defaults: &Params, held: &Held) -> Value {
    let (model, n_ctx) = (&held.file, held.n_ctx);
    // The seed that stands for a random one.
    let seed = defaults.seed.unwrap_or(u32::MAX);
    let slots = match held {
        Held::Generator(generator) => generator.sequences,
        Held::Encoder(_) => 1,
    };
    let special = |id: Option<u32>| id.and_then(|id| model.tokenizer().token_text(id)).unwrap_or_default();
    let ids = model.tokenizer().special_ids();
    json!({
        "default_generation_settings": { "n_ctx": n_ctx, "params": settings(defaults, seed, false) },
        "total_slots": slots,
        "n_ctx": n_ctx,
        // Its folder concerns no client.
        "model_path": Path::new(model.file().file()).file_name().map(OsStr::to_string_lossy),
        "chat_template": model.template().ok().map(chat::Template::source),
        "bos_token": special(ids.bos()),
        "eos_token": special(ids.eos()),
    })
}

async fn tokenize(read: Read<Tokenize>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let Read { app, client, body: Tokenize { content, add_special, parse_special, with_pieces }, .. } = read;
    let encode = tokenizer::Encode { add_special, parse_special: parse_special.unwrap_or(true) };
    let _admission = app.admit(&client, 1)?;
    let response = app.blocking(move || {
        let ids = served.tokenizer().encode(&content, encode);
        if !with_pieces {
            return Ok(Json(Tokens { tokens: ids }).into_response());
        }
        if ids.len() > MAX_VALUES {
            let found = ids.len();
            let why =
                format!("has {found} tokens, expected at most {MAX_VALUES} with pieces; send it in parts");
            return Err(ApiError::invalid("content", why));
        }
        let tokens = ids.into_iter().map(|id| {
            let (text, bytes) = token_text(&served, id);
            TokenPiece { id, piece: if text.as_bytes() == bytes { text.into() } else { bytes.into() } }
        });
        Ok(Json(Tokens { tokens: tokens.collect() }).into_response())
    });
    response.await?
}

#[derive(Serialize)]
struct Tokens<T> {
    tokens: Vec<T>,
}

#[derive(Serialize)]
struct TokenPiece {
    id: u32,
    /// Its text, or its bytes if they are no text.
    piece: Value,
}

async fn detokenize(read: Read<Detokenize>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let Read { app, client, body: Detokenize { tokens: ids }, .. } = read;
    let n_vocab = served.tokenizer().vocab_size();
    if let Some(id) = ids.iter().find(|&&id| id as usize >= n_vocab) {
        return Err(ApiError::invalid("tokens", format!("has the id {id}, expected ids below {n_vocab}")));
    }
    let _admission = app.admit(&client, 1)?;
    let content = app.blocking(move || text_with_specials(served.tokenizer(), &ids)).await?;
    Ok(Json(json!({ "content": content })).into_response())
}

/// The text of tokens that `/tokenize` splits into them: special tokens are written as they are read.
fn text_with_specials(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut text = String::new();
    for &id in ids {
        if tokenizer.kind(id).is_some_and(Kind::is_special) {
            text += &detokenizer.finish();
            text += tokenizer.token_text(id).unwrap_or_default();
        }
        text += &detokenizer.push(id);
    }
    text + &detokenizer.finish()
}

async fn apply_template(read: Read<conversation::Prompt>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (conversation, _, ignored) = conversation::read(read.body, &read.app.config)?;
    let _admission = read.app.admit(&read.client, 1)?;
    let prompt = read.app.blocking(move || served.model.prompt_text(conversation)).await?;
    let prompt = prompt.map_err(|error| ApiError::from_model(error, "messages", "response_format"))?;
    Ok(with_ignored(Json(json!({ "prompt": prompt })).into_response(), ignored))
}
