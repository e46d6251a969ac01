//! The inference engine: scheduling, paged KV cache, sampling, stop conditions.
//!
//! The crate `rustorch` is the way in for programs: it opens devices, drives this engine, and has few names. This crate is for
//! those who step the engine themselves, or look into it.
//!
//! A [`Model`] is an opened file. An [`Engine`] loads it on a [`Backend`] and serves any number of [`Request`]s
//! concurrently. It has no thread of its own: [`Engine::step`] runs one step for all requests and returns [`Event`]s.
//! A request's text depends only on its prompt, sampling and seed; batching, chunked prefill and the number of
//! threads do not change it.
//!
//! ```no_run
//! use std::sync::Arc;
//! use engine::{Engine, Event, Model, Options, Request};
//!
//! # fn main() -> Result<(), engine::Error> {
//! let model = Arc::new(Model::open("model.gguf")?);
//! let backend = Box::new(backend_cpu::Cpu::new(None));
//! let mut engine = Engine::new(model.clone(), backend, Options::default())?;
//!
//! let prompt = model.encode_prompt("Once upon a time", false);
//! engine.submit(Request::new(prompt).temperature(0.7).seed(42).max_tokens(100))?;
//! while !engine.is_idle() {
//!     for event in engine.step()? {
//!         match event {
//!             Event::Token { text, .. } => print!("{text}"),
//!             Event::Done { reason, usage, .. } => {
//!                 println!("\n[{reason}, {} tokens]", usage.generated_tokens);
//!             }
//!             Event::Failed { error, .. } => eprintln!("{error}"),
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! An observer sees values of the model's graph: any of them, by name, after each step ([`Engine::observe`],
//! `examples/tap.rs`), or the logits of a prompt ([`Request::observe`]). [`Params::logprobs`] returns the log-probabilities of
//! the answer.
//!
//! Types of other crates in public items are re-exported: [`backend`], [`gguf`], [`graph`], [`models`], [`runner`],
//! [`tokenizer`] and [`template`].
//!
//! Call order: [`Engine`] → scheduler (which rows run next) and [`ModelRunner`] (the computation) →
//! [`Sampler`] → stop conditions. The engine names no concrete backend.

#[macro_use]
mod params;

mod blocks;
mod cached_prefix;
mod candidates;
mod choose;
mod embedder;
mod engine;
mod error;
mod ids;
mod model;
mod observe;
mod options;
mod pace;
mod pool;
mod prefix;
mod queue;
mod random;
mod request;
mod request_state;
mod rerank;
mod sampling;
mod scheduler;
mod slots;
mod speculation;
mod stop;

pub use ::chat as template;
pub use {::backend, ::gguf, ::graph, ::models, ::runner, ::tokenizer};

pub use self::engine::Engine;
pub use ::chat::Message;
pub use backend::{Backend, KvFormat, Step};
pub use cached_prefix::CachedPrefix;
pub use embedder::{Embedder, EmbedderOptions, Normalization};
pub use error::Error;
pub use ids::RequestId;
pub use model::{Model, NoTemplate, encode_rendered, specials};
pub use observe::{Observed, ObservedRow, Observer};
pub use options::{DEFAULT_N_BATCH, DEFAULT_N_CTX, Layout, Options, PrefixKey, all_logits_rows};
pub use params::{Bias, Biased, Flag, Kind, Param, ParamError, Params, SamplerKind, UnknownSampler};
pub use request::{DraftCounts, Event, Load, LogitRows, Request, RequestError, Tenant, Usage};
pub use runner::ModelRunner;
pub use sampling::{Logprobs, Processor, Sampler, SamplingError};
pub use scheduler::{Limits, Refusal};
pub use speculation::DraftModel;
pub use speculation::options::Speculation;
pub use stop::StopReason;
