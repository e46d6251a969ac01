//! Why a checkpoint cannot be converted.

use std::path::PathBuf;

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
    /// The tokenizer cannot be converted.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::Error),
}
