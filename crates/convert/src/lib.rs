//! Hugging Face checkpoints to GGUF files.

mod error;
mod splits;
pub mod tokenizer;

pub use error::Error;
