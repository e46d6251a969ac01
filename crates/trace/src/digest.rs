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
    Ok(Some(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
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
