//! Names of what a backend keeps of sequences.

/// A block of the cache, to move sequences from one backend to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the docs of the variants explain the fields")]
pub enum CacheBlock {
    /// Keys and values of [`KV_BLOCK`](crate::KV_BLOCK) positions in all stores of a group.
    Kv { group: usize, block: u32 },
    /// The states of all recurrent operations after one position.
    State { slot: u32 },
}
