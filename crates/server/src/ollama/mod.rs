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
    let version_of =
        OLLAMA.endpoint("version", &["/api/version"], "The version of ollama whose protocol this is");
    let manage = endpoint("manage", &["/api/pull", "/api/push", "/api/create", "/api/copy"]);
    chat::routes()
        .merge(generate::routes())
        .merge(embed::routes())
        .merge(models::routes())
        .get(version_of.answers(json!({ "version": "string", "server": "string" })), version)
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

/// Models are those of the command line.
async fn unmanaged(request: Request) -> ApiError {
    let path = request.uri().path();
    let message = format!("{path} is not supported: this server has the models that it was started with");
    ApiError::new(Kind::NotImplemented, message)
}

/// The name of the model, besides `model`.
#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The older name of `model`.
    name: Option<String>,
}

impl Group for Named {
    const IGNORED: &'static [&'static str] = &["keep_alive"];
}

/// The model of a call.
struct Name {
    /// The model as the client calls it, if it does.
    typed: Option<String>,
    /// The server's name of it, if it has this model.
    own: Option<String>,
}

impl Name {
    fn new(app: &App, model: Option<String>, old: Option<String>) -> Name {
        let typed = model.or(old).filter(|name| !name.is_empty());
        let same = |own: &&str| typed.as_deref().is_some_and(|typed| tagged(typed) == tagged(own));
        let own = app.models.list().map(|(name, _)| name).find(same).map(str::to_owned);
        Name { typed, own }
    }

    /// The name to look for; none is the first model.
    fn get(&self) -> Option<&str> {
        self.own.as_deref().or(self.typed.as_deref())
    }
}

/// The model of a call, and its name as the client calls it.
async fn model<B>(read: &Read<B>, old: Option<String>) -> Result<(Model, String), ApiError> {
    let name = Name::new(&read.app, read.model.clone(), old);
    let model = read.app.models.get(name.get()).await?;
    let typed = name.typed.unwrap_or_else(|| model.name().to_owned());
    Ok((model, typed))
}

/// The name with its tag, which is `latest` by default.
fn tagged(name: &str) -> String {
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if has_tag { name.to_owned() } else { format!("{name}:latest") }
}
