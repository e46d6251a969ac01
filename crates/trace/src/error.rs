//! Errors of recording, reading and comparing traces.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    #[error("{}: not a trace that can be read: {why}; record it again", path.display())]
    Format { path: PathBuf, why: String },
    #[error(transparent)]
    Output(#[from] gguf::output::Error),
    #[error("{}: value `{name}` {why}", path.display())]
    Value { path: PathBuf, name: String, why: String },
    #[error("its input `{0}` was not recorded")]
    NotRecorded(String),
    #[error("the traces cannot be compared: {0}")]
    Compare(String),
    #[error("there are no tokens to run; give at least one")]
    NoTokens,
    #[error("no value of the model is selected; record without a selection to see their names")]
    NothingSelected,
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(transparent)]
    File(#[from] gguf::Error),
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { path, action, source }
    }

    pub(crate) fn format(path: &Path, why: impl Into<String>) -> Error {
        Error::Format { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn value(path: &Path, name: &str, why: impl Into<String>) -> Error {
        Error::Value { path: path.to_owned(), name: name.to_owned(), why: why.into() }
    }
}
