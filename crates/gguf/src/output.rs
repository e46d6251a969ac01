//! Output files that are written completely or not at all.
//!
//! An [`OutFile`] is written under a temporary name beside its [`Target`], and renamed once it is complete and synced to disk.
//! Only an empty file or one of the same kind is replaced. A dropped file is removed; a program that a signal ends calls
//! [`remove_unfinished`]. Pipes and devices receive the bytes directly.
//!
//! ```
//! use std::io::Write;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("page.html");
//! let is_page = |path: &std::path::Path| std::fs::read(path).is_ok_and(|page| page.starts_with(b"<!doctype html>"));
//! let target = gguf::output::Target::new(&path, "page", is_page)?;
//! let mut file = target.create()?;
//! file.write_all(b"<!doctype html>")?;
//! file.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::{Builder, TempDir, TempPath};

/// Links that are followed, as on Linux.
const MAX_LINKS: usize = 40;

/// The temporary files and folders of this process; those that have been renamed or removed stay listed.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error("{}: is there and is no {what}; it is not replaced: remove it, or name another file", path.display())]
    Occupied { path: PathBuf, what: &'static str },
    #[error("{}: is read-only; it is not replaced: make it writable, or name another file", path.display())]
    ReadOnly { path: PathBuf },
    #[error("{}: cannot {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: io::Error },
}

impl Error {
    fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { path: path.to_owned(), action, source }
    }
}

/// The checked name of a file. Nothing is written yet.
#[derive(Debug)]
pub struct Target {
    /// As the caller names it.
    path: PathBuf,
    /// The path without links, and the permissions of the file to replace; `None` for a pipe, a device or a file that this
    /// process has open.
    file: Option<(PathBuf, Option<Permissions>)>,
}

impl Target {
    /// The name `path` for a `what`, such as `trace`; `is_one` says whether an existing file is one. A folder, a read-only file
    /// and a file of another kind are refused. If `path` is a link, the file it leads to is replaced and the link stays. `-` is
    /// stdout.
    pub fn new(path: &Path, what: &'static str, is_one: impl FnOnce(&Path) -> bool) -> Result<Target, Error> {
        let target = |file| Ok(Target { path: path.to_owned(), file });
        let Some(to) = without_links(path).map_err(Error::io(path, "follow its links"))? else {
            return target(None);
        };
        let found = match fs::metadata(&to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return target(Some((to, None))),
            found => found.map_err(Error::io(path, "look at it"))?,
        };
        if !found.is_file() && !found.is_dir() {
            return target(None);
        }
        if found.is_file() && found.permissions().readonly() {
            return Err(Error::ReadOnly { path: path.to_owned() });
        }
        if found.is_dir() || found.len() > 0 && !is_one(&to) {
            return Err(Error::Occupied { path: path.to_owned(), what });
        }
        target(Some((to, Some(found.permissions()))))
    }

    /// Creates the file, to be written from its beginning to its end.
    pub fn create(&self) -> Result<OutFile, Error> {
        let path = self.path.clone();
        let Some((target, permissions)) = self.file.clone() else {
            let file = open_stream(&path).map_err(Error::io(&path, "open it"))?;
            return Ok(OutFile { path, file, end: End::Flush });
        };
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Opened here: errors of `tempfile_in` have the temporary name, which means nothing to the user.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let made = registered(|| Builder::new().prefix(".rustorch-").make_in(folder, open));
        let (file, temporary) = made.map_err(Error::io(&path, "create it"))?.into_parts();
        Ok(OutFile { path, file, end: End::Rename { temporary, target, permissions } })
    }

    /// Creates the file, to be written in any order: a pipe or device gets the bytes at the end.
    pub fn create_seekable(&self) -> Result<OutFile, Error> {
        let mut out = self.create()?;
        if let End::Flush = out.end {
            let whole = tempfile::tempfile().map_err(Error::io(&self.path, "make room for it"))?;
            out.end = End::Copy(std::mem::replace(&mut out.file, whole));
        }
        Ok(out)
    }
}

/// A file that gets its name when it is complete, or the bytes of a pipe or device. If it is dropped before
/// [`OutFile::finish`], nothing is left behind.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    file: File,
    end: End,
}

#[derive(Debug)]
enum End {
    Flush,
    /// To a pipe or device.
    Copy(File),
    /// The permissions are those of the replaced file.
    Rename {
        temporary: TempPath,
        target: PathBuf,
        permissions: Option<Permissions>,
    },
}

impl OutFile {
    /// Writes the file to the disk and gives it its name, unless another file now has it.
    pub fn finish(self) -> Result<(), Error> {
        let OutFile { path, mut file, end } = self;
        let finish = || match end {
            End::Flush => file.flush(),
            End::Copy(mut stream) => {
                file.rewind()?;
                io::copy(&mut file, &mut stream)?;
                stream.flush()
            }
            End::Rename { temporary, target, permissions } => {
                let replaces = permissions.is_some();
                permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
                file.sync_all()?;
                let renamed =
                    if replaces { temporary.persist(target) } else { temporary.persist_noclobber(target) };
                renamed.map_err(|error| error.error)
            }
        };
        finish().map_err(Error::io(&path, "write it"))
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Creates a folder for temporary files, which is removed when it is dropped.
pub fn temporary_folder() -> io::Result<TempDir> {
    registered(|| TempDir::with_prefix("rustorch-"))
}

/// Removes all temporary files and folders of this process; none is created while the program holds the returned value.
#[must_use = "files that are created after it is dropped are not removed"]
pub fn remove_unfinished() -> impl Sized {
    let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    for path in temporary.drain(..) {
        // An error could not be reported anywhere.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    temporary
}

/// Lists what `create` makes, so that [`remove_unfinished`] finds it.
fn registered<T: AsRef<Path>>(create: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    let made = create()?;
    temporary.push(made.as_ref().to_owned());
    Ok(made)
}

/// Opens a pipe or device. Writes to stdout and stderr continue where the process is.
fn open_stream(path: &Path) -> io::Result<File> {
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

/// Follows all links, whether or not there is a file at the end. `None` for stdout and for links of a process to its open files,
/// such as `/dev/stdout`.
fn without_links(path: &Path) -> io::Result<Option<PathBuf>> {
    if path == Path::new("-") {
        return Ok(None);
    }
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
