//! A file that is being written.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::Error;
use crate::unfinished::{PREFIX, Temporary};

/// A file that gets its name when it is complete, or the bytes of a pipe or device. If it is dropped before
/// [`OutFile::finish`], nothing is left behind.
#[derive(Debug)]
pub struct OutFile {
    /// As the caller names it.
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    /// A temporary file in the folder of its target.
    Replace { temporary: Temporary<NamedTempFile>, target: PathBuf, permissions: Option<Permissions> },
    /// A pipe or device, and a file for bytes that are written in any order.
    Stream { stream: File, whole: Option<File> },
}

impl OutFile {
    /// A file that replaces `target`, which has these permissions if it exists.
    pub(crate) fn replacing(
        path: &Path,
        target: &Path,
        permissions: Option<Permissions>,
    ) -> Result<OutFile, Error> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Opened here: `tempfile_in` adds the temporary name to errors, which means nothing to the user.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let temporary = Temporary::new(|| Builder::new().prefix(PREFIX).make_in(folder, open));
        let temporary = temporary.map_err(Error::io(path, "create it"))?;
        let to = To::Replace { temporary, target: target.to_owned(), permissions };
        Ok(OutFile { path: path.to_owned(), to })
    }

    /// The bytes for an open pipe or device.
    pub(crate) fn stream(path: &Path, stream: File) -> OutFile {
        OutFile { path: path.to_owned(), to: To::Stream { stream, whole: None } }
    }

    /// The same, to be written in any order.
    pub(crate) fn seekable(mut self) -> Result<OutFile, Error> {
        if let To::Stream { whole, .. } = &mut self.to {
            *whole = Some(tempfile::tempfile().map_err(Error::io(&self.path, "make room for it"))?);
        }
        Ok(self)
    }

    /// Writes the file to the disk and gives it its name.
    ///
    /// # Errors
    /// If the system refuses, or if another file now has the name.
    pub fn finish(self) -> Result<(), Error> {
        let finished = match self.to {
            To::Stream { mut stream, whole: None } => stream.flush(),
            To::Stream { mut stream, whole: Some(mut whole) } => {
                whole.rewind().and_then(|()| io::copy(&mut whole, &mut stream)).and_then(|_| stream.flush())
            }
            To::Replace { mut temporary, target, permissions } => {
                let file = temporary.get_mut().as_file();
                let replaces = permissions.is_some();
                let synced = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
                let synced = synced.and_then(|()| file.sync_all());
                // An error drops the temporary file, which removes it.
                let rename = |temporary: NamedTempFile| {
                    let renamed = match replaces {
                        true => temporary.persist(target),
                        false => temporary.persist_noclobber(target),
                    };
                    renamed.map(drop).map_err(|error| error.error)
                };
                synced.and_then(|()| temporary.end(rename).unwrap_or(Ok(())))
            }
        };
        finished.map_err(Error::io(&self.path, "write it"))
    }

    fn file(&mut self) -> &mut File {
        match &mut self.to {
            To::Replace { temporary, .. } => temporary.get_mut().as_file_mut(),
            To::Stream { stream, whole } => whole.as_mut().unwrap_or(stream),
        }
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Seek for OutFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file().seek(to)
    }
}
