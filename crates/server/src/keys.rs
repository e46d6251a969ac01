//! API keys.

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Hashes of the keys that may use the server. The keys themselves are not kept.
#[derive(Clone, Default)]
pub struct Keys(Vec<[u8; 32]>);

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum KeysError {
    #[error("cannot read the keys in {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} has no keys; write one per line, such as the output of `openssl rand -hex 32`")]
    Empty { path: String },
}

impl Keys {
    /// These keys.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Keys {
        Keys(keys.into_iter().map(|key| Sha256::digest(key).into()).collect())
    }

    /// The keys in a file, one per line; empty lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// If the file cannot be read, or has no keys.
    pub fn read(path: &Path) -> Result<Keys, KeysError> {
        let path_text = || path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| KeysError::Read { path: path_text(), source })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys = Keys::new(lines);
        if keys.is_empty() { Err(KeysError::Empty { path: path_text() }) } else { Ok(keys) }
    }

    /// Whether everybody may use the server.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of `key`. Takes as long for any key.
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        let hash: [u8; 32] = Sha256::digest(key).into();
        let (mut found, mut number) = (Choice::from(0), 0u32);
        for (index, own) in (0u32..).zip(&self.0) {
            let is_own = own.ct_eq(&hash);
            number.conditional_assign(&index, is_own);
            found |= is_own;
        }
        bool::from(found).then_some(number)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}
