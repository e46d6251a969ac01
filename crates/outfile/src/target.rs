//! Names that files may get.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, OutFile};

/// Links that are followed, as many as Linux does.
const LINKS: usize = 40;

/// A name that a file may get. Nothing is written yet.
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
    /// A file that is replaced.
    Taken(PathBuf, fs::Permissions),
    /// A pipe or device, or a file that this process has open.
    Stream,
}

impl Target {
    /// The name `path` for a `what`, such as `trace`; `is_one` says whether a file is one. A file that is empty is
    /// replaced, too. Of a link that which it leads to is replaced, and the link stays. `-` is stdout.
    ///
    /// # Errors
    /// When something is there that is not to be replaced: a folder, a read-only file, or a file of another kind.
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
        if found.is_dir() {
            return Err(Error::Occupied { path: path.to_owned(), what });
        }
        if !found.is_file() {
            return target(Place::Stream);
        }
        if found.permissions().readonly() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        if found.len() > 0 && !is_one(&to) {
            return Err(Error::Occupied { path: path.to_owned(), what });
        }
        target(Place::Taken(to, found.permissions()))
    }

    /// Begins the file, to be written from its beginning to its end.
    ///
    /// # Errors
    /// When the system refuses.
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

    /// Begins the file, to be written in any order: a pipe or device gets the bytes when it is whole.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create_seekable(&self) -> Result<OutFile, Error> {
        self.create()?.seekable()
    }
}

/// Opens a pipe or device. What this process has open is written on from where it is.
fn open(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let name = without_prefix(path);
        let open = match name.as_deref() {
            Some("1") => Some(io::stdout().as_fd().try_clone_to_owned()?),
            Some("2") => Some(io::stderr().as_fd().try_clone_to_owned()?),
            _ => None,
        };
        if let Some(open) = open {
            return Ok(open.into());
        }
    }
    OpenOptions::new().append(true).open(path)
}

/// The number of the descriptor that `path` stands for, if it is one.
#[cfg(unix)]
fn without_prefix(path: &Path) -> Option<String> {
    match path.to_str()? {
        "-" | "/dev/stdout" => Some("1".to_owned()),
        "/dev/stderr" => Some("2".to_owned()),
        path => {
            let number = path.strip_prefix("/dev/fd/").or_else(|| path.strip_prefix("/proc/self/fd/"));
            number.map(str::to_owned)
        }
    }
}

/// What a path leads to, through all links, whether or not it is there; `None` where they are those of a process to its
/// open files, such as `/dev/stdout`: these are no names of files.
fn without_links(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_descriptor = |folder: PathBuf| folder.starts_with("/proc") || folder == Path::new("/dev/fd");
        if fs::canonicalize(folder).is_ok_and(is_descriptor) {
            return Ok(None);
        }
        let Ok(to) = fs::read_link(&path) else { return Ok(Some(path)) };
        path = folder.join(to);
    }
    Err(io::Error::other("they go in a circle"))
}
