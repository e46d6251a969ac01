//! The proxy that variables name, and what its failures mean.

use std::io;

use ureq::http::Uri;

use crate::{Error, address};

/// The variables that `ureq` reads, in its order.
const VARIABLES: [&str; 6] =
    ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// A proxy and the variable that names it.
#[derive(Debug)]
pub(crate) struct Proxy {
    proxy: ureq::Proxy,
    variable: &'static str,
}

impl Proxy {
    pub(crate) fn from_env() -> Option<Proxy> {
        let is_valid = |name: &&str| std::env::var(name).is_ok_and(|value| ureq::Proxy::new(&value).is_ok());
        let variable = VARIABLES.into_iter().find(is_valid)?;
        Some(Proxy { proxy: ureq::Proxy::try_from_env()?, variable })
    }

    /// What an error of a request means if the proxy is at fault.
    pub(crate) fn blame(&self, uri: &Uri, error: &ureq::Error) -> Option<Error> {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
        if self.proxy.is_no_proxy(uri) {
            return None;
        }
        let status = match error {
            ureq::Error::ConnectProxyFailed(reason) => status_in(reason),
            ureq::Error::HostNotFound | ureq::Error::Timeout(_) => None,
            ureq::Error::Io(error)
                if [ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut]
                    .contains(&error.kind())
                    || is_unknown(error) =>
            {
                None
            }
            _ => return None,
        };
        let (proxy, variable) = (format!("{}:{}", self.proxy.host(), self.proxy.port()), self.variable);
        let host = address::host(uri).to_owned();
        let why = match status {
            Some(407) => format!("wants a user name and a password: {variable}=http://USER:PASSWORD@{proxy}"),
            Some(status) => format!("refuses the connection with status {status}; it must allow CONNECT"),
            None => format!("does not answer ({error}); correct or unset {variable}"),
        };
        Some(Error::Proxy { host, proxy, variable, status, why })
    }
}

/// The status in `ureq`'s text, such as `proxy server responded 407/407`.
fn status_in(reason: &str) -> Option<u16> {
    reason.rsplit_once('/')?.1.trim().parse().ok()
}

/// Whether the system found no address of the host; the standard library has no kind for that.
pub(crate) fn is_unknown(error: &io::Error) -> bool {
    const WSAHOST_NOT_FOUND: i32 = 11001;
    error.raw_os_error() == Some(WSAHOST_NOT_FOUND)
        || error.to_string().starts_with("failed to lookup address information")
}
