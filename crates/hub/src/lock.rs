//! The lock on a blob, which processes of `huggingface_hub` respect as well.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::chunks::create_parent;
use crate::{Error, Event, Watch};

/// How often to look whether the lock is free.
const PAUSE: Duration = Duration::from_millis(100);

/// An exclusive lock on a file (`flock` on Unix, as the package `filelock` takes it), held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Waits until no other holder has the lock on `path`.
    pub(crate) fn acquire(path: &Path, watch: Watch<'_>) -> Result<Lock, Error> {
        let mut is_waiting = false;
        loop {
            if let Some(lock) = Lock::try_acquire(path)? {
                return Ok(lock);
            }
            if !is_waiting {
                watch(Event::Waiting);
                is_waiting = true;
            }
            thread::sleep(PAUSE);
        }
    }

    /// `None` if the lock on `path` is held elsewhere.
    pub(crate) fn try_acquire(path: &Path) -> Result<Option<Lock>, Error> {
        let fail = |error| Error::cache("lock", path)(error);
        create_parent(path)?;
        loop {
            let file = open(path).map_err(fail)?;
            match file.try_lock() {
                // A holder may have removed the file that was opened.
                Ok(()) if is_at(&file, path) => return Ok(Some(Lock(file))),
                Ok(()) => {}
                // Network file systems may have no locks; the rename at the end keeps the cache right.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Lock(file)));
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
                Err(TryLockError::WouldBlock) => return Ok(None),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file unlocks it in any case.
        let _ = self.0.unlock();
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o664);
    options.open(path)
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata().map(id), fs::metadata(path).map(id)), (Ok(held), Ok(there)) if held == there)
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    // A file that is open cannot be removed.
    true
}
