//! Addresses: joining, comparing and spelling them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Uri;
use ureq::http::uri::Scheme;

use crate::Error;

/// Bytes that a path keeps, the unreserved ones of RFC 3986 and slashes.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The same for one part of a path.
const PART: &AsciiSet = &PATH.add(b'/');

pub(crate) fn parse(address: &str) -> Result<Uri, Error> {
    let uri: Option<Uri> = address.parse().ok();
    let is_http = |uri: &Uri| [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme());
    uri.filter(|uri| is_http(uri) && uri.host().is_some_and(|host| !host.is_empty()))
        .ok_or_else(|| Error::Address { address: address.to_owned() })
}

/// The address of `path` in a redirect from `base`, absolute or relative.
pub(crate) fn join(base: &Uri, location: &str) -> Result<Uri, Error> {
    if location.contains("://") {
        return parse(location);
    }
    let scheme = base.scheme_str().unwrap_or("https");
    if let Some(rest) = location.strip_prefix("//") {
        return parse(&format!("{scheme}://{rest}"));
    }
    let authority = base.authority().map_or("", |authority| authority.as_str());
    let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    if location.starts_with('/') {
        parse(&format!("{scheme}://{authority}{location}"))
    } else {
        parse(&format!("{scheme}://{authority}{folder}/{location}"))
    }
}

/// Scheme, host and port: what a token may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    is_https: bool,
    host: String,
    port: u16,
}

impl Origin {
    pub(crate) fn of(uri: &Uri) -> Origin {
        let is_https = uri.scheme() != Some(&Scheme::HTTP);
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        Origin { is_https, host: host(uri).to_lowercase(), port }
    }
}

pub(crate) fn host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default()
}

/// The address without its query, which may hold a signature.
pub(crate) fn shown(uri: &Uri) -> String {
    uri.to_string().split('?').next().unwrap_or_default().to_owned()
}

pub(crate) fn unexpected(uri: &Uri, what: impl Into<String>) -> Error {
    Error::Protocol { url: shown(uri), what: what.into() }
}

pub(crate) fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

pub(crate) fn encode_part(part: &str) -> String {
    utf8_percent_encode(part, PART).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        parse(text).expect("an address")
    }

    /// The cases are of RFC 3986, section 5.4.
    #[test]
    fn redirects_may_be_relative() {
        let base = uri("http://a/b/c/d?q");
        for (location, expected) in [
            ("g:x://h", None),
            ("g", Some("http://a/b/c/g")),
            ("/g?y", Some("http://a/g?y")),
            ("//g/x", Some("http://g/x")),
        ] {
            assert_eq!(
                join(&base, location).ok().map(|uri| uri.to_string()).as_deref(),
                expected,
                "{location}"
            );
        }
        assert_eq!(join(&base, "https://cdn.org/x").ok(), Some(uri("https://cdn.org/x")));
    }

    #[test]
    fn a_port_or_scheme_makes_another_origin() {
        let of = |text| Origin::of(&uri(text));
        assert_eq!(of("https://Hub.co/a"), of("https://hub.co:443/b?c"));
        for other in
            ["http://hub.co/", "https://hub.co:444/", "https://hub.co.evil.org/", "https://cdn.hub.co/"]
        {
            assert_ne!(of("https://hub.co/"), of(other), "{other}");
        }
    }

    #[test]
    fn names_are_encoded() {
        assert_eq!(encode_path("a b/c#1%?.gguf"), "a%20b/c%231%25%3F.gguf");
        assert_eq!(encode_part("refs/pr/1"), "refs%2Fpr%2F1");
    }
}
