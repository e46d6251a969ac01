//! Why the tokenizer of a checkpoint cannot be converted.

use std::path::{Path, PathBuf};

use gguf::quoted;

/// Why the tokenizer of a checkpoint cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} has more than {most} bytes, which no tokenizer needs; the file is damaged", path.display())]
    TooLarge { path: PathBuf, most: u64 },
    #[error("{}: {why}", path.display())]
    Pointer { path: PathBuf, why: &'static str },
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{}: {place} is {found}, expected {expected}", path.display())]
    Invalid { path: PathBuf, place: String, found: String, expected: String },
    #[error("{}: {source}", path.display())]
    Library { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{} has no tokenizer: expected {expected}; download all files of the repository", folder.display())]
    Missing { folder: PathBuf, expected: &'static str },
    #[error("{}: {what}", path.display())]
    Unsupported { path: PathBuf, what: String },
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

/// [`Error::Invalid`].
pub(super) fn invalid(
    path: &Path,
    place: impl ToString,
    found: impl ToString,
    expected: impl ToString,
) -> Error {
    let (place, found, expected) = (place.to_string(), found.to_string(), expected.to_string());
    Error::Invalid { path: path.to_owned(), place, found, expected }
}
