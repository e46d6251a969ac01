//! Why the tokenizer of a checkpoint cannot be converted.

use std::path::{Path, PathBuf};

/// Why the tokenizer of a checkpoint cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file is larger than those of real tokenizers.
    #[error("{} has more than {most} bytes, which no tokenizer needs; the file is damaged", path.display())]
    TooLarge { path: PathBuf, most: u64 },
    /// A file is not there, only what git-lfs leaves in its place.
    #[error("{}: {why}", path.display())]
    Pointer { path: PathBuf, why: &'static str },
    /// A file is not JSON, or not the JSON that it should be; the source names line and column.
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    /// A value in a file is not what it should be.
    #[error("{}: {place} is {found}, expected {expected}", path.display())]
    Invalid { path: PathBuf, place: String, found: String, expected: String },
    /// The library `tokenizers` refuses `tokenizer.json`.
    #[error("{}: {source}", path.display())]
    Library { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// The folder lacks the files of the tokenizer.
    #[error("{} has no tokenizer: expected {expected}; download all files of the repository", folder.display())]
    Missing { folder: PathBuf, expected: &'static str },
    /// A kind of tokenizer that GGUF files, or this program, cannot express.
    #[error("{}: {what}", path.display())]
    Unsupported { path: PathBuf, what: String },
    /// The way of splitting text before merging is not one of llama.cpp's.
    #[error(
        "{}: the pre-tokenizer is unknown: {found} (SHA-256 of the test text {hash}); if it is one of {}, set it with \
         `--pre-tokenizer NAME`",
        path.display(),
        tokenizer::pre_tokenizers().join(", ")
    )]
    PreTokenizer { path: PathBuf, found: String, hash: String },
    /// `--pre-tokenizer` names none.
    #[error(
        "pre-tokenizer {} is unknown, expected one of {}",
        gguf::quoted(name),
        tokenizer::pre_tokenizers().join(", ")
    )]
    PreTokenizerName { name: String },
}

/// [`Error::Invalid`].
pub(super) fn invalid(
    path: &Path,
    place: &str,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Error {
    Error::Invalid {
        path: path.to_owned(),
        place: place.to_owned(),
        found: found.into(),
        expected: expected.into(),
    }
}
