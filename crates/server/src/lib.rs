//! The HTTP server: several clients and models, by the protocols that the clients speak.
//!
//! ```text
//! HTTP ─► limits, host, key ─► a typed body ─► protocol (openai, …) ─► Request ─► rustorch::Model
//!                                                 ▲                                 │
//!                                                 └───── Deltas of the answers ─────┘
//! ```
//!
//! An endpoint stands in one file: its route with its entry in the OpenAPI document, its body, its handler and its answers. A
//! protocol reads a body into a `Call`, which names no protocol, and writes the model's answers. No template, tokenizer or
//! grammar runs on the threads of the async runtime.

mod answer;
mod anthropic;
mod app;
mod call;
mod config;
mod connection;
mod constraint;
mod conversation;
mod embedding;
mod error;
mod fields;
mod http;
mod id;
mod infill;
mod items;
mod keys;
mod llama;
mod metrics;
mod models;
mod ollama;
mod openai;
mod openapi;
mod origin;
mod page;
mod prompts;
mod quota;
mod server;
mod shape;
mod sse;

pub use config::{Config, Defaults, Limits};
pub use connection::{Tls, TlsError};
pub use conversation::RESERVED_VARIABLES;
pub use error::StartError;
pub use keys::{Keys, KeysError};
pub use models::{Loaded, Loader, ModelSource};
pub use origin::{Origin, OriginError};
pub use quota::Quota;
pub use server::{Reload, Server, Shutdown};
