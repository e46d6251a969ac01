//! A model's identity, cheap to compute.

use gguf::Gguf;
use sha2::{Digest, Sha256};

/// Bytes hashed at the start of a file: the metadata and tensor list of any real model.
const HEAD: usize = 16 << 20;

/// Bytes hashed at the end of a file: weights.
const TAIL: usize = 1 << 20;

/// SHA-256 in hexadecimal of, for each of the model's files in order, its length in decimal, a newline, its first 16 MiB
/// and its last 1 MiB (at most the file). Files that differ only between these have the same digest.
pub fn digest(model: &Gguf) -> String {
    digest_of(model.contents())
}

fn digest_of<'a>(files: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\n", file.len()));
        hash.update(&file[..file.len().min(HEAD)]);
        hash.update(&file[file.len().saturating_sub(TAIL)..]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected digest is that of `digest` in tools/oracle/trace_file.py for a file of 20 MiB that
    /// is zero but for the bytes below.
    #[test]
    fn the_begin_and_the_end_of_a_large_file_count() {
        let mut file = vec![0; 20 << 20];
        let mut digest_with = |at: usize, byte: u8| {
            file[at] = byte;
            digest_of([&*file].into_iter())
        };
        for (at, byte) in [(0, 1), ((16 << 20) - 1, 2), (19 << 20, 3)] {
            digest_with(at, byte);
        }
        let expected = "22d4efaa205e8ff32bbbb6f7b727c1d9e13db1e165d969ae4e01f93325e4a3ab";
        assert_eq!(digest_with((20 << 20) - 1, 4), expected);
        assert_eq!(digest_with(17 << 20, 9), expected, "bytes between do not count");
        assert_ne!(digest_with(19 << 20, 9), expected);
    }
}
