//! Why a checkpoint cannot be converted.

use std::path::PathBuf;

use gguf::quoted;

/// Why a checkpoint cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
    #[error(transparent)]
    Shard(#[from] gguf::Error),
    #[error("tensor {}: {why}", quoted(name))]
    Tensor { name: String, why: String },
    #[error("cannot write the file")]
    Write(#[from] gguf::WriteError),
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

/// Advice if `bytes` are a pointer of git-lfs, which `git clone` leaves where a large file belongs
/// (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>).
pub(crate) fn lfs_pointer(bytes: &[u8]) -> Option<&'static str> {
    let is_pointer = bytes.starts_with(b"version https://git-lfs");
    is_pointer
        .then_some("this is a pointer of git-lfs, not the file; `git lfs pull` in its folder gets the file")
}
