//! One file from its first byte to its place: transfer by several connections that ask for ranges, or by one if the server has no
//! ranges; check; rename.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sha2::Digest;
use ureq::http::{StatusCode, Uri};

use crate::chunks::{CHUNK, Partial, STEP};
use crate::http::{Body, Follow, Http, Method, Reply, Subject};
use crate::name::Sha256;
use crate::{Error, Event, Watch};

const CONNECTIONS: usize = 4;

/// Most chunks in one request: long enough to hide its latency.
const CHUNKS_PER_REQUEST: usize = 8;

const BUFFER: usize = 1 << 18;

/// A file to put at `target`, while the caller holds its lock.
pub(crate) struct Task<'a> {
    pub(crate) http: &'a Http,
    /// Asks where the file is now; addresses of file servers expire.
    pub(crate) locate: &'a (dyn Fn() -> Result<Uri, Error> + Sync),
    pub(crate) subject: Subject<'a>,
    pub(crate) name: &'a str,
    pub(crate) unfinished: PathBuf,
    pub(crate) target: PathBuf,
    /// What tells this file from others at the same address.
    pub(crate) identity: String,
    pub(crate) size: u64,
    pub(crate) sha256: Option<Sha256>,
}

/// Transfers a file, checks it, and moves it to its place. Returns the number of bytes that came.
pub(crate) fn fetch(task: &Task<'_>, at: Uri, watch: Watch<'_>) -> Result<u64, Error> {
    loop {
        let partial = Partial::open(&task.unfinished, task.size, &task.identity)?;
        let resumed = partial.done();
        watch(Event::Started { done: resumed, total: task.size });
        let filled = fill(task, at.clone(), &partial, watch);
        if let Err(Error::Range { .. } | Error::Protocol { .. }) = &filled {
            // Another file is there now: what has come is worth nothing.
            partial.discard()?;
            filled?;
            continue;
        }
        filled?;
        let expected = task.sha256.as_ref();
        let found = expected.map(|_| sha256(partial.path(), watch)).transpose()?;
        if found.as_ref() == expected {
            partial.finish(&task.target)?;
            return Ok(task.size - resumed);
        }
        partial.discard()?;
        // Chunks of an earlier process may have been lost with the power; new ones were sent so.
        if let (0, Some(expected), Some(found)) = (resumed, expected, found) {
            let (expected, found) = (expected.to_string(), found.to_string());
            return Err(Error::WrongHash { file: task.name.to_owned(), expected, found });
        }
    }
}

fn fill(task: &Task<'_>, at: Uri, partial: &Partial, watch: Watch<'_>) -> Result<(), Error> {
    let transfer = Transfer {
        task,
        partial,
        watch,
        uri: Mutex::new(at),
        done: AtomicU64::new(partial.done()),
        failure: Mutex::new(None),
        is_over: AtomicBool::new(false),
    };
    let Some(first) = partial.take(CHUNKS_PER_REQUEST) else { return Ok(()) };
    let reply = task.http.persist(watch, || transfer.request(Some(&first)))?;
    match reply.status {
        StatusCode::PARTIAL_CONTENT => transfer.in_parts(first, reply),
        _ => transfer.as_a_whole(reply),
    }
}

struct Transfer<'a> {
    task: &'a Task<'a>,
    partial: &'a Partial,
    watch: Watch<'a>,
    uri: Mutex<Uri>,
    done: AtomicU64,
    failure: Mutex<Option<Error>>,
    is_over: AtomicBool,
}

impl Transfer<'_> {
    /// Requests chunks, or everything. The answer may be everything in any case.
    fn request(&self, chunks: Option<&Range<u64>>) -> Result<Reply, Error> {
        let uri = self.uri.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let range = chunks.map(|chunks| self.missing(chunks));
        let Task { http, subject, .. } = self.task;
        let reply = http.send(Method::Get, &uri, range.as_ref(), Follow::All, *subject)?;
        let size = self.partial.size();
        let (start, whole, expected) = if reply.status == StatusCode::PARTIAL_CONTENT {
            let found = reply.content_range().ok_or_else(|| reply.error("a part has no Content-Range"))?;
            (found.0, found.1, range.unwrap_or_default().start)
        } else {
            (0, reply.len().unwrap_or(size), 0)
        };
        if (start, whole) != (expected, size) {
            let what = format!(
                "it sends a file of {whole} bytes from byte {start}, not of {size} from byte {expected}"
            );
            return Err(reply.error(what));
        }
        Ok(reply)
    }

    fn missing(&self, chunks: &Range<u64>) -> Range<u64> {
        self.partial.missing(chunks.start).start..self.partial.chunk_bytes(chunks.end.saturating_sub(1)).end
    }

    /// Uses several connections, the first of which has a reply.
    fn in_parts(&self, first: Range<u64>, reply: Reply) -> Result<(), Error> {
        thread::scope(|scope| {
            for _ in 1..CONNECTIONS {
                scope.spawn(|| self.work(None));
            }
            self.work(Some((first, reply)));
        });
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Requests chunks until there are none, or a connection has failed too often.
    fn work(&self, mut begun: Option<(Range<u64>, Reply)>) {
        let mut failures = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let (mut chunks, reply) = match begun.take() {
                Some((chunks, reply)) => (chunks, Some(reply)),
                None => match self.partial.take(CHUNKS_PER_REQUEST) {
                    Some(chunks) => (chunks, None),
                    None => return,
                },
            };
            let start = self.missing(&chunks).start;
            let reply = reply.map_or_else(|| self.request(Some(&chunks)), Ok);
            let Err(error) = reply.and_then(|reply| self.receive(&mut chunks, reply)) else {
                failures = 0;
                continue;
            };
            // What has come is no reason to give up.
            let has_advanced = chunks.is_empty() || self.missing(&chunks).start > start;
            self.partial.give_back(chunks);
            failures = if has_advanced { 1 } else { failures + 1 };
            if let Err(error) = self.recover(error, failures) {
                self.is_over.store(true, Ordering::Relaxed);
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                return;
            }
        }
    }

    /// Waits after a failure, or returns it if there is no hope.
    fn recover(&self, error: Error, failures: u32) -> Result<(), Error> {
        let http = self.task.http;
        let wait = match error {
            // The address may have expired.
            Error::Forbidden { .. } | Error::NotFound { .. } if failures < http.patience.attempts => {
                let uri = (self.task.locate)()?;
                *self.uri.lock().unwrap_or_else(PoisonError::into_inner) = uri;
                http.patience.first_wait.saturating_mul(failures - 1)
            }
            // It was known a moment ago.
            Error::UnknownHost { .. } if failures < http.patience.attempts => {
                http.patience.first_wait.saturating_mul(failures)
            }
            error => {
                let Some(wait) = http.wait(&error, failures) else { return Err(error) };
                (self.watch)(Event::Retrying { error: &error, wait });
                wait
            }
        };
        let end = Instant::now() + wait;
        while Instant::now() < end && !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50).min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Writes a reply; `chunks` shrinks to those that are missing.
    fn receive(&self, chunks: &mut Range<u64>, reply: Reply) -> Result<(), Error> {
        if reply.status != StatusCode::PARTIAL_CONTENT {
            return Err(reply.error("it has ranges for some requests and not for others"));
        }
        let (mut body, mut buffer) = (reply.into_body(), vec![0; BUFFER]);
        while !chunks.is_empty() && !self.is_over.load(Ordering::Relaxed) {
            self.receive_chunk(chunks.start, &mut body, &mut buffer)?;
            chunks.start += 1;
        }
        Ok(())
    }

    /// Writes what is missing of a chunk, and records it every now and then and at the end, also if that is early.
    fn receive_chunk(&self, chunk: u64, body: &mut Body, buffer: &mut [u8]) -> Result<(), Error> {
        let Range { start, end } = self.partial.missing(chunk);
        let (mut at, mut recorded) = (start, start);
        while at < end && !self.is_over.load(Ordering::Relaxed) {
            let most = buffer.len().min((end - at) as usize);
            let read = match body.read_some(&mut buffer[..most]) {
                Ok(read) => read as u64,
                Err(error) => {
                    self.partial.record(chunk, at)?;
                    return Err(error);
                }
            };
            self.partial.write(at, &buffer[..read as usize])?;
            at += read;
            self.advance(read);
            if at - recorded >= STEP {
                self.partial.record(chunk, at)?;
                recorded = at;
            }
        }
        self.partial.record(chunk, at)
    }

    /// Uses one connection for a server without ranges, from the beginning after each failure.
    fn as_a_whole(&self, reply: Reply) -> Result<(), Error> {
        let (mut reply, mut failures) = (Some(reply), 0);
        loop {
            self.partial.forget();
            self.done.store(0, Ordering::Relaxed);
            let received = reply.take().map_or_else(|| self.request(None), Ok);
            let received = received.and_then(|reply| self.receive_whole(reply));
            let Err(error) = received else { return Ok(()) };
            failures += 1;
            self.recover(error, failures)?;
        }
    }

    fn receive_whole(&self, reply: Reply) -> Result<(), Error> {
        let (mut body, mut buffer) = (reply.into_body(), vec![0; BUFFER]);
        for chunk in 0..self.partial.size().div_ceil(CHUNK) {
            self.receive_chunk(chunk, &mut body, &mut buffer)?;
        }
        body.finish()
    }

    fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.watch)(Event::Received { done, total: self.partial.size() });
    }
}

fn sha256(path: &Path, watch: Watch<'_>) -> Result<Sha256, Error> {
    let fail = |error| Error::cache("read", path)(error);
    let mut file = File::open(path).map_err(fail)?;
    let total = file.metadata().map_err(fail)?.len();
    let (mut hash, mut buffer, mut done) = (sha2::Sha256::new(), vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut buffer).map_err(fail)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        done += read as u64;
        watch(Event::Checked { done, total });
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Sha256::from_hex(&hex).ok_or_else(|| fail(std::io::ErrorKind::InvalidData.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is that of `sha256sum`.
    #[test]
    fn files_are_hashed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "abc").expect("written");
        let hash = sha256(file.path(), &|_| {}).expect("a hash");
        assert_eq!(hash.as_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
