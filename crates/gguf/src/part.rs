//! One file of a model, validated on its own, and files of other formats, mapped like these.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, SplitProblem, WrongType};
use crate::map::{Map, Owner};
use crate::parse::{Parsed, parse};

#[derive(Debug)]
pub(crate) struct Part {
    /// File name for messages.
    pub(crate) file: String,
    pub(crate) bytes: Bytes,
    /// `None` for data in memory.
    pub(crate) map: Option<Arc<Map>>,
}

impl Part {
    pub(crate) fn map(path: &Path) -> Result<Part, Error> {
        let file = path.display().to_string();
        let map = match Map::open(path) {
            Ok(Some(map)) => Arc::new(map),
            Ok(None) => return Err(Error::NotAFile { file }),
            Err(source) => return Err(Error::Io { file, action: "open the file", source }),
        };
        let bytes = Bytes::from_owner(Owner(Arc::clone(&map)));
        Ok(Part { file, bytes, map: Some(map) })
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn check_intact(&self) -> Result<(), Error> {
        let Some(map) = &self.map else { return Ok(()) };
        let file = || self.file.clone();
        let (len, is_same) = map.len_now().map_err(|source| Error::Io {
            file: file(),
            action: "check the file again",
            source,
        })?;
        if map.is_lost() || len < self.len() {
            return Err(Error::TruncatedInUse { file: file(), expected: self.len(), found: len });
        }
        if is_same { Ok(()) } else { Err(Error::ModifiedInUse { file: file() }) }
    }
}

pub(crate) struct Loaded {
    pub(crate) part: Part,
    pub(crate) parsed: Parsed,
}

impl Loaded {
    pub(crate) fn map(path: &Path) -> Result<Loaded, Error> {
        Loaded::parse(Part::map(path)?)
    }

    pub(crate) fn read(path: &Path) -> Result<Loaded, Error> {
        let file = path.display().to_string();
        match std::fs::metadata(path)
            .and_then(|metadata| Ok(metadata.is_file().then_some(std::fs::read(path)?)))
        {
            Ok(Some(bytes)) => Loaded::parse(Part { file, bytes: bytes.into(), map: None }),
            Ok(None) => Err(Error::NotAFile { file }),
            Err(source) => Err(Error::Io { file, action: "read the file", source }),
        }
    }

    pub(crate) fn parse(part: Part) -> Result<Loaded, Error> {
        let parsed = parse(&part.bytes);
        // A result parsed while the file shrank is meaningless, valid or not.
        part.check_intact()?;
        match parsed {
            Ok(parsed) => Ok(Loaded { part, parsed }),
            Err(fault) => Err(Error::Malformed { file: part.file, fault }),
        }
    }

    /// Converts a getter's error to an error about this file.
    pub(crate) fn wrong_type(&self, error: WrongType) -> Error {
        let fault = self.parsed.key_fault(&error.key.clone(), error.into());
        Error::Malformed { file: self.part.file.clone(), fault }
    }

    pub(crate) fn split_error(&self, problem: SplitProblem) -> Error {
        Error::Split { file: self.part.file.clone(), problem }
    }
}

/// A mapped file of any format, such as a shard of a checkpoint. The same rules hold as for a [`Gguf`](crate::Gguf): if another
/// program truncates it, SIGBUS kills the process, unless the program has called
/// [`survive_truncation`](crate::survive_truncation).
#[derive(Debug)]
pub struct MappedFile(Part);

impl MappedFile {
    /// Maps the file at `path`, which must be a regular file.
    pub fn open(path: impl AsRef<Path>) -> Result<MappedFile, Error> {
        Part::map(path.as_ref()).map(MappedFile)
    }

    /// The content. A slice of it keeps the mapping alive.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Fails if the file was changed or truncated since it was mapped, so that what was read of it is meaningless.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.0.check_intact()
    }
}
