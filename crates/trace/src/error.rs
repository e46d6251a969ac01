//! What can go wrong with a trace.

use std::io;
use std::path::{Path, PathBuf};

/// An error of recording or reading a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A file that is no trace, or a damaged one.
    #[error("{}: not a trace that can be read: {why}; record it again", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        why: String,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Output(#[from] outfile::Error),
    /// A value or rows of it that the trace does not hold.
    #[error("{}: value `{name}` {why}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The value asked for.
        name: String,
        /// What is not there.
        why: String,
    },
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
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        Error::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn format(path: &Path, why: impl Into<String>) -> Error {
        Error::Format { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn value(path: &Path, name: &str, why: impl Into<String>) -> Error {
        Error::Value { path: path.to_owned(), name: name.to_owned(), why: why.into() }
    }
}
