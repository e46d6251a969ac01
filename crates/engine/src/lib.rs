//! Requests in, text out: scheduling, KV cache bookkeeping, sampling, stop handling, conversations.
//!
//! A [`Model`] is an opened file; an [`Engine`] puts it on a [`Backend`] and serves any number of
//! [`Request`]s at once. Nothing runs by itself: [`Engine::step`] runs one step for all of them and
//! returns [`Event`]s. A request's text depends on its prompt, sampling and seed alone, never on what
//! else runs, how its prompt was cut into steps, or how many threads the backend has.
//!
//! ```no_run
//! use std::sync::Arc;
//! use engine::{Engine, Event, Model, Options, Request, Sampling};
//!
//! # fn main() -> Result<(), engine::Error> {
//! let model = Arc::new(Model::open("model.gguf")?);
//! let backend = Box::new(backend_cpu::Cpu::new(None));
//! let mut engine = Engine::new(model.clone(), backend, Options::default())?;
//!
//! let prompt = model.encode_prompt("Once upon a time", false);
//! let sampling = Sampling { temperature: 0.7, seed: Some(42), ..Sampling::default() };
//! engine.submit(Request::new(prompt).sampling(sampling).max_tokens(100))?;
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
//! A [`Chat`] is a conversation: the file's chat template, and a cache that is kept between turns.
//!
//! ```no_run
//! # use engine::{Chat, Engine, Event};
//! # fn talk(engine: &mut Engine) -> Result<(), engine::Error> {
//! let mut chat = Chat::new(engine);
//! chat.set_system(Some("Answer in one sentence.".into()));
//! for question in ["What is the capital of France?", "And of Italy?"] {
//!     chat.say(engine, question)?;
//!     while chat.pending().is_some() {
//!         for event in engine.step().inspect_err(|_| chat.step_failed())? {
//!             if let Event::Token { text, .. } = &event {
//!                 print!("{text}");
//!             }
//!             if let Some(usage) = chat.hear(&event) {
//!                 println!("\n[{} of {} tokens reused]", usage.reused_tokens, usage.prompt_tokens);
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Engine::tap`] shows what a model computes: any value of its graph, by name, after each step.
//!
//! ```no_run
//! # fn look(engine: &mut engine::Engine) -> Result<(), engine::Error> {
//! engine.tap(&["l_out-0"], |step, program| {
//!     if let Ok(values) = program.read("l_out-0") {
//!         println!("{} tokens: {:?} ...", step.tokens().len(), &values[..4]);
//!     }
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! From here down: [`Chat`] → [`Engine`] → [`scheduler`] (which rows run next; pure bookkeeping) and a
//! backend's programs (the numbers) → [`Sampler`] → [`Stop`] handling. The engine names no concrete
//! backend.

mod active;
mod candidates;
mod chat;
mod device;
mod engine;
mod error;
mod model;
mod pages;
mod random;
mod request;
mod sampling;
pub mod scheduler;
mod split;
mod stop;

pub use self::chat::Chat;
pub use self::engine::{DEFAULT_N_BATCH, DEFAULT_N_CTX, Engine, LogitRows, Options};
pub use ::chat::Message;
pub use backend::{Backend, KvFormat, Program, Step};
pub use device::all_logits_rows;
pub use error::Error;
pub use model::{Model, NoTemplate};
pub use request::{Event, Request, Usage};
pub use sampling::{Sampler, Sampling, SamplingError};
pub use scheduler::{Limits, Refusal, RequestId, SequenceId};
pub use split::Split;
pub use stop::{Stop, StopReason};
