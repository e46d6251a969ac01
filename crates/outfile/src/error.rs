//! Errors.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Something else has the name.
    #[error("{}: is there and is no {what}; it is not replaced: remove it, or name another file", path.display())]
    Occupied { path: PathBuf, what: &'static str },
    /// The file to be replaced is write-protected.
    #[error("{}: is read-only; it is not replaced: make it writable, or name another file", path.display())]
    ReadOnly { path: PathBuf },
    /// The system refuses.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
}

impl Error {
    pub(crate) fn io<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
        move |source| Error::Io { path: path.to_owned(), action, source }
    }
}
