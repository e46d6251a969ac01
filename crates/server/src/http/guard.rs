//! Checks of every request: its host, its origin and its key. Each of these headers may occur once.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::config::Config;
use crate::error::{ApiError, Kind};
use crate::keys::Client;
use crate::origin::{Origin, is_host};

/// Paths that need no key: they tell nothing of the model or its users.
const OPEN: [&str; 5] = ["/", "/health", "/ready", "/v1/health", "/favicon.ico"];

pub(crate) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    // HTTP/1.0 has no hosts: load balancers ask so for the health, browsers never do.
    let has_host = request.version() > Version::HTTP_10 || headers.contains_key(header::HOST);
    // A foreign page has no key.
    let has_keys = !app.keys.read().is_empty();
    let is_for_us = || if has_host && !has_keys { check_host(&app.config, headers) } else { Ok(()) };
    if let Err(error) = check_once(headers).and_then(|()| is_for_us()) {
        return error.into_response();
    }
    let origin = allowed_origin(&app.config, headers);
    if request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return preflight(origin, headers);
    }
    if origin.is_none() && is_foreign(headers) {
        let message = match text(headers, header::ORIGIN).unwrap_or_default().parse::<Origin>() {
            Ok(name) => format!(
                "pages of {name} may not use this server; start it with --cors-origin {name} to allow it"
            ),
            Err(expected) => format!("the header `Origin` cannot be read: {expected}"),
        };
        return ApiError::new(Kind::Forbidden, message).into_response();
    }
    let is_open = OPEN.contains(&request.uri().path()) || request.uri().path().starts_with("/page/");
    let client = match client(&app, headers) {
        Ok(client) => client,
        Err(_) if is_open => Client::default(),
        Err(error) => return with_origin(error.into_response(), origin),
    };
    request.extensions_mut().insert(client);
    with_origin(next.run(request).await, origin)
}

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn client(app: &App, headers: &HeaderMap) -> Result<Client, ApiError> {
    let keys = app.keys.read();
    if keys.is_empty() {
        return Ok(Client::default());
    }
    let bearer = text(headers, header::AUTHORIZATION).and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some(key) = bearer.map(|(_, key)| key.trim()).or_else(|| text(headers, KEY)) else {
        return Err(ApiError::new(
            Kind::NoKey,
            "this server needs an API key; send it as `Authorization: Bearer KEY` or `x-api-key: KEY`",
        ));
    };
    match keys.find(key) {
        Some((key, quota)) => Ok(Client { key, meter: Some(app.meter(key, quota)) }),
        None => Err(ApiError::new(Kind::NoKey, "the API key is not one of this server's; check it")),
    }
}

/// A proxy before this server may take the last one of several headers, where this one takes the first.
fn check_once(headers: &HeaderMap) -> Result<(), ApiError> {
    const ONCE: [HeaderName; 5] =
        [header::HOST, header::AUTHORIZATION, KEY, header::ORIGIN, header::CONTENT_TYPE];
    match ONCE.iter().find(|&name| headers.get_all(name).iter().nth(1).is_some()) {
        None => Ok(()),
        Some(name) => {
            Err(ApiError::new(Kind::Invalid, format!("the header `{name}` is there twice; send it once")))
        }
    }
}

/// A page of another site could otherwise reach a server on this machine under a name of its own (DNS rebinding).
fn check_host(config: &Config, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = text(headers, header::HOST).unwrap_or_default();
    let name =
        host.parse::<Authority>().map(|authority| authority.host().to_ascii_lowercase()).unwrap_or_default();
    let listed = config.hosts.iter().any(|own| is_host(own, &name));
    if listed || is_own_name(&name) {
        return Ok(());
    }
    let message = if name.is_empty() {
        format!("the header `Host` is {host:?}, expected the name or the address of this server")
    } else {
        format!(
            "the host {host:?} is not one of this server's; start it with --host-name {name}, or with keys, to allow it"
        )
    };
    Err(ApiError::new(Kind::Invalid, message))
}

/// Whether `name` is an address, which no DNS entry leads elsewhere, or this machine's own name.
fn is_own_name(name: &str) -> bool {
    name == "localhost" || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Schemes of programs on this machine that show pages of their own, which no site can have. ollama lets in the same.
const PROGRAMS: [&str; 5] = ["app", "file", "tauri", "vscode-file", "vscode-webview"];

fn allowed_origin(config: &Config, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let page: Origin = origin.to_str().ok()?.parse().ok()?;
    let is_program = matches!(&page, Origin::Page { scheme, .. } if PROGRAMS.contains(&&**scheme));
    let is_local = is_program && config.address.ip().is_loopback();
    (is_local || config.origins.iter().any(|own| own.allows(&page))).then(|| origin.clone())
}

/// Whether a page of another site sends this. Its browser would not show it the answer, but the work would be done.
fn is_foreign(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let own = text(headers, header::HOST).unwrap_or_default();
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    !authority.is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(own))
}

fn preflight(origin: Option<HeaderValue>, asked: &HeaderMap) -> Response {
    let mut response = StatusCode::OK.into_response();
    if origin.is_some() {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        // Clients have headers of their own, which are not read here.
        if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
    }
    with_origin(response, origin)
}

/// Headers that pages of allowed origins may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-ignored-fields, x-left-open, x-model-used, x-tool-format, request-id, retry-after",
);

fn with_origin(mut response: Response, origin: Option<HeaderValue>) -> Response {
    if let Some(origin) = origin {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}
