//! A server that speaks the protocol of the Hugging Face hub, and its file server on another port.
//!
//! It answers as <https://huggingface.co> does: `/api/models/REPO/revision/REVISION` lists files; `/REPO/resolve/REVISION/FILE`
//! redirects to the file server for files in LFS, else on the hub itself. It can also misbehave.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest, Sha256};

/// Files of at least this size are in LFS.
const LFS: usize = 1024;

/// A running server. Its threads end with the process.
#[derive(Debug)]
pub struct Hub {
    /// Such as `http://127.0.0.1:1234`.
    pub endpoint: String,
    /// That of the file server.
    pub files: String,
    state: Arc<Mutex<State>>,
}

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Whether everything needs the token `hf_good`.
    pub is_private: bool,
    /// Whether files need the owner's consent, which the token `hf_member` has.
    pub is_gated: bool,
    /// Whether the file server obeys `Range`.
    pub has_ranges: bool,
    /// Bytes after which the file server cuts connections, in this order; then it cuts no more.
    pub cuts: VecDeque<usize>,
    /// Bytes after which the file server stops sending without closing the connection, once.
    pub stall: Option<usize>,
    /// Statuses of the next answers of the hub to requests that contain the text, with further headers.
    pub failures: VecDeque<(&'static str, u16, &'static str)>,
    /// The same for the file server.
    pub file_failures: VecDeque<(u16, &'static str)>,
    /// Whether the file server sends other bytes.
    pub is_wrong: bool,
    /// Size that the hub announces for every file.
    pub announced: Option<u64>,
    /// Wait of the file server after each 64 KiB.
    pub pace: Duration,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            is_private: false,
            is_gated: false,
            has_ranges: true,
            cuts: VecDeque::new(),
            stall: None,
            failures: VecDeque::new(),
            file_failures: VecDeque::new(),
            is_wrong: false,
            announced: None,
            pace: Duration::ZERO,
        }
    }
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether the file server got it.
    pub by_file_server: bool,
    /// Such as `GET /api/models/a/b`.
    pub line: String,
    /// The header `Range`.
    pub range: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Files by repository and name.
    files: BTreeMap<String, BTreeMap<String, Stored>>,
    /// New names of repositories.
    moved: BTreeMap<String, String>,
    behaviour: Behaviour,
    seen: Vec<Seen>,
    file_server: String,
}

#[derive(Clone, Debug)]
struct Stored {
    bytes: Arc<[u8]>,
    sha256: String,
}

impl Hub {
    /// Starts a server without repositories.
    pub fn start() -> Hub {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
        let (hub, files) = (listen(), listen());
        let address =
            |listener: &TcpListener| format!("http://{}", listener.local_addr().expect("an address"));
        let (endpoint, file_server) = (address(&hub), address(&files));
        let state = Arc::new(Mutex::new(State { file_server: file_server.clone(), ..State::default() }));
        for (listener, by_file_server) in [(hub, false), (files, true)] {
            let state = state.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = state.clone();
                    // A client may hang up at any time.
                    thread::spawn(move || serve(&stream, &state, by_file_server));
                }
            });
        }
        Hub { endpoint, files: file_server, state }
    }

    /// Adds or replaces a file; the repository is at another commit then.
    pub fn add(&self, repo: &str, file: &str, bytes: impl Into<Vec<u8>>) {
        let bytes: Vec<u8> = bytes.into();
        let stored = Stored { sha256: sha256(&bytes), bytes: bytes.into() };
        lock(&self.state).files.entry(repo.to_owned()).or_default().insert(file.to_owned(), stored);
    }

    /// Renames a repository; the old name redirects.
    pub fn rename(&self, from: &str, to: &str) {
        let mut state = lock(&self.state);
        let files = state.files.remove(from).unwrap_or_default();
        state.files.insert(to.to_owned(), files);
        state.moved.insert(from.to_owned(), to.to_owned());
    }

    /// Changes how it behaves.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut lock(&self.state).behaviour);
    }

    /// The commit that `repo` is at.
    pub fn commit(&self, repo: &str) -> String {
        lock(&self.state).commit(repo)
    }

    /// The requests since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut lock(&self.state).seen)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The SHA-256 of `bytes` in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl State {
    fn commit(&self, repo: &str) -> String {
        let mut all = Sha256::new();
        for (name, file) in self.files.get(repo).into_iter().flatten() {
            all.update(name);
            all.update(&file.sha256);
        }
        all.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect()
    }
}

struct Request {
    method: String,
    path: String,
    range: Option<(usize, usize)>,
    seen: Seen,
}

impl Request {
    /// `None` at the end of the connection.
    fn read(stream: &mut impl BufRead, by_file_server: bool) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut range, mut authorization) = (None, None);
        loop {
            let mut header = String::new();
            stream.read_line(&mut header)?;
            let Some((name, value)) = header.trim().split_once(':') else { break };
            match &*name.to_lowercase() {
                "range" => range = Some(value.trim().to_owned()),
                "authorization" => authorization = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let bounds = range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let bounds =
            bounds.and_then(|(start, end)| Some((start.parse().ok()?, end.parse().unwrap_or(usize::MAX))));
        let seen = Seen { by_file_server, line: format!("{method} {path}"), range, authorization };
        Ok(Some(Request { method, path, range: bounds, seen }))
    }

    /// The token, if one was sent.
    fn token(&self) -> Option<&str> {
        self.seen.authorization.as_deref()?.strip_prefix("Bearer ")
    }
}

struct Answer {
    status: u16,
    /// Lines with their ends.
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, headers: impl Into<String>, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, headers: headers.into(), body: body.into() }
    }

    fn error(status: u16, code: &str, message: &str) -> Answer {
        let headers = format!("X-Error-Code: {code}\r\nX-Error-Message: {message}\r\n");
        Answer::new(status, headers, json!({ "error": message }).to_string())
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>, by_file_server: bool) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader, by_file_server)? {
        let (answer, behaviour) = {
            let mut state = lock(state);
            state.seen.push(request.seen.clone());
            let answer = if by_file_server {
                answer_file(&mut state, &request)
            } else {
                answer_hub(&mut state, &request)
            };
            (answer, state.behaviour.clone())
        };
        send(stream, state, &request, &answer, &behaviour)?;
    }
    Ok(())
}

/// Sends an answer, that of the file server as slow and as broken as wanted.
fn send(
    mut stream: &TcpStream,
    state: &Mutex<State>,
    request: &Request,
    answer: &Answer,
    behaviour: &Behaviour,
) -> io::Result<()> {
    let Answer { status, headers, body } = answer;
    write!(stream, "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len())?;
    if request.method == "HEAD" {
        return Ok(());
    }
    let is_file = request.seen.by_file_server && *status < 300;
    let cut = if is_file { lock(state).behaviour.cuts.pop_front() } else { None };
    let stall = if is_file && cut.is_none() { lock(state).behaviour.stall.take() } else { None };
    let end = cut.or(stall).unwrap_or(body.len()).min(body.len());
    for part in body[..end].chunks(1 << 16) {
        stream.write_all(part)?;
        if is_file && !behaviour.pace.is_zero() {
            thread::sleep(behaviour.pace);
        }
    }
    if cut.is_some() {
        return stream.shutdown(Shutdown::Both);
    }
    if stall.is_some() {
        // Until the client hangs up.
        io::copy(&mut stream, &mut io::sink())?;
    }
    Ok(())
}

fn answer_hub(state: &mut State, request: &Request) -> Answer {
    let planned = state.behaviour.failures.iter().position(|(text, ..)| request.path.contains(text));
    if let Some((_, status, headers)) = planned.and_then(|at| state.behaviour.failures.remove(at)) {
        return Answer::new(status, headers, "");
    }
    let path = request.path.split('?').next().unwrap_or_default().trim_start_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    let (is_api, repo, revision, file) = match parts[..] {
        ["api", "models", user, repo, "revision", revision] => {
            (true, format!("{user}/{repo}"), revision, String::new())
        }
        ["api", "resolve-cache", "models", user, repo, revision, ref file @ ..]
        | [user, repo, "resolve", revision, ref file @ ..] => {
            (false, format!("{user}/{repo}"), revision, file.join("/"))
        }
        _ => return Answer::error(404, "", "Sorry, we can't find the page you are looking for."),
    };
    if let Some(target) = state.moved.get(&repo) {
        return Answer::new(307, format!("Location: {}\r\n", request.path.replacen(&repo, target, 1)), "");
    }
    let token = request.token();
    if token.is_some_and(|token| !["hf_good", "hf_member"].contains(&token)) {
        return Answer::error(401, "", "Invalid credentials in Authorization header");
    }
    let is_hidden = state.behaviour.is_private && token.is_none();
    let commit = state.commit(&repo);
    let Some(files) = state.files.get(&repo).filter(|_| !is_hidden) else {
        return match token {
            None => Answer::error(401, "", "Invalid username or password."),
            Some(_) => Answer::error(404, "RepoNotFound", "Repository not found"),
        };
    };
    if revision != "main" && revision != commit {
        return Answer::error(404, "RevisionNotFound", "Invalid rev id: no");
    }
    if is_api {
        let sibling = |(name, Stored { bytes, sha256 }): (&String, &Stored)| {
            let mut sibling = json!({ "rfilename": name, "size": bytes.len(), "blobId": &sha256[..40] });
            if bytes.len() >= LFS {
                sibling["lfs"] = json!({ "sha256": sha256, "size": bytes.len(), "pointerSize": 135 });
            }
            sibling
        };
        let siblings: Vec<_> = files.iter().map(sibling).collect();
        let gated = if state.behaviour.is_gated { json!("manual") } else { json!(false) };
        let info = json!({ "id": repo, "sha": commit, "gated": gated, "private": state.behaviour.is_private,
            "downloads": 7, "cardData": { "license": "apache-2.0" }, "siblings": siblings });
        return Answer::new(200, "Content-Type: application/json; charset=utf-8\r\n", info.to_string());
    }
    if state.behaviour.is_gated && token != Some("hf_member") {
        let status = if token.is_some() { 403 } else { 401 };
        return Answer::error(status, "GatedRepo", "Access to this model is restricted.");
    }
    let Some(Stored { bytes, sha256 }) = files.get(&file.replace("%20", " ")) else {
        return Answer::error(404, "EntryNotFound", "Entry not found");
    };
    let common = format!("X-Repo-Commit: {commit}\r\nAccept-Ranges: bytes\r\n");
    if bytes.len() >= LFS {
        let location = format!("{}/{repo}/{file}?Signature=abc", state.file_server);
        let size = state.behaviour.announced.unwrap_or(bytes.len() as u64);
        let linked = format!("X-Linked-Size: {size}\r\nX-Linked-ETag: \"{sha256}\"\r\n");
        return Answer::new(
            302,
            format!("{common}{linked}Location: {location}\r\nETag: \"pointer\"\r\n"),
            "Found",
        );
    }
    if parts[0] == "api" {
        return Answer::new(200, format!("{common}ETag: \"{}\"\r\n", &sha256[..40]), &bytes[..]);
    }
    let location = format!("/api/resolve-cache/models/{repo}/{commit}/{file}");
    Answer::new(307, format!("{common}ETag: \"{}\"\r\nLocation: {location}\r\n", &sha256[..40]), "")
}

fn answer_file(state: &mut State, request: &Request) -> Answer {
    // Storage that gets a signature and a token refuses both.
    if request.seen.authorization.is_some() {
        return Answer::new(400, "", "Only one auth mechanism allowed");
    }
    if let Some((status, headers)) = state.behaviour.file_failures.pop_front() {
        return Answer::new(status, headers, "");
    }
    let path = request.path.split('?').next().unwrap_or_default().trim_start_matches('/').replace("%20", " ");
    let mut parts = path.splitn(3, '/');
    let repo = [parts.next(), parts.next()].map(Option::unwrap_or_default).join("/");
    let Some(Stored { bytes, sha256 }) = state.files.get(&repo).and_then(|files| files.get(parts.next()?))
    else {
        return Answer::new(404, "", "");
    };
    let tag = format!("ETag: \"{sha256}\"\r\n");
    let mut answer = match request.range.filter(|_| state.behaviour.has_ranges) {
        None => Answer::new(200, tag, &bytes[..]),
        Some((start, _)) if start >= bytes.len() => {
            Answer::new(416, format!("Content-Range: bytes */{}\r\n", bytes.len()), "")
        }
        Some((start, end)) => {
            let end = end.min(bytes.len() - 1);
            let range = format!("Content-Range: bytes {start}-{end}/{}\r\n", bytes.len());
            Answer::new(206, tag + &range, &bytes[start..=end])
        }
    };
    if state.behaviour.is_wrong {
        answer.body.iter_mut().for_each(|byte| *byte ^= 1);
    }
    answer
}
