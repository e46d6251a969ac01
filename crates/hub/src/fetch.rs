//! One file from its first byte to its place: transfer, check, rename.

use std::path::PathBuf;

use ureq::http::Uri;

use crate::chunks::Partial;
use crate::download::{self, Source};
use crate::name::Sha256;
use crate::{Error, Event, Watch};

/// A file to put at `target` under the protection of `lock`.
pub(crate) struct Task<'a> {
    pub(crate) source: Source<'a>,
    /// For messages.
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
        let filled = download::fill(&task.source, at.clone(), &partial, watch);
        if let Err(Error::Range { .. } | Error::Protocol { .. }) = &filled {
            // Another file is there now: what has come is worth nothing.
            partial.discard()?;
            filled?;
            continue;
        }
        filled?;
        let expected = task.sha256.as_ref();
        let found = expected.map(|_| download::sha256(partial.path(), watch)).transpose()?;
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
