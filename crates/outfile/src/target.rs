//! Names of files to write.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, OutFile};

/// The number of links that are followed, as on Linux.
const MAX_LINKS: usize = 40;

/// The checked name of a file. Nothing is written yet.
#[derive(Debug)]
pub struct Target {
    /// As the caller names it.
    path: PathBuf,
    place: Place,
}

/// What is at a path.
#[derive(Debug)]
enum Place {
    /// Nothing, at this path without links.
    Free(PathBuf),
    /// A file to replace.
    Taken(PathBuf, fs::Permissions),
    /// A pipe or device, or a file that this process has open.
    Stream,
}

impl Target {
    /// The name `path` for a `what`, such as `trace`; `is_one` says whether a file is one. Empty files are replaced, too. If
    /// `path` is a link, the file it leads to is replaced and the link stays. `-` is stdout.
    ///
    /// # Errors
    /// If there is something that must not be replaced: a folder, a read-only file, or a file of another kind.
    pub fn new(path: &Path, what: &'static str, is_one: impl FnOnce(&Path) -> bool) -> Result<Target, Error> {
        let target = |place| Ok(Target { path: path.to_owned(), place });
        let to = match without_links(path).map_err(Error::io(path, "follow its links"))? {
            Some(to) if path != Path::new("-") => to,
            _ => return target(Place::Stream),
        };
        let found = match fs::metadata(&to) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return target(Place::Free(to)),
            Err(error) => return Err(Error::io(path, "look at it")(error)),
        };
        let is_file = found.is_file();
        if !is_file && !found.is_dir() {
            return target(Place::Stream);
        }
        if is_file && found.permissions().readonly() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        if !is_file || found.len() > 0 && !is_one(&to) {
            return Err(Error::Occupied { path: path.to_owned(), what });
        }
        target(Place::Taken(to, found.permissions()))
    }

    /// Creates the file, to be written from its beginning to its end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(&self) -> Result<OutFile, Error> {
        match &self.place {
            Place::Free(to) => OutFile::replacing(&self.path, to, None),
            Place::Taken(to, permissions) => OutFile::replacing(&self.path, to, Some(permissions.clone())),
            Place::Stream => {
                let stream = open(&self.path).map_err(Error::io(&self.path, "open it"))?;
                Ok(OutFile::stream(&self.path, stream))
            }
        }
    }

    /// Creates the file, to be written in any order: a pipe or device gets the bytes at the end.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create_seekable(&self) -> Result<OutFile, Error> {
        self.create()?.seekable()
    }
}

/// Opens a pipe or device. Writes to stdout and stderr continue where the process is.
fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        match path.to_str() {
            Some("-" | "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => {
                return Ok(io::stdout().as_fd().try_clone_to_owned()?.into());
            }
            Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => {
                return Ok(io::stderr().as_fd().try_clone_to_owned()?.into());
            }
            _ => {}
        }
    }
    OpenOptions::new().append(true).open(path)
}

/// Follows all links, whether or not there is a file at the end. `None` for links of a process to its open files, such as
/// `/dev/stdout`.
fn without_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_descriptor = |folder: PathBuf| folder.starts_with("/proc") || folder == Path::new("/dev/fd");
        if fs::canonicalize(folder).is_ok_and(is_descriptor) {
            return Ok(None);
        }
        let Ok(to) = fs::read_link(&path) else { return Ok(Some(path)) };
        path = folder.join(to);
    }
    Err(io::Error::other("they form a circle"))
}
