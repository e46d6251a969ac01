//! A mapped file of any format, and a parsed file of a model.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Problem, WrongType};
use crate::map::{Map, Owner};
use crate::parse::{Parsed, parse};

/// A mapped file of any format, such as a shard of a checkpoint. Truncation kills the process as for a
/// [`Gguf`](crate::Gguf::open).
#[derive(Debug)]
pub struct MappedFile {
    pub(crate) file: String,
    pub(crate) bytes: Bytes,
    /// `None` for data in memory.
    pub(crate) map: Option<Arc<Map>>,
}

impl MappedFile {
    /// Maps the file at `path`, which must be a regular file.
    pub fn open(path: &Path) -> Result<MappedFile, Error> {
        let map = Arc::new(from_regular(path, "open the file", || Map::open(path))?);
        let file = path.display().to_string();
        Ok(MappedFile { file, bytes: Bytes::from_owner(Owner(Arc::clone(&map))), map: Some(map) })
    }

    pub(crate) fn read(path: &Path) -> Result<MappedFile, Error> {
        let bytes = from_regular(path, "read the file", || std::fs::read(path))?.into();
        Ok(MappedFile { file: path.display().to_string(), bytes, map: None })
    }

    /// The content. A slice of it keeps the mapping alive.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Fails if the file was changed or truncated since it was mapped, so that what was read of it is meaningless.
    pub fn check_intact(&self) -> Result<(), Error> {
        let Some(map) = &self.map else { return Ok(()) };
        let (file, expected) = (self.file.clone(), self.len());
        match map.len_now() {
            Err(source) => Err(Error::Io { file, action: "check the file again", source }),
            Ok((found, _)) if map.is_lost() || found < expected => {
                Err(Error::TruncatedInUse { file, expected, found })
            }
            Ok((_, false)) => Err(Error::ModifiedInUse { file }),
            Ok((_, true)) => Ok(()),
        }
    }
}

/// The result of `open` for a regular file. Opening a pipe would block until its other end is opened.
fn from_regular<T>(
    path: &Path,
    action: &'static str,
    open: impl FnOnce() -> io::Result<T>,
) -> Result<T, Error> {
    let file = || path.display().to_string();
    match std::fs::metadata(path).and_then(|found| found.is_file().then(open).transpose()) {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => Err(Error::NotAFile { file: file() }),
        Err(source) => Err(Error::Io { file: file(), action, source }),
    }
}

/// A file of a model, validated on its own.
pub(crate) struct Part {
    pub(crate) file: MappedFile,
    pub(crate) parsed: Parsed,
}

impl Part {
    pub(crate) fn parse(file: MappedFile) -> Result<Part, Error> {
        let parsed = parse(&file.bytes);
        // A result parsed while the file shrank is meaningless, valid or not.
        file.check_intact()?;
        match parsed {
            Ok(parsed) => Ok(Part { file, parsed }),
            Err(fault) => Err(Error::Malformed { file: file.file, fault }),
        }
    }

    pub(crate) fn wrong_type(&self, error: WrongType) -> Error {
        let WrongType { key, found, expected } = error;
        let fault = self.parsed.key_fault(&key, Problem::WrongType { found, expected });
        Error::Malformed { file: self.file.file.clone(), fault }
    }

    pub(crate) fn split_error(&self, problem: String) -> Error {
        Error::Split { file: self.file.file.clone(), problem }
    }
}
