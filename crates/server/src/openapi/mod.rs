//! The OpenAPI document: what the endpoints read and answer, in tables of fields. Tests keep it true: the routes of the document
//! are the router's, and its fields are those that the code asks for.

mod anthropic;
mod document;
mod fields;
mod llama;
mod ollama;
mod openai;
mod responses;
mod schema;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};

use self::document::Document;
use crate::app::App;
use crate::config::Limits;
use crate::http::Routes;

pub(crate) fn routes() -> Routes {
    Routes::default().get("/openapi.json", handle)
}

async fn handle(State(app): State<Arc<App>>) -> Json<OpenApi> {
    Json(document(&app.config.limits))
}

/// The document of a server with these limits.
fn document(limits: &Limits) -> OpenApi {
    let document = openai::add(Document::default(), limits);
    let document = responses::add(document, limits);
    let document = anthropic::add(document, limits);
    let document = ollama::add(document, limits);
    let document = llama::add(document, limits);
    let document = status::add(document);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = document
        .components
        .security_scheme("bearer", SecurityScheme::Http(bearer))
        .security_scheme("x-api-key", SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key"))));
    // Either of them, or none on a server without keys.
    let keys = ["bearer", "x-api-key"].map(|name| SecurityRequirement::new(name, [] as [&str; 0]));
    let info = InfoBuilder::new()
        .title("rustorch")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Language models by the protocols of OpenAI, Anthropic, ollama and llama-server. In bodies, `null` means absent; \
             fields that are not known are ignored and named in the header `x-ignored-fields`. Of streams, the schema is that of \
             one event's data, or of one line.",
        ))
        .license(Some(LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build()));
    OpenApiBuilder::new()
        .info(info.build())
        .paths(document.paths.build())
        .components(Some(components.build()))
        .security(Some(keys.into_iter().chain([SecurityRequirement::default()])))
        .build()
}
