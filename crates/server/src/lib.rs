//! The HTTP server: several clients and models, by the protocols that the clients speak.
//!
//! ```text
//! HTTP ─► limits, host, key ─► protocol (openai, …) ─► Job ─► Worker: the engine's thread
//!                                     ▲                          │ one channel per request
//!                                     └──── answers, in pieces ──┘
//! ```
//!
//! A protocol reads a request into a `Job`, which names no protocol, and writes its updates. The engine runs on a thread
//! of its own, never waits for a client, and cancels what nobody reads any more. Nothing async runs there, and no template,
//! tokenizer or grammar on the threads of the runtime.

mod answer;
mod anthropic;
mod app;
mod call;
mod config;
mod connection;
mod conversation;
mod embedding;
mod error;
mod fields;
mod http;
mod id;
mod keys;
mod llama;
mod metrics;
mod models;
mod ndjson;
mod ollama;
mod openai;
mod openapi;
mod page;
mod prompts;
mod props;
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
pub use quota::Quota;
pub use server::{Reload, Server, Shutdown};
