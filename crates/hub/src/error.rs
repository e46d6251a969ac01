//! Errors.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::name::{FileName, NameError, RepoId, Revision};

/// Why a model cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that cannot be a repository's or a file's.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An address that is none.
    #[error("`{address}` is not an http or https address")]
    Address {
        /// The address.
        address: String,
    },
    /// The hub's address is none.
    #[error("HF_ENDPOINT is `{address}`, which is not an http or https address; unset it for the public hub")]
    Endpoint {
        /// The variable's value.
        address: String,
    },
    /// A variable names a file where a folder is expected.
    #[error("{variable} names {}, which is a file; it must name a folder, or be unset", path.display())]
    NoFolder {
        /// The variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// There is no place for the cache.
    #[error("no home folder, so that there is no place for models; set HF_HOME to a folder")]
    NoHome,
    /// The token file cannot be read.
    #[error("cannot read the token in {}; HF_TOKEN or HF_TOKEN_PATH names another", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The certificates cannot be read.
    #[error("cannot read certificates in {}, which SSL_CERT_FILE names: {why}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The network is off limits.
    #[error("{what} is not on this machine, and offline nothing is downloaded")]
    Offline {
        /// What was wanted.
        what: String,
    },
    /// The repository is missing, private or gated, and there is no token.
    #[error(
        "{host} shows no repository {repo} without a token: check the name; if it is private or gated, set HF_TOKEN \
         to a token of {host}/settings/tokens, or run `hf auth login`"
    )]
    NoToken {
        /// The hub.
        host: String,
        /// The repository.
        repo: RepoId,
    },
    /// The hub does not accept the token.
    #[error("{host} refuses the token of {origin}: {host}/settings/tokens lists those that are valid")]
    BadToken {
        /// The hub.
        host: String,
        /// The variable or file of the token.
        origin: String,
    },
    /// The owner of the repository decides who may download it.
    #[error("{repo} is gated: ask for access at {host}/{repo}, {}", after_access(token.as_deref(), host))]
    Gated {
        /// The hub.
        host: String,
        /// The repository.
        repo: RepoId,
        /// The variable or file of the token, if there is one.
        token: Option<String>,
    },
    /// The server does not allow it.
    #[error("{url} is forbidden{}", reason(message.as_deref()))]
    Forbidden {
        /// The address.
        url: String,
        /// The server's explanation.
        message: Option<String>,
    },
    /// There is no such repository.
    #[error("{host} has no repository {repo} that this account may see; check the name")]
    NoRepository {
        /// The hub.
        host: String,
        /// The repository.
        repo: RepoId,
    },
    /// There is no such revision.
    #[error("{repo} has no revision {revision}; most have `main`")]
    NoRevision {
        /// The repository.
        repo: RepoId,
        /// The revision.
        revision: Revision,
    },
    /// There is no such file.
    #[error("{repo} has no file {file}")]
    NoFile {
        /// The repository.
        repo: RepoId,
        /// The file.
        file: FileName,
    },
    /// The address leads nowhere.
    #[error("{url}: there is nothing at this address (404)")]
    NotFound {
        /// The address.
        url: String,
    },
    /// The file on the server has not the size that it said.
    #[error("{url}: the server has no bytes {start} to {end} of it; the file was replaced, so try again")]
    Range {
        /// The address.
        url: String,
        /// The first byte.
        start: u64,
        /// The last byte.
        end: u64,
    },
    /// Too many requests.
    #[error("{host} has had too many requests{}", wait(*after))]
    RateLimited {
        /// The server.
        host: String,
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// The server fails.
    #[error("{url}: the server answers with status {status}")]
    Server {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// How long it asks to wait.
        after: Option<Duration>,
    },
    /// The host is unknown.
    #[error("no address of {host} is found: check the name and the network; HTTPS_PROXY names a proxy")]
    UnknownHost {
        /// The host.
        host: String,
    },
    /// The host cannot be reached, or the connection is lost.
    #[error("{host} cannot be reached: check the network; HTTPS_PROXY names a proxy")]
    Network {
        /// The host.
        host: String,
        /// Why not.
        source: Box<ureq::Error>,
    },
    /// The proxy cannot be reached, or does not connect.
    #[error("{host} cannot be reached: the proxy {proxy}, which {variable} names, {why}")]
    Proxy {
        /// The host behind it.
        host: String,
        /// Its host and port.
        proxy: String,
        /// The variable that names it.
        variable: &'static str,
        /// The HTTP status of its answer.
        status: Option<u16>,
        /// What it does.
        why: String,
    },
    /// The connection is not trusted.
    #[error(
        "the connection to {host} is not trusted: SSL_CERT_FILE names further certificates, such as a proxy's"
    )]
    Untrusted {
        /// The host.
        host: String,
        /// Why not.
        source: Box<ureq::Error>,
    },
    /// The body of an answer ended early or stalled.
    #[error("the transfer from {host} broke off; what has come is kept")]
    Cut {
        /// The host.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// An answer that makes no sense.
    #[error("{url}: {what}, so this is not a hub; HF_ENDPOINT and proxies may lead elsewhere")]
    Protocol {
        /// The address.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// Another file came than was announced.
    #[error(
        "{file}: the file that came has SHA-256 {found}, but {expected} is expected; it is removed, so try again"
    )]
    WrongHash {
        /// The file.
        file: String,
        /// The hash on the hub.
        expected: String,
        /// That of the bytes.
        found: String,
    },
    /// What is to be removed is being downloaded.
    #[error("another process downloads a file of {repo}; end it, or wait for it, and then remove the file")]
    Busy {
        /// The repository.
        repo: RepoId,
    },
    /// The disk is too full.
    #[error(
        "{} has {} of space left, but {} are needed; remove files there, or let HF_HOME name a larger disk",
        folder.display(), gib(*free), gib(*needed)
    )]
    DiskFull {
        /// The folder.
        folder: PathBuf,
        /// Bytes that are missing.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A file of the cache cannot be read or written.
    #[error("cannot {action} {}{}", path.display(), elsewhere(source))]
    Cache {
        /// Such as `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
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
    pub fn is_of_network(&self) -> bool {
        self.is_transient()
            || matches!(self, Error::UnknownHost { .. } | Error::Untrusted { .. } | Error::Proxy { .. })
    }

    /// How long the server asks to wait.
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

/// A hint for folders that cannot be written.
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
