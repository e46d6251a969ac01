//! Language models in your program.

mod chat;
pub mod devices;
mod error;
mod generate;
mod model;
mod options;
#[cfg(feature = "hub")]
mod pull;
mod settings;
mod shared;

#[cfg(feature = "hub")]
pub use ::hub;
pub use {::backend, ::engine, ::gguf, ::runner};

pub use backend::KvType;
pub use chat::{Answer, Chat, Piece};
pub use devices::BackendName;
pub use engine::{Engine, KvFormat, Message, Sampling, StopReason, Usage};
pub use error::{Error, Result};
pub use generate::{Batch, Candidate, End, Generate, Prompt, Token, Tokens};
pub use model::Model;
pub use options::Options;
pub use runner::placement::Layers;
