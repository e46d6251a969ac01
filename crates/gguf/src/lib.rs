//! Reading and writing GGUF files.
//!
//! [`Gguf::open`] maps a file (and the other parts of a split model), checks all of it that is not
//! tensor values, and hands out typed [`Metadata`] and [`Tensor`]s whose bytes are slices of the
//! mapping. [`Layout`] and [`Writer`] make version 3 files without holding tensor data.
//!
//! A file is untrusted: whatever it holds, reading it ends at once with an [`Error`] that names the
//! key or tensor and its offset, and takes bounded memory.

mod cursor;
mod error;
mod file;
mod map;
mod metadata;
mod parse;
mod part;
mod split;
mod tensor;
mod value;
mod version;
mod writer;

pub use error::{Error, Fault, Item, Problem, SplitProblem};
pub use file::Gguf;
pub use map::survive_truncation;
pub use metadata::{Metadata, WrongType};
pub use tensor::Tensor;
pub use value::{Array, Value, ValueType, quoted};
pub use version::Version;
pub use writer::{Layout, WriteError, Writer, write};

/// Most dimensions a tensor has.
pub const MAX_DIMS: usize = 4;

/// Deepest nesting of arrays: an array of numbers has depth 1.
pub const MAX_ARRAY_DEPTH: usize = 4;

/// Longest name of a key or tensor, in bytes.
pub const MAX_NAME_BYTES: u64 = 65535;

/// Data is aligned to this many bytes where `general.alignment` does not say otherwise.
pub const DEFAULT_ALIGNMENT: u32 = 32;

/// Bound on the memory that reading names, metadata and tensor list may take, in bytes. Real
/// vocabularies need up to 60 MiB.
pub(crate) const MAX_METADATA_BYTES: u64 = 96 << 20;
