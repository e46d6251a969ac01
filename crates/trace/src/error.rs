//! Errors of recording, reading and comparing traces.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// A file cannot be read or written: what was tried.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    /// A file that is no trace, or a damaged one: what was found and expected.
    #[error("{}: not a trace that can be read: {why}; record it again", path.display())]
    Format { path: PathBuf, why: String },
    /// A trace cannot be written.
    #[error(transparent)]
    Output(#[from] outfile::Error),
    /// A value of a trace, by name, that does not exist or has another shape.
    #[error("{}: value `{name}` {why}", path.display())]
    Value { path: PathBuf, name: String, why: String },
    /// An operation cannot be replayed without this value.
    #[error("its input `{0}` was not recorded")]
    NotRecorded(String),
    /// Traces that cannot be compared.
    #[error("the traces cannot be compared: {0}")]
    Compare(String),
    /// There is nothing to run.
    #[error("there are no tokens to run; give at least one")]
    NoTokens,
    /// There is nothing to record.
    #[error("no value of the model is selected; record without a selection to see their names")]
    NothingSelected,
    /// The backend cannot compute the model or the tokens.
    #[error(transparent)]
    Backend(#[from] backend::Error),
    /// The model's file was truncated while it was used.
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
