//! Reading and writing GGUF files.

mod metadata;

pub use metadata::{Array, Metadata, Value, WrongType};
