//! ollama's protocol.

mod chat;
mod embed;
mod generate;
mod models;
mod options;
mod writer;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Read};
use crate::http::Routes;
use crate::models::Model;
use crate::openapi::Protocol;

const OLLAMA: Protocol = Protocol { tag: "ollama", error: "OllamaError" };

/// The version of ollama whose protocol this is: clients compare it with the one that they need.
const VERSION: &str = "0.13.5";

pub(crate) fn routes() -> Routes {
    let endpoint = |name, paths| {
        OLLAMA
            .endpoint(name, paths, "Not supported: models are those of the command line")
            .fails(&[400, 401, 403, 501])
    };
    let blobs = |name| endpoint(name, &["/api/blobs/{digest}"]).asks("digest", "path", "Ignored.");
    let version_entry =
        OLLAMA.endpoint("version", &["/api/version"], "The version of ollama whose protocol this is");
    let manage = endpoint("manage", &["/api/pull", "/api/push", "/api/create", "/api/copy"]);
    chat::routes()
        .merge(generate::routes())
        .merge(embed::routes())
        .merge(models::routes())
        .get(version_entry.answers(json!({ "version": "string", "server": "string" })), version)
        .on(MethodFilter::POST, "POST", manage, unmanaged)
        .on(MethodFilter::DELETE, "DELETE", endpoint("manage", &["/api/delete"]), unmanaged)
        .on(MethodFilter::POST, "POST", blobs("upload"), unmanaged)
        .on(MethodFilter::HEAD, "HEAD", blobs("find"), unmanaged)
        .shapes(writer::shapes())
        .shapes([("OllamaError", json!({ "error": "string" }))])
}

async fn version() -> Response {
    Json(json!({ "version": VERSION, "server": concat!("rustorch ", env!("CARGO_PKG_VERSION")) }))
        .into_response()
}

async fn unmanaged(request: Request) -> ApiError {
    let path = request.uri().path();
    let message = format!("{path} is not supported: this server has the models that it was started with");
    ApiError::new(Kind::NotImplemented, message)
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The older name of `model`.
    #[expect(dead_code, reason = "the model of a call is read with its body")]
    name: Option<String>,
}

impl Group for Named {
    const IGNORED: &'static [&'static str] = &["keep_alive"];
}

/// The model as the client calls it, if it does, and the name to look for; none is the first model.
fn names(app: &App, typed: Option<String>) -> (Option<String>, Option<String>) {
    let same = |own: &&str| typed.as_deref().is_some_and(|typed| tagged(typed) == tagged(own));
    let own = app.models.list().map(|(name, _)| name).find(same).map(str::to_owned);
    (typed.clone(), own.or(typed))
}

/// The model of a call, and its name as the client calls it.
async fn model<B>(read: &Read<B>) -> Result<(Model, String), ApiError> {
    let (typed, name) = names(&read.app, read.model.clone());
    let model = read.app.models.get(name.as_deref()).await?;
    let typed = typed.unwrap_or_else(|| model.name.clone());
    Ok((model, typed))
}

/// The name with its tag, which is `latest` by default.
fn tagged(name: &str) -> String {
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if has_tag { name.to_owned() } else { format!("{name}:latest") }
}
