//! The shape of errors: each protocol has its own.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

use crate::anthropic::is_spoken;
use crate::error::{ApiError, Kind};
use crate::id;

/// The error in OpenAI's shape.
pub(crate) fn openai(error: &ApiError) -> Json {
    let kind = match error.kind.status() {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    let code = error.kind.code();
    with_counts(error, json!({ "message": error.message, "type": kind, "param": error.param, "code": code }))
}

/// An error of this shape, with the counts of a prompt that is too long.
fn with_counts(error: &ApiError, mut shape: Json) -> Json {
    if let Kind::TooLong { prompt, n_ctx } = error.kind {
        shape["n_prompt_tokens"] = prompt.into();
        shape["n_ctx"] = n_ctx.into();
    }
    json!({ "error": shape })
}

/// The error in ollama's shape.
pub(crate) fn ollama(error: &ApiError) -> Json {
    json!({ "error": error.message })
}

/// The error in llama-server's shape.
pub(crate) fn llama(error: &ApiError) -> Json {
    let kind = match error.kind {
        Kind::NoKey => "authentication_error",
        Kind::NoModel | Kind::NoRoute => "not_found_error",
        Kind::NotImplemented => "not_supported_error",
        Kind::Busy | Kind::Stopping => "unavailable_error",
        Kind::TooLong { .. } => "exceed_context_size_error",
        Kind::Internal => "server_error",
        _ => "invalid_request_error",
    };
    let code = error.kind.status().as_u16();
    with_counts(error, json!({ "code": code, "message": error.message, "type": kind, "param": error.param }))
}

/// The error in Anthropic's shape. <https://platform.claude.com/docs/en/api/errors>.
pub(crate) fn anthropic(error: &ApiError) -> Json {
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
    let error = json!({ "type": kind, "message": message });
    json!({ "type": "error", "error": error, "request_id": id::new("req_") })
}

/// The shape of the protocol that a request for `path` speaks.
fn shape_for(path: &str, headers: &HeaderMap) -> fn(&ApiError) -> Json {
    match path {
        "/completion" | "/infill" | "/embedding" | "/slots" => llama,
        _ if path == "/api" || path.starts_with("/api/") => ollama,
        _ if is_spoken(path, headers) => anthropic,
        _ => openai,
    }
}

/// Gives errors without a body one in the shape of their protocol.
pub(crate) async fn errors(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let shape = shape_for(&path, request.headers());
    let response = next.run(request).await;
    let (parts, body) = response.into_parts();
    let error = match parts.extensions.get::<ApiError>() {
        Some(error) => error.clone(),
        None if parts.status == StatusCode::METHOD_NOT_ALLOWED => {
            ApiError::new(Kind::Method, format!("{path} does not take {method}"))
        }
        None => return Response::from_parts(parts, body),
    };
    let body = shape(&error);
    let id = body["request_id"].as_str().and_then(|id| HeaderValue::from_str(id).ok());
    let mut response = (parts.status, axum::Json(body)).into_response();
    if let Some(id) = id {
        response.headers_mut().insert("request-id", id);
    }
    for (name, value) in &parts.headers {
        if !response.headers().contains_key(name) {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
}
