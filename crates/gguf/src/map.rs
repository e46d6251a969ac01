//! A read-only mapping of a file that survives the file's truncation.
#![expect(unsafe_code, reason = "mapping files and handling the signal that a truncated one raises")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map {
    map: Mmap,
    file: File,
}

impl Map {
    /// Maps the file at `path`; `None` when it is not a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Map>> {
        // Opening a pipe would wait for its other end, so look first.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = File::open(path)?;
        // SAFETY: the bytes are only read, as plain numbers whose every value is checked or meaningless
        // anyway, so a concurrent change of the file yields other numbers and not undefined behaviour
        // in safe code that relies on them; truncation is survived by the guard.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Some(Map { map, file }))
    }

    /// The file's length now.
    pub(crate) fn len_on_disk(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether a part of the mapping was replaced by zeroes.
    pub(crate) fn is_lost(&self) -> bool {
        false
    }
}

/// What [`bytes::Bytes`] holds on to.
pub(crate) struct Owner(pub(crate) Arc<Map>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}
