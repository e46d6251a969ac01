//! Hugging Face checkpoints to GGUF files.
//!
//! A [`Checkpoint`] is a folder with `config.json`, a tokenizer and `*.safetensors`. A [`Plan`] says which keys and tensors
//! the file gets: those of llama.cpp's converter. [`Plan::write`] writes it, one part of a tensor after the other.
//!
//! ```no_run
//! use convert::{Checkpoint, Options, Plan};
//! use quant::Mix;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let checkpoint = Checkpoint::open("Qwen3-0.6B")?;
//! let plan = Plan::new(&checkpoint, &Options { file_type: Some(Mix::Q8_0), ..Options::default() })?;
//! plan.write(std::fs::File::create("qwen3.gguf")?, &|_| ())?;
//! # Ok(())
//! # }
//! ```

mod adapter;
mod checkpoint;
mod config;
mod describe;
mod error;
pub mod export;
mod families;
pub mod imatrix;
mod json;
mod keys;
mod output;
mod parameters;
mod plan;
mod pooling;
pub mod quantize;
mod rope;
mod rules;
mod splits;
pub mod tokenizer;
mod unsupported;

pub use adapter::Adapter;
pub use checkpoint::Checkpoint;
pub use error::Error;
pub use export::export_tokenizer;
pub use plan::{FILE_TYPES, Options, Plan};
