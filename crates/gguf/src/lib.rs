//! Reading and writing GGUF files.
//!
//! [`Gguf::open`] maps a file (and the other parts of a split model), validates everything except tensor values, and
//! gives access to typed [`Metadata`] and to [`Tensor`]s, whose bytes are slices of the mapping. [`Layout`] and
//! [`Writer`] write version 3 files without holding tensor data in memory.
//!
//! Files are untrusted: an invalid file gives an [`Error`] that names the key or tensor and its offset, in bounded time
//! and memory.

mod cursor;
mod error;
mod file;
mod map;
mod metadata;
pub mod output;
mod parse;
mod part;
mod split;
mod tensor;
mod value;
mod writer;

pub use error::{Error, Fault, Problem, WrongType, quoted};
pub use file::Gguf;
pub use map::survive_truncation;
pub use metadata::Metadata;
pub use part::MappedFile;
pub use tensor::{Tensor, UnsupportedTensor};
pub use value::{Array, Value, ValueType};
pub use writer::{Layout, WriteError, Writer, write};

/// Maximum number of tensor dimensions.
pub(crate) const MAX_DIMS: usize = 4;
/// Maximum nesting of arrays: an array of numbers has depth 1.
pub(crate) const MAX_ARRAY_DEPTH: usize = 4;
/// Maximum length of a key or tensor name, in bytes.
pub(crate) const MAX_NAME_BYTES: u64 = 65535;
/// Alignment of tensor data in bytes, without `general.alignment`.
pub(crate) const DEFAULT_ALIGNMENT: u32 = 32;
/// Maximum memory for names, metadata and tensor list, in bytes. Real vocabularies need up to 60 MiB.
pub(crate) const MAX_METADATA_BYTES: u64 = 96 << 20;
