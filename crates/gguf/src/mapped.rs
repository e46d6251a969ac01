//! Files of other formats, mapped like GGUF files.

use std::path::Path;

use bytes::Bytes;

use crate::error::Error;
use crate::part::Part;

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
