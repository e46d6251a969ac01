//! Bodies: of bounded size, within a bounded time, of the right type, and not compressed.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::config::Limits;
use crate::error::{ApiError, Kind};

/// The body of a request that says it is JSON.
pub(crate) async fn bytes(request: Request, limits: &Limits) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("application/json");
    let essence = kind.split(';').next().unwrap_or_default().trim();
    // The examples of ollama's documentation send JSON as what curl sends by default.
    let is_curl = parts.uri.path().starts_with("/api/") && essence == "application/x-www-form-urlencoded";
    if !is_curl && !essence.eq_ignore_ascii_case("application/json") && !essence.ends_with("+json") {
        let message = format!("the body is {essence:?}, expected application/json");
        return Err(ApiError::new(Kind::MediaType, message));
    }
    // A small compressed body may be huge.
    if parts.headers.get_all(header::CONTENT_ENCODING).iter().any(|coding| coding != "identity") {
        let message = "the body is compressed; send it without Content-Encoding";
        return Err(ApiError::new(Kind::MediaType, message));
    }
    let too_large = || {
        let most = limits.body;
        let message = format!("request body too large: more than {most} bytes; send less");
        ApiError::new(Kind::BodyTooLarge, message)
    };
    // Nobody has to send what is refused by its length.
    if body.size_hint().lower() > limits.body as u64 {
        return Err(too_large());
    }
    let bytes = tokio::time::timeout(limits.body_time, Limited::new(body, limits.body).collect());
    let bytes = bytes.await.map_err(|_| {
        let seconds = Duration::as_secs(&limits.body_time);
        ApiError::new(Kind::BodyTimeout, format!("the body did not arrive within {seconds} s"))
    })?;
    let bytes = bytes.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large()
        } else {
            ApiError::new(Kind::Invalid, format!("request body cannot be read: {error}"))
        }
    })?;
    Ok(bytes.to_bytes())
}
