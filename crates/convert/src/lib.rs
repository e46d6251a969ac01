//! Hugging Face checkpoints to GGUF files.

mod error;
pub mod export;
mod splits;
pub mod tokenizer;

pub use error::Error;
pub use export::export_tokenizer;
