//! Errors in Anthropic's shape. <https://platform.claude.com/docs/en/api/errors>.

use serde_json::{Value as Json, json};

use crate::error::{ApiError, Kind};
use crate::id;

pub(crate) fn shape(error: &ApiError) -> Json {
    let kind = match error.kind {
        Kind::Invalid | Kind::Unsupported | Kind::TooLong { .. } | Kind::Method | Kind::MediaType => {
            "invalid_request_error"
        }
        Kind::NoKey => "authentication_error",
        Kind::NoModel | Kind::NoRoute => "not_found_error",
        Kind::BodyTooLarge => "request_too_large",
        Kind::BodyTimeout => "timeout_error",
        Kind::Busy | Kind::Stopping => "overloaded_error",
        Kind::Forbidden => "permission_error",
        Kind::Limited { .. } => "rate_limit_error",
        Kind::NotImplemented | Kind::Internal => "api_error",
    };
    let message = match error.kind {
        // Clients know by these words that they must shorten the conversation.
        Kind::TooLong { prompt, n_ctx } => format!("prompt is too long: {prompt} tokens > {n_ctx} maximum"),
        _ => error.message.clone(),
    };
    json!({
        "type": "error",
        "error": { "type": kind, "message": message },
        "request_id": id::new("req_"),
    })
}
