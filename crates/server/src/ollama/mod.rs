//! ollama's protocol.

mod chat;
mod embed;
mod generate;
mod models;
mod options;
mod writer;

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use serde_json::json;

pub(crate) use embed::WITHOUT_EFFECT;
pub(crate) use generate::REFUSED as REFUSED_BY_GENERATE;
pub(crate) use models::REFUSED as REFUSED_BY_SHOW;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::fields::Fields;
use crate::http::{Routes, body};
use crate::models::{Model, Served};

/// The version of ollama whose protocol this is: clients compare it with the one that they need.
const VERSION: &str = "0.13.5";

pub(crate) fn routes() -> Routes {
    let routes = Routes::default()
        .post("/api/chat", chat::handle)
        .post("/api/generate", generate::handle)
        .post("/api/embed", embed::handle)
        .post("/api/embeddings", embed::old)
        .get("/api/tags", models::tags)
        .get("/api/ps", models::ps)
        .post("/api/show", models::show)
        .get("/api/version", version);
    let managed = ["/api/pull", "/api/push", "/api/create", "/api/copy", "/api/blobs/{digest}"];
    managed
        .iter()
        .fold(routes, |routes, path| routes.post(path, unmanaged))
        .on(MethodFilter::HEAD, "HEAD", "/api/blobs/{digest}", unmanaged)
        .on(MethodFilter::DELETE, "DELETE", "/api/delete", unmanaged)
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

/// A call that names a model, which need not be loaded.
struct Named {
    fields: Fields,
    /// The model as the client calls it, if it does.
    typed: Option<String>,
    /// The server's name of it, if it has this model.
    own: Option<String>,
}

impl Named {
    async fn read(app: &App, mut request: Request) -> Result<Named, ApiError> {
        // The examples of ollama's documentation send JSON as what curl sends by default.
        let headers = request.headers_mut();
        if headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/x-www-form-urlencoded") {
            headers.remove(header::CONTENT_TYPE);
        }
        let mut fields = body(app, request).await?;
        let (model, old): (Option<String>, Option<String>) = (fields.take("model")?, fields.take("name")?);
        let typed = model.or(old).filter(|name| !name.is_empty());
        let same = |own: &&str| typed.as_deref().is_some_and(|typed| tagged(typed) == tagged(own));
        let own = app.models.list().map(|(name, _)| name).find(same).map(str::to_owned);
        Ok(Named { fields, typed, own })
    }

    /// The name to look for; none is the first model.
    fn name(&self) -> Option<&str> {
        self.own.as_deref().or(self.typed.as_deref())
    }
}

/// A call to a model.
struct Call {
    fields: Fields,
    model: Model,
    /// The model as the client calls it.
    name: String,
}

impl Call {
    async fn read(app: &App, request: Request) -> Result<Call, ApiError> {
        let named = Named::read(app, request).await?;
        let model = app.models.get(named.name()).await?;
        let name = named.typed.unwrap_or_else(|| model.name().to_owned());
        Ok(Call { fields: named.fields, model, name })
    }

    /// The same for a model that writes text.
    async fn of_text(app: &App, request: Request) -> Result<(Fields, Arc<Served>, String), ApiError> {
        let Call { fields, model, name } = Call::read(app, request).await?;
        Ok((fields, model.generator()?, name))
    }
}

/// The name with its tag, which is `latest` by default.
fn tagged(name: &str) -> String {
    let has_tag = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    if has_tag { name.to_owned() } else { format!("{name}:latest") }
}
