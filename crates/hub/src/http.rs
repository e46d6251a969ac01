//! Requests: redirects, the token, retries, and the meaning of statuses.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_RANGE, LOCATION, RANGE, RETRY_AFTER};
use ureq::http::{HeaderMap, StatusCode, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::address::{self, Origin};
use crate::name::{FileName, RepoId, Revision};
use crate::proxy::{Proxy, is_unknown};
use crate::settings::{ENDPOINT, Patience, Settings, Token};
use crate::{Error, Event, Watch};

/// As many as browsers follow.
const MAX_REDIRECTS: usize = 20;

/// Attempts for the first answer: without a network, the user need not wait for more.
const ATTEMPTS_TO_CONNECT: u32 = 3;

/// Largest answer of the hub's interface, which lists the files of a repository.
const MAX_JSON: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Http {
    agent: Agent,
    /// The hub's address, for messages.
    hub: String,
    /// Where the token may be sent.
    trusted: Vec<Origin>,
    token: Option<Token>,
    proxy: Option<Proxy>,
    pub(crate) patience: Patience,
}

/// What a request is about, to word its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Repo(&'a RepoId, &'a Revision),
    File(&'a RepoId, &'a Revision, &'a FileName),
    /// A file that is not on the hub.
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Head,
    Get,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    All,
    /// Only those on the hub: the answer that leads away from it describes the file.
    OnHub,
}

/// A successful answer, or the redirect that was not followed.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) uri: Uri,
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    body: ureq::Body,
}

impl Http {
    pub(crate) fn new(settings: &Settings) -> Result<Http, Error> {
        let Patience { stall, .. } = settings.patience;
        let mut tls = TlsConfig::builder();
        if let Some(path) = &settings.certificates {
            tls = tls.root_certs(certificates(path)?);
        }
        let config = Agent::config_builder()
            .user_agent(concat!("rustorch/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_resolve(Some(stall))
            .timeout_connect(Some(stall))
            .timeout_per_read(Some(stall))
            .timeout_recv_response(Some(3 * stall));
        let hub = address::parse(&settings.endpoint)
            .map_err(|_| Error::Endpoint { address: settings.endpoint.clone() })?;
        // A mirror may lead to the hub itself.
        let trusted = [hub, address::parse(ENDPOINT)?].iter().map(Origin::of).collect();
        Ok(Http {
            agent: config.build().into(),
            hub: settings.endpoint.clone(),
            trusted,
            token: settings.token.clone(),
            proxy: Proxy::from_env(),
            patience: settings.patience,
        })
    }

    pub(crate) fn send(
        &self,
        method: Method,
        uri: &Uri,
        range: Option<&Range<u64>>,
        follow: Follow,
        subject: Subject<'_>,
    ) -> Result<Reply, Error> {
        let mut uri = uri.clone();
        for _ in 0..MAX_REDIRECTS {
            let reply = self.send_once(method, &uri, range)?;
            let Some(location) = reply.location() else { return self.judge(reply, range, subject) };
            let target = address::join(&uri, location)?;
            if follow == Follow::OnHub && !self.is_trusted(&target) {
                return Ok(reply);
            }
            uri = target;
        }
        Err(address::unexpected(&uri, format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn send_once(&self, method: Method, uri: &Uri, range: Option<&Range<u64>>) -> Result<Reply, Error> {
        let request = match method {
            Method::Head => self.agent.head(uri),
            Method::Get => self.agent.get(uri),
        };
        // The size of a file is that without compression.
        let mut request = request.header(ACCEPT_ENCODING, "identity");
        if let Some(Range { start, end }) = range {
            request = request.header(RANGE, format!("bytes={start}-{}", end.saturating_sub(1)));
        }
        if let Some(token) = self.token.as_ref().filter(|_| self.is_trusted(uri)) {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.secret));
        }
        let response = request.call().map_err(|error| self.failed(uri, error))?;
        let (parts, body) = response.into_parts();
        Ok(Reply { uri: uri.clone(), status: parts.status, headers: parts.headers, body })
    }

    fn failed(&self, uri: &Uri, error: ureq::Error) -> Error {
        let blamed = self.proxy.as_ref().and_then(|proxy| proxy.blame(uri, &error));
        blamed.unwrap_or_else(|| failed(uri, error))
    }

    fn is_trusted(&self, uri: &Uri) -> bool {
        self.trusted.contains(&Origin::of(uri))
    }

    /// The reply if it is a success, else what its status means.
    fn judge(&self, reply: Reply, range: Option<&Range<u64>>, subject: Subject<'_>) -> Result<Reply, Error> {
        if reply.status.is_success() {
            return Ok(reply);
        }
        let (status, url, host) = (reply.status.as_u16(), address::shown(&reply.uri), self.hub.clone());
        let after = reply.wait();
        let code = reply.header("x-error-code").unwrap_or_default();
        let message = reply.header("x-error-message").map(str::to_owned);
        let origin = self.token.as_ref().map(|token| token.origin.clone());
        let on_hub = self.is_trusted(&reply.uri);
        let repo = match subject {
            Subject::Repo(repo, _) | Subject::File(repo, ..) if on_hub => Some(repo.clone()),
            _ => None,
        };
        Err(match (status, code, repo, subject) {
            (_, "GatedRepo", Some(repo), _) => Error::Gated { host, repo, token: origin },
            (
                _,
                "RevisionNotFound",
                Some(repo),
                Subject::Repo(_, revision) | Subject::File(_, revision, _),
            ) => Error::NoRevision { repo, revision: revision.clone() },
            (_, "EntryNotFound", Some(repo), Subject::File(.., file)) => {
                Error::NoFile { repo, file: file.clone() }
            }
            (401, _, Some(repo), _) => match origin {
                // The hub answers so about missing repositories, too.
                Some(_) if code == "RepoNotFound" => Error::NoRepository { host, repo },
                Some(origin) => Error::BadToken { host, origin },
                None => Error::NoToken { host, repo },
            },
            (401 | 403, ..) => Error::Forbidden { url, message },
            (404, _, Some(repo), _) => Error::NoRepository { host, repo },
            (404 | 410, ..) => Error::NotFound { url },
            (416, ..) => {
                let Range { start, end } = range.cloned().unwrap_or_default();
                Error::Range { url, start, end: end.saturating_sub(1) }
            }
            (429, ..) => Error::RateLimited { host: address::host(&reply.uri).to_owned(), after },
            _ => Error::Server { url, status, after },
        })
    }

    /// Repeats `attempt` while it fails in a way that may pass, with growing waits.
    pub(crate) fn persist<T>(
        &self,
        watch: Watch<'_>,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut failures = 0;
        loop {
            let error = match attempt() {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failures += 1;
            let is_hopeless = matches!(error, Error::Network { .. } | Error::Proxy { .. })
                && failures >= ATTEMPTS_TO_CONNECT;
            let Some(wait) = self.wait(&error, failures).filter(|_| !is_hopeless) else { return Err(error) };
            watch(Event::Retrying { error: &error, wait });
            thread::sleep(wait);
        }
    }

    /// How long to wait after as many failures in a row; `None` to give up.
    pub(crate) fn wait(&self, error: &Error, failures: u32) -> Option<Duration> {
        let Patience { attempts, first_wait, longest_wait, .. } = self.patience;
        if !error.is_transient() || failures >= attempts {
            return None;
        }
        match error.after() {
            Some(asked) => (asked <= longest_wait).then_some(asked),
            None => Some(first_wait.saturating_mul(1 << (failures - 1).min(16)).min(longest_wait)),
        }
    }
}

pub(crate) struct Body {
    host: String,
    reader: ureq::BodyReader<'static>,
}

impl Body {
    /// Reads at least one byte.
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        match self.reader.read(buffer) {
            Ok(0) => Err(self.cut(io::ErrorKind::UnexpectedEof.into())),
            read => read.map_err(|source| self.cut(source)),
        }
    }

    /// Fails if more bytes come.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => {
                Err(self
                    .cut(io::Error::new(io::ErrorKind::InvalidData, "more bytes came than were announced")))
            }
            Err(source) => Err(self.cut(source)),
        }
    }

    /// The bytes, at most `most`.
    pub(crate) fn bytes(mut self, most: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match self.reader.by_ref().take(most).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(self.cut(source)),
        }
    }

    fn cut(&self, source: io::Error) -> Error {
        Error::Cut { host: self.host.clone(), source }
    }
}

impl Reply {
    fn location(&self) -> Option<&str> {
        self.status.is_redirection().then(|| self.header(LOCATION.as_str())).flatten()
    }

    /// The target of a redirect that was not followed, or the address of the answer.
    pub(crate) fn target(&self) -> Result<Uri, Error> {
        self.location().map_or_else(|| Ok(self.uri.clone()), |location| address::join(&self.uri, location))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// How long the server asks to wait: by `Retry-After`, or by `RateLimit: "api";r=0;t=55` (no requests remain for 55 s).
    fn wait(&self) -> Option<Duration> {
        let limit = self.header("ratelimit").filter(|limit| limit.contains(";r=0"));
        let seconds =
            limit.and_then(|limit| limit.split(';').find_map(|part| part.trim().strip_prefix("t=")));
        let seconds = self.header(RETRY_AFTER.as_str()).or(seconds)?;
        Some(Duration::from_secs(seconds.trim().parse().ok()?))
    }

    /// First byte and size of the whole in a partial answer.
    pub(crate) fn content_range(&self) -> Option<(u64, u64)> {
        let (range, size) = self.header(CONTENT_RANGE.as_str())?.strip_prefix("bytes ")?.split_once('/')?;
        Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
    }

    pub(crate) fn len(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    pub(crate) fn error(&self, what: impl Into<String>) -> Error {
        address::unexpected(&self.uri, what)
    }

    pub(crate) fn into_body(self) -> Body {
        Body { host: address::host(&self.uri).to_owned(), reader: self.body.into_reader() }
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, Error> {
        let uri = self.uri.clone();
        let bytes = self.into_body().bytes(MAX_JSON)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| address::unexpected(&uri, format!("the answer is not the hub's JSON ({error})")))
    }
}

/// What an error of a connection without a proxy means.
fn failed(uri: &Uri, error: ureq::Error) -> Error {
    let host = address::host(uri).to_owned();
    match error {
        ureq::Error::HostNotFound => Error::UnknownHost { host },
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => Error::Untrusted { host, source: Box::new(error) },
        ureq::Error::Io(source) if is_unknown(&source) => Error::UnknownHost { host },
        ureq::Error::Io(source) if is_tls(&source) => {
            Error::Untrusted { host, source: Box::new(ureq::Error::Io(source)) }
        }
        error => Error::Network { host, source: Box::new(error) },
    }
}

fn is_tls(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

fn certificates(path: &Path) -> Result<RootCerts, Error> {
    let refuse = |why: String| Error::Certificates { path: path.to_owned(), why };
    let pem = fs::read(path).map_err(|error| refuse(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| refuse(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(refuse("there is none".to_owned()));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
