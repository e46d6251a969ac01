//! Who calls: the key, and what follows from it.

use std::sync::Arc;

use crate::keys::KeyHash;
use crate::quota::Meter;

/// The client of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Its key; none on a server for everybody.
    key: Option<Key>,
}

/// The key of a client.
#[derive(Clone, Debug)]
struct Key {
    hash: KeyHash,
    meter: Arc<Meter>,
}

impl Client {
    pub(crate) fn with_key(hash: KeyHash, meter: Arc<Meter>) -> Client {
        Client { key: Some(Key { hash, meter }) }
    }

    /// For the engine's queue.
    pub(crate) fn number(&self) -> u64 {
        let first = |key: &Key| key.hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.key.as_ref().map_or(0, first)
    }

    /// For the prefix cache: no client finds what another has cached. A salt of its own narrows it further.
    pub(crate) fn salt(&self, own: Option<&str>) -> Vec<u8> {
        let mut salt = self.key.as_ref().map_or([0; 32], |key| key.hash).to_vec();
        salt.extend_from_slice(own.unwrap_or_default().as_bytes());
        salt
    }

    /// Measures what it uses.
    pub(crate) fn meter(&self) -> Option<&Arc<Meter>> {
        self.key.as_ref().map(|key| &key.meter)
    }
}
