//! API keys, and the clients that have them.

use std::fmt;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::quota::{Meter, Quota};

pub(crate) type KeyHash = [u8; 32];

/// Hashes of the keys that may use the server, and their quotas. The keys themselves are not kept.
#[derive(Clone, Default)]
pub struct Keys(Vec<(KeyHash, Quota)>);

/// Why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum KeysError {
    #[error("cannot read the keys in {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{path} has no keys; write one per line, such as the output of `openssl rand -hex 32`")]
    Empty { path: String },
    #[error(
        "{path}, line {line}: {found:?} is no quota; expected requests=N, tokens=N (both per minute) or concurrency=N after the key, and N above 0"
    )]
    Quota { path: String, line: usize, found: String },
}

impl Keys {
    /// These keys, without quotas.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Keys {
        Keys(keys.into_iter().map(|key| (Sha256::digest(key).into(), Quota::default())).collect())
    }

    /// The keys in a file, one per line; empty lines and those that begin with `#` are skipped. After a key, its quota may
    /// follow: `requests=60 tokens=100000 concurrency=4`, the first two per minute.
    ///
    /// # Errors
    /// If the file cannot be read, or has no keys or a wrong quota.
    pub fn read(path: &Path) -> Result<Keys, KeysError> {
        let path_text = || path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| KeysError::Read { path: path_text(), source })?;
        let mut keys = Vec::new();
        for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            let mut words = text.split_whitespace();
            let Some(key) = words.next().filter(|key| !key.starts_with('#')) else { continue };
            let mut quota = Quota::default();
            for word in words {
                let wrong = || KeysError::Quota { path: path_text(), line, found: word.to_owned() };
                quota = with(quota, word).ok_or_else(wrong)?;
            }
            keys.push((Sha256::digest(key).into(), quota));
        }
        if keys.is_empty() { Err(KeysError::Empty { path: path_text() }) } else { Ok(Keys(keys)) }
    }

    /// Whether everybody may use the server.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hash of `key` and its quota, if it is one of these. This takes the same time for any key.
    pub(crate) fn find(&self, key: &str) -> Option<(KeyHash, Quota)> {
        let hash: KeyHash = Sha256::digest(key).into();
        let (mut found, mut number) = (Choice::from(0), 0u32);
        for (index, (own, _)) in (0u32..).zip(&self.0) {
            let is_own = own.ct_eq(&hash);
            number.conditional_assign(&index, is_own);
            found |= is_own;
        }
        if bool::from(found) { self.0.get(number as usize).copied() } else { None }
    }
}

/// `quota` with one more limit, such as `tokens=100000`.
fn with(quota: Quota, limit: &str) -> Option<Quota> {
    let (name, number) = limit.split_once('=')?;
    let number: NonZero<u32> = number.parse().ok()?;
    let limit = Some(number.get());
    Some(match name {
        "requests" => Quota { requests: limit, ..quota },
        "tokens" => Quota { tokens: limit, ..quota },
        "concurrency" => Quota { concurrency: limit.map(|limit| limit as usize), ..quota },
        _ => return None,
    })
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// The client of a request: the hash of its key, and the meter of its usage. On a server without keys, the hash is zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    pub(crate) key: KeyHash,
    pub(crate) meter: Option<Arc<Meter>>,
}

impl Client {
    /// For the engine's queue.
    pub(crate) fn number(&self) -> u64 {
        self.key.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// For the prefix cache: no client finds what another has cached. A salt of its own narrows it further.
    pub(crate) fn salt(&self, own: &[u8]) -> Vec<u8> {
        [&self.key, own].concat()
    }
}
