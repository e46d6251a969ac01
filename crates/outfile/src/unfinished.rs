//! Temporary files and folders of this process, which a signal handler can remove.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// The beginning of the names of temporary files.
pub(crate) const PREFIX: &str = ".rustorch-";

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes all temporary files and folders of this process. While the returned value exists, none is created or renamed: the
/// program holds it until it exits.
#[must_use = "files that are created after it is dropped are not removed"]
pub fn remove_unfinished() -> impl Sized {
    let mut unfinished = lock();
    for path in unfinished.drain(..) {
        // An error could not be reported anywhere.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    unfinished
}

fn lock() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file or folder, registered as long as it exists: the lock is held while it is created, renamed or removed.
#[derive(Debug)]
pub(crate) struct Temporary<T> {
    /// `None` at the end.
    inner: Option<T>,
    path: PathBuf,
}

impl<T> Temporary<T> {
    pub(crate) fn new(create: impl FnOnce() -> io::Result<T>) -> io::Result<Temporary<T>>
    where
        T: AsRef<Path>,
    {
        let mut unfinished = lock();
        let inner = create()?;
        let path = inner.as_ref().to_owned();
        unfinished.push(path.clone());
        Ok(Temporary { inner: Some(inner), path })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it exists until the end")
    }

    /// Ends it by `end`, such as by renaming it.
    pub(crate) fn end<R>(&mut self, end: impl FnOnce(T) -> R) -> Option<R> {
        let inner = self.inner.take()?;
        let mut unfinished = lock();
        let ended = end(inner);
        unfinished.retain(|other| *other != self.path);
        Some(ended)
    }
}

impl<T> Drop for Temporary<T> {
    fn drop(&mut self) {
        self.end(drop);
    }
}

/// A folder for temporary files, removed when dropped.
#[derive(Debug)]
pub struct TempFolder(Temporary<TempDir>);

impl TempFolder {
    /// Creates a folder in the system's folder for temporary files.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new() -> io::Result<TempFolder> {
        Temporary::new(|| TempDir::with_prefix(&PREFIX[1..])).map(TempFolder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0.path
    }
}
