//! Language models in your program, on the CPU and the GPU: text, chats, batches, log-probabilities, embeddings.
//!
//! ```
//! use rustorch::Model;
//!
//! # fn main() -> rustorch::Result<()> {
//! let model = Model::demo()?; // or Model::open("model.gguf")?, Model::pull("Qwen/Qwen3-0.6B-GGUF:Q8_0")?
//! let mut chat = model.chat().system("Be brief.").temperature(0.0);
//! for piece in chat.say("What is the capital of France?") {
//!     print!("{}", piece?);
//! }
//! let answer = chat.say("And of Italy?").text()?;
//! # assert_eq!(answer, "The capital of Italy is Rome.");
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] is loaded and ready. [`Model::options`] has the context, the devices and the limits of memory. Everything that a
//! model writes is an iterator of [`Result`]s, which computes as you read, and which you may drop at any time:
//!
//! ```
//! # use rustorch::{GrammarSource, Model, Token};
//! # fn main() -> rustorch::Result<()> {
//! # let model = Model::demo()?;
//! // Token by token, with log-probabilities.
//! for token in model.generate("The capital of Spain is").temperature(0.0).max_tokens(3).logprobs(2) {
//!     let Token { text, logprob, top, .. } = token?;
//!     println!("{text:?} {logprob:?} {top:?}");
//! }
//!
//! // Several at once. A step computes a token of each, so that eight take little longer than one.
//! let texts = model.batch(["1 + 1 =", "2 + 2 =", "3 + 3 ="]).seed(42).max_tokens(8).texts()?;
//! # assert_eq!(texts.len(), 3);
//!
//! // Your own sampler: here, one that never begins to say " Paris".
//! let paris = model.tokenize(" Paris")[0] as usize;
//! let forbid = move |_tokens: &[u32], logits: &mut [f32]| logits[paris] = f32::NEG_INFINITY;
//! let text = model.generate("The capital of France is").max_tokens(8).sampler(forbid).text()?;
//! # assert!(!text.contains("Paris"));
//!
//! // JSON of a schema, or what a regular expression or a grammar accepts.
//! let year = model.grammar(&GrammarSource::Regex("1[0-9]{3}".into()))?;
//! let text = model.generate("It was founded in ").grammar(&year).text()?;
//! # assert_eq!(text.len(), 4);
//!
//! // Embeddings, of length 1.
//! let [a, b] = &model.embed(&["a cat", "a dog"])?[..] else { unreachable!() };
//! let similarity: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
//! # assert!(similarity > -1.0 && similarity <= 1.001);
//! # Ok(())
//! # }
//! ```
//!
//! # Who computes
//!
//! Each model has one thread, which runs a step for all texts in progress when a reader waits for one of them. A model is a handle
//! that clones and threads share, and its methods take `&self`. Iterators that you read in turn, and those of other threads, share
//! their steps. What others have not read yet is kept for them. So nothing is computed while no reader waits, a dropped iterator costs
//! nothing more, and an error reaches the one whom it concerns.
//!
//! All of this is made of a [`Request`]: [`Model::submit`] returns a [`Stream`] of [`Delta`]s, for a loop or for async code.
//! `examples/axum.rs` serves one to several clients.
//!
//! At most [`Options::sequences`] texts are in progress; others wait for their turn. On the CPU a text depends on its prompt, its
//! parameters and its seed only, whatever else is computed.
//!
//! # Speed
//!
//! Without optimisation, models are ten to twenty times slower. Put this into the `Cargo.toml` of your workspace:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
//!
//! If they are missing, Cargo warns those who depend on a path, but it hides such warnings of git repositories. So opening a model
//! says it once, too: as a warning of `tracing`, or on stderr if the program has no subscriber.
//!
//! # Cargo features
//!
//! All are on by default but `clap`: `gpu` (CUDA, Vulkan and Metal), `hub` ([`Model::pull`]), `demo-model` ([`Model::demo`]),
//! `schemars` (answers as values of types), `clap` ([`BackendName`] as the value of an option).
//!
//! # One layer down
//!
//! [`engine`] has the scheduler that this crate drives: values by name after each step, logits of prompts.
//! [`Options::engine`] puts it on the devices. [`devices`] lists them. The types of these crates in public items are re-exported.

mod chat;
pub mod devices;
mod driver;
mod error;
mod generate;
mod loaded;
mod model;
mod options;
mod prepare;
#[cfg(feature = "hub")]
mod pull;
mod request;
mod settings;
mod stream;

#[cfg(feature = "hub")]
pub use ::hub;
pub use {::backend, ::engine, ::gguf, ::grammar, ::runner};

pub use ::chat::{Calls, Choice, Delta as Part, Message, ToolCall};
pub use backend::KvType;
pub use chat::{Answer, Chat, Piece};
pub use devices::BackendName;
pub use driver::{Monitor, Progress, Stopper};
pub use engine::{Engine, KvFormat, Logprobs, Params, Speculation, StopReason, Tenant, Usage};
pub use error::{Error, Field, Result};
pub use generate::{Batch, Candidate, Completion, Generate, Token, Tokens};
pub use grammar::{Grammar, Source as GrammarSource, Trigger};
pub use model::Model;
pub use options::Options;
pub use prepare::Prepared;
pub use request::{Conversation, Ending, Input, PromptPiece, Request, TemplateUse};
pub use runner::placement::{Layers, Split, SplitMode};
pub use stream::{Delta, DeltaKind, Deltas, End, Stream};
