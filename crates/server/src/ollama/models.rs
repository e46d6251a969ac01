//! `/api/tags`, `/api/ps` and `/api/show`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use engine::Model;
use engine::gguf::{Array, Gguf, Value as Metadata};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Name, Named, OLLAMA, tagged};
use crate::app::App;
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::Routes;
use crate::models::Held;

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
    let served = app.clone();
    let listed = app.blocking(move || list(&served)).await?;
    Ok(Json(json!({ "models": listed })).into_response())
}

/// Takes a while: not for the threads of the runtime.
fn list(app: &App) -> Vec<Value> {
    let model = |(name, held): (&str, Option<Held>)| {
        let mut model = describe(name, held.as_ref());
        let time = held.map_or(app.started, |held| held.created());
        model["modified_at"] = written(time).into();
        model
    };
    app.models.list().map(model).collect()
}

async fn ps(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let served = app.clone();
    let loaded = app.blocking(move || loaded(&served)).await?;
    Ok(Json(json!({ "models": loaded })).into_response())
}

/// Takes a while: not for the threads of the runtime.
fn loaded(app: &App) -> Vec<Value> {
    let loaded = app.models.list().filter_map(|(name, held)| Some((name, held?)));
    let model = |(name, held): (&str, Held)| {
        let mut model = describe(name, Some(&held));
        model["expires_at"] = NEVER.into();
        model["size_vram"] = 0.into();
        model["context_length"] = held.n_ctx().into();
        model
    };
    loaded.map(model).collect()
}

async fn show(read: Read<(Named, Show)>) -> Result<Response, ApiError> {
    let Read { app, model, body: (Named { name: old }, Show { verbose }), .. } = read;
    let name = Name::new(&app, model, old);
    let (own, held) = app.models.look(name.get()).await?;
    let name = name.typed.clone().unwrap_or_else(|| own.to_owned());
    let shown = match held {
        Some(held) => app.blocking(move || show_json(&held, &name, verbose)).await?,
        // Looking at a model does not load it.
        None => unloaded_json(&name, app.started),
    };
    Ok(Json(shown).into_response())
}

/// Takes a while: not for the threads of the runtime.
fn show_json(held: &Held, name: &str, is_verbose: bool) -> Value {
    let (model, file) = (held.model(), held.model().file());
    let template = model.template().ok();
    let mut capabilities = match held {
        Held::Generator(_) => vec!["completion"],
        Held::Encoder(_) => vec!["embedding"],
    };
    if let (Held::Generator(_), Some(template)) = (held, template) {
        if template.tool_format().is_ok() {
            capabilities.push("tools");
        }
        if template.has_reasoning() {
            capabilities.push("thinking");
        }
    }
    let mut shown = json!({
        "modelfile": format!("FROM {name}\n"),
        "parameters": "",
        "template": template.map(chat::Template::source).unwrap_or_default(),
        "details": details(model),
        "model_info": info(file, if is_verbose { usize::MAX } else { SHORT }),
        "capabilities": capabilities,
        "modified_at": written(held.created()),
    });
    if let Ok(Some(license)) = file.metadata().str("general.license") {
        shown["license"] = license.into();
    }
    shown
}

/// A model that is not loaded has only its name.
fn unloaded_json(name: &str, started: i64) -> Value {
    json!({
        "modelfile": format!("FROM {name}\n"),
        "parameters": "",
        "template": "",
        "details": { "format": "gguf" },
        "model_info": {},
        "capabilities": [],
        "modified_at": written(started),
    })
}

/// A model that is not loaded has only its name.
fn describe(name: &str, held: Option<&Held>) -> Value {
    let name = tagged(name);
    let mut shape =
        json!({ "name": name, "model": name, "size": 0, "digest": "", "details": { "format": "gguf" } });
    if let Some(held) = held {
        shape["size"] = held.model().file().file_len().into();
        shape["digest"] = held.digest().into();
        shape["details"] = details(held.model());
    }
    shape
}

/// The file's own time is not known, as it may have been replaced since.
fn written(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

fn details(model: &Model) -> Value {
    let file = model.file();
    let family = &model.config().architecture;
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

fn parameters(file: &Gguf) -> u64 {
    file.tensors().map(|tensor| tensor.row_len() as u64 * tensor.rows() as u64).sum()
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
        Metadata::Array(array) => array_json(array, longest),
    }
}

fn array_json(array: &Array, longest: usize) -> Value {
    if array.len() > longest {
        return Value::Null;
    }
    array.values().map(|value| value_json(&value, longest)).collect()
}
