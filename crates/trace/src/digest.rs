//! A model's identity, cheap to compute and the same in every language.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use gguf::Gguf;
use sha2::{Digest, Sha256};

use crate::Error;

/// Bytes of a file's begin that count: the metadata and tensor table of every model there is.
const HEAD: u64 = 16 << 20;

/// Bytes of a file's end that count: weights.
const TAIL: u64 = 1 << 20;

/// SHA-256 in hexadecimal of, for each of the model's files in order: its length in decimal and a
/// newline, its first 16 MiB, its last 1 MiB (all of it when it is shorter). Two files that differ only
/// in between are taken for the same. `None` for a model that is in memory and no file.
///
/// # Errors
/// When a file cannot be read.
pub fn digest(model: &Gguf) -> Result<Option<String>, Error> {
    let mut hash = Sha256::new();
    for (path, _) in model.files() {
        let path = Path::new(path);
        if !path.exists() {
            return Ok(None);
        }
        add(&mut hash, path).map_err(|error| Error::io(path, "read it", error))?;
    }
    Ok(Some(hex(hash)))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn add(hash: &mut Sha256, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    hash.update(format!("{len}\n"));
    io::copy(&mut file.by_ref().take(HEAD), hash)?;
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
    io::copy(&mut file.take(TAIL), hash)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The expected digest is that of `digest` in tools/oracle/trace_file.py for a file of 20 MiB that
    /// is zero but for the bytes below.
    #[test]
    fn the_begin_and_the_end_of_a_large_file_count() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(20 << 20).expect("room");
        let mut digest_with = |at: u64, byte: u8| {
            file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&[byte])).expect("written");
            let mut hash = Sha256::new();
            add(&mut hash, file.path()).expect("read");
            hex(hash)
        };
        for (at, byte) in [(0, 1), ((16 << 20) - 1, 2), (19 << 20, 3)] {
            digest_with(at, byte);
        }
        let expected = "22d4efaa205e8ff32bbbb6f7b727c1d9e13db1e165d969ae4e01f93325e4a3ab";
        assert_eq!(digest_with((20 << 20) - 1, 4), expected);
        assert_eq!(digest_with(17 << 20, 9), expected, "what lies between does not");
        assert_ne!(digest_with(19 << 20, 9), expected);
    }
}
