//! Anthropic's protocol.

mod blocks;
mod conversation;
mod error;
mod messages;
pub(crate) mod models;
mod request;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;

pub(crate) use error::shape;

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/messages", post(messages::handle))
        .route("/v1/messages/count_tokens", post(messages::count))
}

/// Whether a request for `path` with these headers speaks this protocol. The models are at the same path as OpenAI's.
pub(crate) fn is_spoken(path: &str, headers: &HeaderMap) -> bool {
    let is_below =
        |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below("/v1/messages") || is_below("/v1/models") && headers.contains_key("anthropic-version")
}
