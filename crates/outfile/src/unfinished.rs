//! Temporary files and folders of this process, so that a signal leaves none behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// What names of temporary files begin with.
pub(crate) const PREFIX: &str = ".rustorch-";

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all temporary files and folders of this process. While the answer lives no other is made and none gets its
/// name, so a program keeps it until it ends.
#[must_use = "files that are begun after it is dropped are not removed"]
pub fn remove_unfinished() -> impl Sized {
    let mut unfinished = lock();
    for path in unfinished.drain(..) {
        // Nobody can be told when that fails.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    unfinished
}

/// Makes something temporary, so that no signal comes between that and its being known.
pub(crate) fn make<T>(make: impl FnOnce() -> io::Result<(T, PathBuf)>) -> io::Result<T> {
    let mut unfinished = lock();
    let (made, path) = make()?;
    unfinished.push(path);
    Ok(made)
}

/// Does away with what is temporary at `path`, so that no signal comes between that and its being forgotten.
pub(crate) fn end<T>(path: &Path, end: impl FnOnce() -> T) -> T {
    let mut unfinished = lock();
    let ended = end();
    unfinished.retain(|other| other != path);
    ended
}

fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for temporary files, which goes when it is dropped.
#[derive(Debug)]
pub struct TempFolder(Option<TempDir>, PathBuf);

impl TempFolder {
    /// Makes a folder where the system has temporary files.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> io::Result<TempFolder> {
        make(|| {
            let folder = TempDir::with_prefix(&PREFIX[1..])?;
            let path = folder.path().to_owned();
            Ok((TempFolder(Some(folder), path.clone()), path))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.1
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let folder = self.0.take();
        end(&self.1, || drop(folder));
    }
}
