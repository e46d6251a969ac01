//! A name for the content of a model's file.

use std::sync::OnceLock;

use engine::gguf::Gguf;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file's header, that is its metadata and its list of tensors: the whole file takes too long.
#[derive(Debug, Default)]
pub(super) struct Digest(OnceLock<String>);

impl Digest {
    /// The digest of `file`, which must be the same each time.
    pub(super) fn of(&self, file: &Gguf) -> &str {
        self.0.get_or_init(|| format!("{:x}", Sha256::digest(header(file))))
    }
}

/// The bytes of a file (of its first part) before its tensors.
fn header(file: &Gguf) -> &[u8] {
    let bytes = file.contents().next().unwrap_or_default();
    let begin = bytes.as_ptr().addr();
    let places = file.tensors().filter_map(|tensor| tensor.data.as_ptr().addr().checked_sub(begin));
    places.min().and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}
