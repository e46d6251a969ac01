//! Files that get their name when they are whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::Error;

/// Links that are followed, as many as Linux does.
const LINKS: usize = 40;

/// A file that has another name until it is whole, and is removed when it never is.
///
/// It replaces only files of its own kind, so that a path that was mistyped costs nobody a file. Of a link
/// that which it leads to is replaced, and the link stays.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    part: PathBuf,
    is_begun: bool,
}

impl Draft {
    /// What is to become the file at `path`, a `what`. Nothing is written yet.
    ///
    /// # Errors
    /// When something has that name which is not to be replaced: a device, a pipe, a folder, or a file that
    /// is neither empty nor one of those that `is_one` knows.
    pub fn new(path: &Path, what: &'static str, is_one: impl FnOnce(&Path) -> bool) -> Result<Draft, Error> {
        let occupied = |path: &Path| Err(Error::Occupied { path: path.to_owned(), what });
        let Some(target) = target(path) else { return occupied(path) };
        let part = part(&target);
        // What is no regular file is not even opened: a pipe would wait for its other end.
        let is_free = |found: fs::Metadata| found.is_file() && (found.len() == 0 || is_one(&target));
        if fs::metadata(&target).is_ok_and(|found| !is_free(found)) {
            return occupied(path);
        }
        if fs::symlink_metadata(&part).is_ok_and(|found| !found.is_file()) {
            return occupied(&part);
        }
        Ok(Draft { path: target, part, is_begun: false })
    }

    /// Makes the file under its other name, empty.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(&mut self) -> Result<File, Error> {
        let file = File::create(&self.part).map_err(|error| Error::io(&self.part, "create it", error))?;
        self.is_begun = true;
        Ok(file)
    }

    /// Where the file is until [`Draft::finish`].
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn finish(mut self) -> Result<(), Error> {
        fs::rename(&self.part, &self.path).map_err(|error| Error::io(&self.path, "create it", error))?;
        self.is_begun = false;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_begun {
            // There is nobody to report a failure to.
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Where the [`Draft`] of the file at `path` is until it is whole.
pub fn part(path: &Path) -> PathBuf {
    let mut part = target(path).unwrap_or_else(|| path.to_owned()).into_os_string();
    part.push(".part");
    part.into()
}

/// What a path leads to, through all links, whether or not it is there; `None` where they go in circles
/// or are those of a process to its open files, such as `/dev/stdout`: these are no names of files.
fn target(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(to) = fs::read_link(&path) else { return Some(path) };
        let folder = path.parent().unwrap_or(Path::new(""));
        if fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with("/proc")) {
            return None;
        }
        path = folder.join(to);
    }
    None
}
