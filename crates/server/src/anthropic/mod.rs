//! Anthropic's protocol.

mod blocks;
mod conversation;
mod messages;
pub(crate) mod models;
mod request;
mod tools;

use axum::http::HeaderMap;

pub(crate) use messages::routes;

use crate::openapi::Protocol;

const ANTHROPIC: Protocol = Protocol { tag: "Anthropic", error: "AnthropicError" };

/// Whether a request for `path` with these headers speaks this protocol. The models are at the same path as OpenAI's.
pub(crate) fn is_spoken(path: &str, headers: &HeaderMap) -> bool {
    let is_below =
        |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below("/v1/messages") || is_below("/v1/models") && headers.contains_key("anthropic-version")
}
