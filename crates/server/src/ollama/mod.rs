//! ollama's protocol.

mod chat;
mod embed;
mod generate;
mod models;
mod options;
mod writer;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use serde_json::json;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::fields::Fields;
use crate::http::body;
use crate::models::{Model, Served};

/// The version of ollama whose protocol this is: clients compare it with the one that they need.
const VERSION: &str = "0.12.11";

pub(crate) fn routes() -> Router<Arc<App>> {
    let router = Router::new()
        .route("/api/chat", post(chat::handle))
        .route("/api/generate", post(generate::handle))
        .route("/api/embed", post(embed::handle))
        .route("/api/embeddings", post(embed::old))
        .route("/api/tags", get(models::tags))
        .route("/api/ps", get(models::ps))
        .route("/api/show", post(models::show))
        .route("/api/version", get(version));
    let managed = ["pull", "push", "create", "copy", "delete", "blobs/{digest}"];
    managed.iter().fold(router, |router, name| router.route(&format!("/api/{name}"), any(unmanaged)))
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

/// A call to a model.
struct Call {
    fields: Fields,
    model: Model,
    /// The model as the client calls it.
    name: String,
}

impl Call {
    async fn read(app: &App, mut request: Request) -> Result<Call, ApiError> {
        // The examples of ollama's documentation send JSON as what curl sends by default.
        let headers = request.headers_mut();
        if headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/x-www-form-urlencoded") {
            headers.remove(header::CONTENT_TYPE);
        }
        let mut fields = body(request, &app.config.limits).await?;
        let (model, old): (Option<String>, Option<String>) = (fields.take("model")?, fields.take("name")?);
        let typed = model.or(old).filter(|name| !name.is_empty());
        let same = |own: &&str| typed.as_deref().is_some_and(|typed| tagged(typed) == tagged(own));
        let own = app.models.list().map(|(name, _)| name).find(same);
        let model = app.models.get(own.or(typed.as_deref())).await?;
        let name = typed.unwrap_or_else(|| model.name().to_owned());
        Ok(Call { fields, model, name })
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
