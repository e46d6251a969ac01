//! Why a checkpoint cannot be converted.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use gguf::quoted;
use serde::de::DeserializeOwned;

use crate::json;

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
    #[error(
        "{}: the pre-tokenizer is unknown: {found} (SHA-256 of the test text {hash}); if it is one of {}, set it with \
         `--pre-tokenizer NAME`",
        path.display(),
        tokenizer::pre_tokenizers().join(", ")
    )]
    PreTokenizer { path: PathBuf, found: String, hash: String },
    #[error(
        "pre-tokenizer {} is unknown, expected one of {}",
        quoted(name),
        tokenizer::pre_tokenizers().join(", ")
    )]
    PreTokenizerName { name: String },
}

impl Error {
    pub(crate) fn invalid(path: impl Into<PathBuf>, why: impl Into<String>) -> Error {
        Error::Invalid { path: path.into(), why: why.into() }
    }

    pub(crate) fn tensor(name: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Tensor { name: name.into(), why: why.into() }
    }
}

pub(crate) fn invalid(
    path: &Path,
    place: impl Display,
    found: impl Display,
    expected: impl Display,
) -> Error {
    Error::invalid(path, format!("{place} is {found}, expected {expected}"))
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    json::read(&text).map_err(|why| Error::invalid(path, format!("this is no valid JSON: {why}")))
}

/// Advice if `bytes` are a pointer of git-lfs, which `git clone` leaves where a large file belongs
/// (<https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>).
pub(crate) fn lfs_pointer(bytes: &[u8]) -> Option<&'static str> {
    let advice = "this is a pointer of git-lfs, not the file; `git lfs pull` in its folder gets the file";
    bytes.starts_with(b"version https://git-lfs").then_some(advice)
}
