//! Hugging Face checkpoints to GGUF files.

mod error;
mod tokenizer;

pub use error::Error;
