//! A read-only mapping of a file that survives the file's truncation.
//!
//! Reading a page that a mapped file no longer has raises SIGBUS, which would kill the process. On
//! Unix a [`guard`] puts zeroes in place of such a page and notes that the mapping is lost.
#![expect(unsafe_code, reason = "mapping files and handling the signal that a truncated one raises")]

#[cfg(unix)]
mod guard;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map {
    // Dropped before the mapping it guards: another mapping may take the addresses at once.
    #[cfg(unix)]
    guard: guard::Guard,
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
        // SAFETY: the bytes are read as plain numbers, and text is copied out of the mapping before it is
        // checked, so if another program writes to the file the numbers change but nothing that safe
        // code relies on; a file that shrinks is the guard's business.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Some(Map {
            #[cfg(unix)]
            guard: guard::Guard::new(map.as_ptr().addr(), map.len())?,
            map,
            file,
        }))
    }

    /// The file's length now.
    pub(crate) fn len_on_disk(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Gives the pages of `range` back to the system; one that has no word for it keeps them.
    pub(crate) fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        {
            let len = range.end.min(self.map.len()).saturating_sub(range.start);
            let drop = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: pages of a file that nobody writes to through this mapping come back as they were.
            let _ = unsafe { self.map.unchecked_advise_range(drop, range.start, len) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// Whether a part of the mapping was replaced by zeroes.
    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(unix)]
        return self.guard.is_lost();
        #[cfg(not(unix))]
        return false;
    }
}

/// What [`bytes::Bytes`] holds on to.
pub(crate) struct Owner(pub(crate) Arc<Map>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}
