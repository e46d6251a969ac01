//! Errors.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::name::{FileName, NameError, RepoId, Revision};

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("`{address}` is not an http or https address")]
    Address { address: String },
    #[error("HF_ENDPOINT is `{address}`, which is not an http or https address; unset it for the public hub")]
    Endpoint { address: String },
    #[error("{variable} names {}, which is a file; it must name a folder, or be unset", path.display())]
    NoFolder { variable: &'static str, path: PathBuf },
    #[error("no home folder, so that there is no place for models; set HF_HOME to a folder")]
    NoHome,
    #[error("cannot read the token in {}; HF_TOKEN or HF_TOKEN_PATH names another", path.display())]
    Token { path: PathBuf, source: io::Error },
    #[error("cannot read certificates in {}, which SSL_CERT_FILE names: {why}", path.display())]
    Certificates { path: PathBuf, why: String },
    #[error("{what} is not on this machine, and offline nothing is downloaded")]
    Offline { what: String },
    #[error(
        "{host} shows no repository {repo} without a token: check the name; if it is private or gated, set HF_TOKEN \
         to a token of {host}/settings/tokens, or run `hf auth login`"
    )]
    NoToken { host: String, repo: RepoId },
    #[error("{host} refuses the token of {origin}: {host}/settings/tokens lists those that are valid")]
    BadToken { host: String, origin: String },
    #[error("{repo} is gated: ask for access at {host}/{repo}, {}", after_access(token.as_deref(), host))]
    Gated { host: String, repo: RepoId, token: Option<String> },
    #[error("{url} is forbidden{}", reason(message.as_deref()))]
    Forbidden { url: String, message: Option<String> },
    #[error("{host} has no repository {repo} that this account may see; check the name")]
    NoRepository { host: String, repo: RepoId },
    #[error("{repo} has no revision {revision}; most have `main`")]
    NoRevision { repo: RepoId, revision: Revision },
    #[error("{repo} has no file {file}")]
    NoFile { repo: RepoId, file: FileName },
    #[error("{url}: there is nothing at this address (404)")]
    NotFound { url: String },
    #[error("{url}: the server has no bytes {start} to {end} of it; the file was replaced, so try again")]
    Range { url: String, start: u64, end: u64 },
    #[error("{host} has had too many requests{}", wait(*after))]
    RateLimited { host: String, after: Option<Duration> },
    #[error("{url}: the server answers with status {status}")]
    Server { url: String, status: u16, after: Option<Duration> },
    #[error("no address of {host} is found: check the name and the network; HTTPS_PROXY names a proxy")]
    UnknownHost { host: String },
    #[error("{host} cannot be reached: check the network; HTTPS_PROXY names a proxy")]
    Network { host: String, source: Box<ureq::Error> },
    #[error("{host} cannot be reached: the proxy {proxy}, which {variable} names, {why}")]
    Proxy { host: String, proxy: String, variable: &'static str, status: Option<u16>, why: String },
    #[error(
        "the connection to {host} is not trusted: SSL_CERT_FILE names further certificates, such as a proxy's"
    )]
    Untrusted { host: String, source: Box<ureq::Error> },
    #[error("the transfer from {host} broke off; what has come is kept")]
    Cut { host: String, source: io::Error },
    #[error("{url}: {what}, so this is not a hub; HF_ENDPOINT and proxies may lead elsewhere")]
    Protocol { url: String, what: String },
    #[error(
        "{file}: the file that came has SHA-256 {found}, but {expected} is expected; it is removed, so try again"
    )]
    WrongHash { file: String, expected: String, found: String },
    #[error(
        "another process is downloading a file of {repo}; wait until it has ended, or end it, and then remove the model"
    )]
    Busy { repo: RepoId },
    #[error(
        "{} has {} of space left, but {} are needed; remove files there, or let HF_HOME name a larger disk",
        folder.display(), gib(*free), gib(*needed)
    )]
    DiskFull { folder: PathBuf, needed: u64, free: u64 },
    #[error("cannot {action} {}{}", path.display(), elsewhere(source))]
    Cache { action: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    pub(crate) fn cache(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Cache { action, path, source }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::RateLimited { .. } | Error::Network { .. } | Error::Cut { .. } => true,
            Error::Server { status, .. } => is_passing(*status),
            Error::Proxy { status, .. } => status.is_none_or(is_passing),
            _ => false,
        }
    }

    /// Whether the network or the server is at fault, so that what the cache has must do.
    pub fn is_network_error(&self) -> bool {
        self.is_transient()
            || matches!(self, Error::UnknownHost { .. } | Error::Untrusted { .. } | Error::Proxy { .. })
    }

    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            Error::RateLimited { after, .. } | Error::Server { after, .. } => *after,
            _ => None,
        }
    }
}

/// Whether the server may answer with another status later; 501 is for good.
fn is_passing(status: u16) -> bool {
    status == 408 || status >= 500 && status != 501
}

fn after_access(token: Option<&str>, host: &str) -> String {
    match token {
        Some(origin) => format!("with the account whose token {origin} has"),
        None => format!("then set HF_TOKEN to a token of {host}/settings/tokens, or run `hf auth login`"),
    }
}

fn reason(message: Option<&str>) -> String {
    message.map_or_else(|| " (403)".to_owned(), |message| format!(": {message}"))
}

fn wait(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(", and asks to wait for {} s", after.as_secs()))
}

fn elsewhere(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            " (HF_HUB_CACHE can name another folder for models)"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (what has come is kept; make space, and try again)"
        }
        _ => "",
    }
}

fn gib(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{bytes} bytes"),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}
