//! Blocks of the cache, to move sequences from one backend to another.

use crate::{Error, LoadedModel};

/// A block of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the docs of the variants explain the fields")]
pub enum CacheBlock {
    /// Keys and values of [`PAGE`](crate::PAGE) positions in all stores of a group.
    Kv { group: usize, block: u32 },
    /// The states of all recurrent operations after one position.
    State { slot: u32 },
}

impl dyn LoadedModel + '_ {
    /// The bytes of a block of the cache, in an order of the backend's own.
    ///
    /// # Errors
    /// As [`LoadedModel::with_block`].
    pub fn read_block(&mut self, block: CacheBlock) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.with_block(block, &mut |parts| bytes = parts.concat())?;
        Ok(bytes)
    }

    /// Overwrites a block of the cache with the bytes of one of the same model and type of cache.
    ///
    /// # Errors
    /// As [`LoadedModel::with_block`], or if there are more bytes or fewer.
    pub fn write_block(&mut self, block: CacheBlock, mut bytes: &[u8]) -> Result<(), Error> {
        let (found, mut expected) = (bytes.len(), 0);
        self.with_block(block, &mut |parts| {
            expected = parts.iter().map(|part| part.len()).sum();
            for part in parts.into_iter().filter(|_| found == expected) {
                part.copy_from_slice(bytes.split_off(..part.len()).unwrap_or_default());
            }
        })?;
        if found == expected { Ok(()) } else { Err(Error::CacheBytes { block, found, expected }) }
    }
}
