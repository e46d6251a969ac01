//! The server's page, whose files are embedded in the program.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use crate::error::{ApiError, Kind};
use crate::http::{Routes, open_part};
use crate::openapi::SERVER;

#[derive(RustEmbed)]
#[folder = "page"]
struct Files;

/// Nothing from elsewhere, no inline code, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Routes {
    let entry = |name, paths, kind| {
        SERVER.endpoint(name, paths, "The page").open().answers_as(kind, "string").fails(&[400, 403, 404])
    };
    let files =
        entry("file", &["/page/{*path}"], "*/*").asks("path", "path", "A file, which may have slashes.");
    Routes::default()
        .get(entry("page", &["/"], "text/html"), || async { file("index.html") })
        .get(entry("icon", &["/favicon.ico"], "image/svg+xml"), || async { file("icon.svg") })
        .get(files, |path: Result<Path<String>, PathRejection>| async move { file(&open_part(path)?) })
}

fn file(path: &str) -> Result<Response, ApiError> {
    let file = Files::get(path)
        .ok_or_else(|| ApiError::new(Kind::NoRoute, format!("the page has no file {path:?}")))?;
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, file.data).into_response())
}
