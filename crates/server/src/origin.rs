//! Origins of pages: those that may call the server, also as patterns.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Origins of pages that may call the server: one (`https://example.org`), those of all subdomains (`https://*.example.org`), hosts
/// (`vscode-webview://*`) or ports (`http://localhost:*`), all of this machine (`localhost`), those that hide theirs (`null`), or any
/// (`*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `*`
    Any,
    /// `null`, which pages of files and of frames without rights have.
    Null,
    /// `localhost`
    ThisMachine,
    /// A scheme, a host and a port, as patterns.
    Page {
        /// Without `://`.
        scheme: String,
        /// May be empty, `*`, or begin with `*.`.
        host: String,
        /// A number or `*`; none is the scheme's own.
        port: Option<String>,
    },
}

/// A text is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an origin such as https://example.org, https://*.example.org, http://localhost:* or vscode-webview://*, null, localhost or *"
)]
pub struct OriginError;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Origin, OriginError> {
        let text = text.trim().to_ascii_lowercase();
        match &*text {
            "*" => return Ok(Origin::Any),
            "null" => return Ok(Origin::Null),
            "localhost" => return Ok(Origin::ThisMachine),
            _ => {}
        }
        let (scheme, authority) = text.split_once("://").ok_or(OriginError)?;
        let authority = authority.trim_end_matches('/');
        // The colons within the brackets of an address are none of a port.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        let name = if host == "*" { "" } else { host.strip_prefix("*.").unwrap_or(host) };
        let is_host = name.chars().all(|letter| letter.is_ascii_graphic() && !"*/?#@\\,".contains(letter))
            && !(host.is_empty() && matches!(scheme, "http" | "https"))
            && host != "*.";
        let is_port = port.is_none_or(|port| port == "*" || port.parse::<u16>().is_ok());
        if !(is_scheme && is_host && is_port) {
            return Err(OriginError);
        }
        Ok(Origin::Page { scheme: scheme.to_owned(), host: host.to_owned(), port: port.map(str::to_owned) })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Any => f.write_str("*"),
            Origin::Null => f.write_str("null"),
            Origin::ThisMachine => f.write_str("localhost"),
            Origin::Page { scheme, host, port } => {
                write!(f, "{scheme}://{host}")?;
                port.iter().try_for_each(|port| write!(f, ":{port}"))
            }
        }
    }
}

impl Origin {
    /// Whether it stands for `page`, the origin of a page.
    pub(crate) fn allows(&self, page: &Origin) -> bool {
        match (self, page) {
            (Origin::Any, _) | (Origin::Null, Origin::Null) => true,
            (Origin::ThisMachine, Origin::Page { scheme, host, .. }) => {
                matches!(&**scheme, "http" | "https") && is_this_machine(host)
            }
            (
                Origin::Page { scheme, host, port },
                Origin::Page { scheme: page_scheme, host: page_host, port: page_port },
            ) => {
                let is_port = port == page_port || port.as_deref() == Some("*");
                scheme == page_scheme && is_host(host, page_host) && is_port
            }
            _ => false,
        }
    }
}

/// Whether `pattern` stands for the host `name`: it is the same, `*` for any, or `*.` before those whose subdomains it stands for.
pub(crate) fn is_host(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(rest) if rest.starts_with('.') => name.len() > rest.len() && ends_with(name, rest),
        _ => pattern.eq_ignore_ascii_case(name),
    }
}

fn ends_with(name: &str, end: &str) -> bool {
    name.len()
        .checked_sub(end.len())
        .and_then(|at| name.get(at..))
        .is_some_and(|found| found.eq_ignore_ascii_case(end))
}

/// Browsers lead `localhost` and all names below it to this machine.
fn is_this_machine(host: &str) -> bool {
    let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    host == "localhost" || ends_with(host, ".localhost") || ip.is_some_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_origins() {
        let allows = |own: &str, page: &str| {
            let read = |text: &str| text.parse::<Origin>().unwrap_or_else(|_| panic!("{text} is an origin"));
            read(own).allows(&read(page))
        };
        for (own, page) in [
            ("*", "null"),
            ("*", "app://x"),
            ("null", "null"),
            ("https://Example.org/", "https://example.org"),
            ("https://*.example.org", "https://a.b.example.org"),
            ("http://localhost:*", "http://localhost:3000"),
            ("http://[::1]:*", "http://[::1]:80"),
            ("https://*:8443", "https://a.b:8443"),
            ("vscode-webview://*", "vscode-webview://0a-b"),
            ("file://*", "file://"),
            ("file://", "file://"),
            ("localhost", "https://tauri.localhost"),
            ("localhost", "http://127.0.0.1:1"),
        ] {
            assert!(allows(own, page), "{own} {page}");
        }
        for (own, page) in [
            ("https://example.org", "https://example.org:8443"),
            ("https://example.org", "http://example.org"),
            ("https://*.example.org", "https://example.org"),
            ("https://*.example.org", "https://badexample.org"),
            ("https://*.example.org", "https://a.example.org.evil.net"),
            ("http://localhost:*", "http://localhost.evil.net:80"),
            ("http://*", "https://a.b"),
            ("https://*", "https://a.b:444"),
            ("localhost", "http://evil.net"),
            ("localhost", "http://evillocalhost"),
            ("localhost", "app://localhost"),
            ("vscode-webview://*", "null"),
            ("null", "file://"),
        ] {
            assert!(!allows(own, page), "{own} {page}");
        }
        for text in [
            "",
            "example.org",
            "https://",
            "https://a*.org",
            "https://*.*.org",
            "https://a b",
            "https://a/b",
            "*://a",
            "https://a:port",
            "https://*.",
            "https://u@a",
            "://a",
            "app:",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(OriginError), "{text}");
        }
    }
}
