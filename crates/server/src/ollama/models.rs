//! `/api/tags`, `/api/ps` and `/api/show`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::Model;
use engine::gguf::{Gguf, Value as Metadata};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Named, OLLAMA, names, tagged};
use crate::answer::joined;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::Routes;
use crate::models::{Held, parameters};

#[derive(Deserialize, JsonSchema)]
struct Show {
    /// Return all arrays, however long they are.
    #[serde(default)]
    verbose: bool,
}

impl Group for Show {
    /// They would change the answer, not the model.
    const REFUSED: &'static [&'static str] = &["system", "template", "options"];
}

pub(super) fn routes() -> Routes {
    let all = OLLAMA.endpoint("tags", &["/api/tags"], "Lists the models");
    let loaded = OLLAMA.endpoint("ps", &["/api/ps"], "Lists the models that are loaded");
    let one = OLLAMA.endpoint("show", &["/api/show"], "Describes a model").reads("OllamaShowCall", json!({}));
    let listed = json!({
        "name": "string", "model": "string", "size": "integer", "digest": "string", "details": "object",
        "modified_at?": "string", "expires_at?": "string", "size_vram?": "integer", "context_length?": "integer",
    });
    let shown = json!({
        "modelfile": "string", "parameters": "string", "template": "string", "details": "object",
        "model_info": "object", "capabilities": ["string"], "modified_at": "string", "license?": "string",
    });
    let listed = json!({ "models": [listed] });
    Routes::default()
        .get(all.answers(listed.clone()), tags)
        .get(loaded.answers(listed), ps)
        .post(one.answers(shown), show)
}

/// Longer arrays are `null`, unless the client asks for everything.
const SHORT: usize = 64;

/// When a model is unloaded: never. The nanoseconds of later times do not fit the 64 bits that clients have for them.
const NEVER: &str = "2262-01-01T00:00:00Z";

async fn tags(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    list(app, |app, name, held| {
        let time = held.as_ref().map_or(app.started, |held| held.created);
        Some(joined(describe(name, held.as_ref()), json!({ "modified_at": written(time) })))
    })
    .await
}

async fn ps(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    list(app, |_, name, held| {
        let own = json!({ "expires_at": NEVER, "size_vram": 0, "context_length": held.as_ref()?.n_ctx });
        Some(joined(describe(name, held.as_ref()), own))
    })
    .await
}

async fn list(
    app: Arc<App>,
    describe: fn(&App, &str, Option<Held>) -> Option<Value>,
) -> Result<Response, ApiError> {
    let listing = app.clone();
    let models = app.blocking(move || {
        let models = listing.models.list();
        models.filter_map(|(name, held)| describe(&listing, name, held)).collect::<Vec<_>>()
    });
    Ok(Json(json!({ "models": models.await? })).into_response())
}

async fn show(read: Read<(Named, Show)>) -> Result<Response, ApiError> {
    let Read { app, model, body: (_, Show { verbose }), .. } = read;
    let (typed, name) = names(&app, model);
    let (own, held) = app.models.look(name.as_deref()).await?;
    let name = typed.unwrap_or_else(|| own.to_owned());
    // Looking at a model does not load it.
    let started = app.started;
    let shown = app.blocking(move || show_json(held.as_ref(), &name, started, verbose)).await?;
    Ok(Json(shown).into_response())
}

/// A model that is not loaded has only its name. This takes a while and must not block the threads of the async runtime.
fn show_json(held: Option<&Held>, name: &str, started: i64, is_verbose: bool) -> Value {
    let file = held.map(|held| &held.file);
    let template = file.and_then(|file| file.template().ok());
    let mut capabilities = Vec::new();
    match held {
        None => {}
        Some(Held::Encoder(_)) => capabilities.push("embedding"),
        Some(Held::Generator(_)) => {
            capabilities.push("completion");
            capabilities.extend(template.map(|_| "tools"));
            capabilities.extend(template.filter(|template| template.has_reasoning()).map(|_| "thinking"));
        }
    }
    let longest = if is_verbose { usize::MAX } else { SHORT };
    let mut shown = json!({
        "modelfile": format!("FROM {name}\n"),
        "parameters": "",
        "template": template.map(chat::Template::source).unwrap_or_default(),
        "details": details(file),
        "model_info": file.map_or_else(|| json!({}), |file| info(file.file(), longest)),
        "capabilities": capabilities,
        "modified_at": written(held.map_or(started, |held| held.created)),
    });
    if let Some(Ok(Some(license))) = file.map(|file| file.file().metadata().str("general.license")) {
        shown["license"] = license.into();
    }
    shown
}

/// A model that is not loaded has only its name.
fn describe(name: &str, held: Option<&Held>) -> Value {
    let name = tagged(name);
    json!({
        "name": name,
        "model": name,
        "size": held.map_or(0, |held| held.file.file().file_len()),
        "digest": held.map_or("", |held| held.digest()),
        "details": details(held.map(|held| &held.file)),
    })
}

/// The file's own time is not known, as it may have been replaced since.
fn written(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

fn details(model: Option<&Arc<Model>>) -> Value {
    let Some(model) = model else { return json!({ "format": "gguf" }) };
    let (file, family) = (model.file(), &model.config().architecture);
    let mix = file.metadata().u32("general.file_type").ok().flatten();
    let mix = quant::Mix::all().find(|known| Some(known.file_type()) == mix);
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": short(parameters(file)),
        "quantization_level": mix.map_or("unknown", quant::Mix::name),
    })
}

/// In thousands, millions or billions: `361.82M`, `8.0B`.
fn short(n: u64) -> String {
    let n = n as f64;
    match n {
        1e9.. => format!("{:.1}B", n / 1e9),
        1e6.. => format!("{:.2}M", n / 1e6),
        1e3.. => format!("{:.2}K", n / 1e3),
        _ => format!("{n}"),
    }
}

/// The metadata of the file, but its chat template, which has a place of its own.
fn info(file: &Gguf, longest: usize) -> Value {
    let keys = file.metadata().iter().filter(|(key, _)| !key.starts_with("tokenizer.chat_template"));
    let mut info: Map<String, Value> =
        keys.map(|(key, value)| (key.to_owned(), value_json(value, longest))).collect();
    info.insert("general.parameter_count".into(), parameters(file).into());
    info.into()
}

fn value_json(value: &Metadata, longest: usize) -> Value {
    match value {
        Metadata::U8(n) => json!(n),
        Metadata::I8(n) => json!(n),
        Metadata::U16(n) => json!(n),
        Metadata::I16(n) => json!(n),
        Metadata::U32(n) => json!(n),
        Metadata::I32(n) => json!(n),
        Metadata::U64(n) => json!(n),
        Metadata::I64(n) => json!(n),
        Metadata::F32(n) => json!(n),
        Metadata::F64(n) => json!(n),
        Metadata::Bool(value) => json!(value),
        Metadata::String(text) => json!(text),
        Metadata::Array(array) if array.len() > longest => Value::Null,
        Metadata::Array(array) => array.values().map(|value| value_json(&value, longest)).collect(),
    }
}
