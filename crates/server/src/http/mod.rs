//! HTTP: routes, bodies, and checks of keys, hosts and origins.

pub(crate) mod body;
mod guard;
mod linger;
mod routes;

pub(crate) use guard::guard;
pub(crate) use linger::linger;
pub(crate) use routes::Routes;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use crate::error::{ApiError, Kind};

/// The part of a path that its route leaves open. Fails if it is no text.
pub(crate) fn open_part(part: Result<Path<String>, PathRejection>) -> Result<String, ApiError> {
    let wrong = |why: PathRejection| format!("the path cannot be read: {}", why.body_text());
    part.map(|Path(part)| part).map_err(|why| ApiError::new(Kind::Invalid, wrong(why)))
}

/// Names the fields of a request that this server does not know.
const IGNORED: HeaderName = HeaderName::from_static("x-ignored-fields");

/// Names in that header, and bytes of each, at most.
const MAX_NAMES: usize = 32;

/// Names of ignored parts of fields, for the header.
#[derive(Clone, Default)]
struct Ignored(Vec<String>);

/// Notes which parts of the fields were ignored.
pub(crate) fn with_ignored(mut response: Response, names: Vec<String>) -> Response {
    response.extensions_mut().insert(Ignored(names));
    response
}

fn with_ignored_header(mut response: Response, names: impl Iterator<Item = String>) -> Response {
    // A name is what the client says: any text, of any length.
    let shown = |name: &String| name.len() <= 64 && HeaderValue::from_str(name).is_ok();
    let names: Vec<String> = names.filter(shown).take(MAX_NAMES).collect();
    if !names.is_empty()
        && let Ok(value) = HeaderValue::from_str(&names.join(", "))
    {
        response.headers_mut().insert(IGNORED, value);
    }
    response
}
