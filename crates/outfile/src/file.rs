//! A file that is being written.

use std::fs::{File, Permissions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::Error;
use crate::unfinished::{self, PREFIX};

/// A file that gets its name when it is whole, or the bytes of a pipe or device. When it is dropped before
/// [`OutFile::finish`], nothing is left behind.
#[derive(Debug)]
pub struct OutFile {
    /// As the caller names it.
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    /// A temporary file beside its target; none only while it is dropped.
    Replace { temporary: Option<NamedTempFile>, target: PathBuf, permissions: Option<Permissions> },
    /// A pipe or device, and a file for what is written in any order.
    Stream { stream: File, whole: Option<File> },
}

impl OutFile {
    /// A file that replaces `target`, which has these permissions if it is there.
    pub(crate) fn replacing(
        path: &Path,
        target: &Path,
        permissions: Option<Permissions>,
    ) -> Result<OutFile, Error> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let make = || {
            let mut builder = Builder::new();
            builder.prefix(PREFIX);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let temporary = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
            let path = temporary.path().to_owned();
            Ok((temporary, path))
        };
        let temporary = unfinished::make(make).map_err(Error::io(path, "create it"))?;
        let to = To::Replace { temporary: Some(temporary), target: target.to_owned(), permissions };
        Ok(OutFile { path: path.to_owned(), to })
    }

    /// What is written to an open pipe or device.
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

    /// Makes sure that the file is on the disk and gives it its name.
    ///
    /// # Errors
    /// When the system refuses, or another file has got the name meanwhile.
    pub fn finish(mut self) -> Result<(), Error> {
        let finished = match &mut self.to {
            To::Stream { stream, whole: None } => stream.flush(),
            To::Stream { stream, whole: Some(whole) } => {
                whole.rewind().and_then(|()| io::copy(whole, stream)).and_then(|_| stream.flush())
            }
            To::Replace { temporary, target, permissions } => match temporary.take() {
                Some(temporary) => give_name(temporary, target, permissions.take()),
                None => Ok(()),
            },
        };
        finished.map_err(Error::io(&self.path, "write it"))
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.to {
            To::Replace { temporary: Some(temporary), .. } => Ok(temporary.as_file_mut()),
            To::Replace { temporary: None, .. } => Err(io::ErrorKind::NotFound.into()),
            To::Stream { stream, whole } => Ok(whole.as_mut().unwrap_or(stream)),
        }
    }
}

fn give_name(temporary: NamedTempFile, target: &Path, permissions: Option<Permissions>) -> io::Result<()> {
    let (file, path, replaces) = (temporary.as_file(), temporary.path().to_owned(), permissions.is_some());
    let is_whole = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
    let is_whole = is_whole.and_then(|()| file.sync_all());
    // An error drops the temporary file, which removes it.
    unfinished::end(&path, || {
        is_whole?;
        let named = if replaces { temporary.persist(target) } else { temporary.persist_noclobber(target) };
        named.map(drop).map_err(|error| error.error)
    })
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Seek for OutFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file()?.seek(to)
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if let To::Replace { temporary, .. } = &mut self.to
            && let Some(temporary) = temporary.take()
        {
            let path = temporary.path().to_owned();
            unfinished::end(&path, || drop(temporary));
        }
    }
}
