//! Why a checkpoint cannot be converted.

use std::path::PathBuf;

use gguf::quoted;

/// Why a checkpoint cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// A file of the checkpoint cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file of the checkpoint is not what it should be.
    #[error("{}: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    /// A shard cannot be mapped, or changed while it was read.
    #[error(transparent)]
    Shard(#[from] gguf::Error),
    /// A tensor of the checkpoint does not fit the configuration.
    #[error("tensor {}: {why}", quoted(name))]
    Tensor { name: String, why: String },
    /// The file cannot be written.
    #[error("cannot write the file")]
    Write(#[from] gguf::WriteError),
    /// The tokenizer cannot be converted.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::Error),
}

impl Error {
    pub(crate) fn invalid(path: impl Into<PathBuf>, why: impl Into<String>) -> Error {
        Error::Invalid { path: path.into(), why: why.into() }
    }

    pub(crate) fn tensor(name: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Tensor { name: name.into(), why: why.into() }
    }
}
