//! A read-only file mapping that can survive truncation of the file.
//!
//! Reading a mapped page beyond the end of a truncated file raises SIGBUS, which kills the process by default. On Unix
//! the handler in [`guard`], if installed, maps a zero page in its place and marks the mapping as lost.
#![expect(unsafe_code, reason = "mapping files and handling the signal that a truncated one raises")]

#[cfg(unix)]
mod guard;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use memmap2::Mmap;

/// Installs a SIGBUS handler, once per process, so that it survives the truncation of a mapped model file: lost pages read as
/// zeros, and [`Gguf::check_intact`](crate::Gguf::check_intact) reports the loss. At an unrelated SIGBUS the previous handler takes
/// its place again. Signal handlers belong to the program: libraries should not call this. Does nothing on systems where a mapped
/// file cannot shrink.
pub fn survive_truncation() -> io::Result<()> {
    #[cfg(unix)]
    guard::install()?;
    Ok(())
}

/// Length and modification time of a file, which change when it is written. `None` on systems without such times.
type Stamp = (u64, Option<SystemTime>);

fn stamp(file: &File) -> io::Result<Stamp> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified().ok()))
}

#[derive(Debug)]
pub(crate) struct Map {
    // Dropped before the mapping it guards: a new mapping may reuse the addresses at once.
    #[cfg(unix)]
    guard: guard::Guard,
    map: Mmap,
    file: File,
    stamp: Stamp,
}

impl Map {
    pub(crate) fn open(path: &Path) -> io::Result<Map> {
        let file = File::open(path)?;
        let stamp = stamp(&file)?;
        // SAFETY: bytes are only read as plain data, and text is copied out of the mapping before validation, so
        // concurrent writes change values but break no invariant of safe code. Reading a lost page runs nothing but the
        // SIGBUS handler.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Map {
            #[cfg(unix)]
            guard: guard::Guard::new(map.as_ptr().addr(), map.len())?,
            map,
            file,
            stamp,
        })
    }

    pub(crate) fn len_now(&self) -> io::Result<(u64, bool)> {
        let now = stamp(&self.file)?;
        Ok((now.0, now == self.stamp))
    }

    /// Returns the pages of `range` to the system, where supported.
    pub(crate) fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        {
            let len = range.end.min(self.map.len()).saturating_sub(range.start);
            let drop = memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the mapping is read-only, so dropped pages are read from the file again.
            let _ = unsafe { self.map.unchecked_advise_range(drop, range.start, len) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(unix)]
        return self.guard.is_lost();
        #[cfg(not(unix))]
        return false;
    }
}

/// Keeps the mapping alive for [`bytes::Bytes`].
pub(crate) struct Owner(pub(crate) Arc<Map>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}
