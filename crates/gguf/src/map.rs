//! A read-only mapping of a file, which can survive the file's truncation.
//!
//! Reading a page that a mapped file no longer has raises SIGBUS, which kills the process. On Unix the
//! handler of [`guard`], once a program has installed it, puts zeroes in place of such a page and notes
//! that the mapping is lost.
#![expect(unsafe_code, reason = "mapping files and handling the signal that a truncated one raises")]

#[cfg(unix)]
mod guard;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use memmap2::Mmap;

/// Has this process survive that a mapped model file shrinks, which raises SIGBUS as soon as a lost page is read: reading
/// goes on with zeroes, and [`Gguf::check_intact`](crate::Gguf::check_intact) reports the loss.
///
/// It replaces the process's handler of SIGBUS, once, and hands on to the old one what is not about a model. Signal
/// handlers are the program's affair: a library should not call it. Without it, such a read kills the process, unless the
/// model was opened with [`Gguf::read`](crate::Gguf::read). Does nothing on systems that do not let a mapped file shrink.
///
/// # Errors
/// When the system refuses.
pub fn survive_truncation() -> io::Result<()> {
    #[cfg(unix)]
    guard::install()?;
    Ok(())
}

/// What changes when somebody writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    /// None on systems that have none.
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Stamp> {
        let metadata = file.metadata()?;
        Ok(Stamp { len: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map {
    // Dropped before the mapping it guards: another mapping may take the addresses at once.
    #[cfg(unix)]
    guard: guard::Guard,
    map: Mmap,
    file: File,
    /// Of the file when it was mapped.
    stamp: Stamp,
}

impl Map {
    /// Maps the file at `path`; `None` when it is not a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Map>> {
        // Opening a pipe would wait for its other end, so look first.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let file = File::open(path)?;
        let stamp = Stamp::of(&file)?;
        // SAFETY: the bytes are read as plain numbers, and text is copied out of the mapping before it is
        // checked, so if another program writes to the file the numbers change but nothing that safe
        // code relies on; reading what a file has lost runs no code but the handler of SIGBUS.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Some(Map {
            #[cfg(unix)]
            guard: guard::Guard::new(map.as_ptr().addr(), map.len())?,
            map,
            file,
            stamp,
        }))
    }

    /// The stamp of the file now, and whether it is the one that it had when it was mapped.
    pub(crate) fn stamp(&self) -> io::Result<(Stamp, bool)> {
        let now = Stamp::of(&self.file)?;
        Ok((now, now == self.stamp))
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
