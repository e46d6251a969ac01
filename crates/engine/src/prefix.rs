//! Keys of prefixes: what the KV cache is found by.

use std::hash::Hasher;

use backend::KV_BLOCK;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The key of a prefix: a keyed hash of a salt and of all tokens of the prefix. Only the holder of the hash key can make two
/// prefixes with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Prefix(u128);

/// Keys of the prefixes of one request, chained by block: the key after a block follows from the key before it and from the
/// tokens of the block.
#[derive(Clone, Debug)]
pub(crate) struct Prefixes {
    hash_key: [u8; 16],
    /// Keys after 0, 1, 2, … full blocks.
    keys: Vec<Prefix>,
}

impl Prefixes {
    /// Keys for a request with this salt and adapter. Requests of which one differs never share a prefix.
    pub(crate) fn new(hash_key: [u8; 16], salt: &[u8], adapter: Option<u64>) -> Prefixes {
        let mut hasher = SipHasher24::new_with_key(&hash_key);
        hasher.write(&(salt.len() as u64).to_le_bytes());
        hasher.write(salt);
        adapter.iter().for_each(|adapter| hasher.write(&adapter.to_le_bytes()));
        Prefixes { hash_key, keys: vec![Prefix(hasher.finish128().as_u128())] }
    }

    /// Adds the keys of the full blocks of `tokens`, which begin with the tokens of earlier calls.
    pub(crate) fn extend(&mut self, tokens: &[u32]) {
        for block in tokens.chunks_exact(KV_BLOCK).skip(self.keys.len() - 1) {
            self.keys.push(self.after(self.keys[self.keys.len() - 1], block));
        }
    }

    /// The key of the first `blocks` blocks, which [`Prefixes::extend`] has seen.
    pub(crate) fn after_blocks(&self, blocks: usize) -> Prefix {
        self.keys[blocks]
    }

    /// The key of the first `position` tokens; full blocks among them are those that [`Prefixes::extend`] has seen.
    pub(crate) fn at(&self, tokens: &[u32], position: usize) -> Prefix {
        let blocks = position / KV_BLOCK;
        let before = self.after_blocks(blocks);
        if position.is_multiple_of(KV_BLOCK) {
            before
        } else {
            self.after(before, &tokens[blocks * KV_BLOCK..position])
        }
    }

    fn after(&self, before: Prefix, tokens: &[u32]) -> Prefix {
        let mut hasher = SipHasher24::new_with_key(&self.hash_key);
        hasher.write(&before.0.to_le_bytes());
        tokens.iter().for_each(|token| hasher.write(&token.to_le_bytes()));
        Prefix(hasher.finish128().as_u128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(salt: &[u8], adapter: Option<u64>, tokens: &[u32]) -> Prefixes {
        let mut prefixes = Prefixes::new([7; 16], salt, adapter);
        prefixes.extend(tokens);
        prefixes
    }

    /// Computed by another implementation of SipHash-2-4 of 128 bits: of the salt's length, the salt and the adapter; then, block by
    /// block, of the key before and the tokens.
    #[test]
    fn keys_are_the_same_in_every_process() {
        let tokens: Vec<u32> = (0..33).collect();
        let key = |adapter| prefixes(b"a", adapter, &tokens).at(&tokens, 33);
        assert_eq!(key(None), Prefix(0xf2c51dfda6d076a66cb8bafb25cdf20a));
        assert_eq!(key(Some(5)), Prefix(0x431b72ac2287ea7849897d2e53e661de));
    }

    #[test]
    fn a_key_depends_on_salt_adapter_and_every_token() {
        let tokens: Vec<u32> = (0..100).collect();
        let own = prefixes(b"a", None, &tokens);
        let mut keys: Vec<Prefix> = (0..=100).map(|position| own.at(&tokens, position)).collect();
        let zeros: &[u8] = &[b'a', 0, 0, 0, 0, 0, 0, 0, 0];
        for (salt, adapter) in
            [(&b"b"[..], None), (b"a", Some(0)), (b"a", Some(1)), (b"b", Some(1)), (zeros, None)]
        {
            let other = prefixes(salt, adapter, &tokens);
            keys.extend((0..=100).map(|position| other.at(&tokens, position)));
        }
        for changed in [0, 31, 32, 99] {
            let mut tokens = tokens.clone();
            tokens[changed] = 1000;
            keys.push(prefixes(b"a", None, &tokens).at(&tokens, 100));
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert_eq!(
            prefixes(b"a", None, &tokens[..50]).at(&tokens, 50),
            own.at(&tokens, 50),
            "however much follows"
        );
    }
}
