//! Who calls, with what: keys, hosts, origins, bodies.

mod body;
mod guard;
mod linger;

pub(crate) use body::{body, call, call_encoder};
pub(crate) use guard::guard;
pub(crate) use linger::linger;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The number of its key; none on a server for everybody.
    pub(crate) key: Option<u32>,
}

impl Client {
    /// For the engine's queue.
    pub(crate) fn number(self) -> u64 {
        self.key.map_or(0, |key| u64::from(key) + 1)
    }

    /// For the prefix cache: no client finds what another has cached. A salt of its own narrows it further.
    pub(crate) fn salt(self, own: Option<&str>) -> Vec<u8> {
        let mut salt = self.number().to_le_bytes().to_vec();
        salt.extend_from_slice(own.unwrap_or_default().as_bytes());
        salt
    }
}

/// Names the fields of a request that this server does not know.
const IGNORED: HeaderName = HeaderName::from_static("x-ignored-fields");

/// Notes which fields were ignored.
pub(crate) fn with_ignored(mut response: Response, names: &[String]) -> Response {
    if !names.is_empty()
        && let Ok(value) = HeaderValue::from_str(&names.join(", "))
    {
        response.headers_mut().insert(IGNORED, value);
    }
    response
}
