//! Chat templates: from messages to the prompt a model expects.
//!
//! A [`Template`] is the Jinja template of a GGUF file, rendered as Hugging Face's `transformers`
//! does. The result is a [`Prompt`]: the template's own special tokens as tokens and everything else
//! as text, so that what a user typed is never read as a special token.
//!
//! Templates come from anywhere. Whatever one holds, rendering it takes seconds and some hundred
//! megabytes at most: its steps, its output and what it makes and reads on the way are bounded.

mod budget;
mod calls;
mod compile;
mod constants;
mod error;
mod guard;
mod jinja;
mod json;
mod operators;
mod prompt;
mod stack;
mod template;

pub use error::Error;
pub use prompt::{Message, Prompt, Segment};
pub use template::{Options, Specials, Template, TurnEnd};

/// Longest template that is accepted, in bytes. The longest of known models have 20 kB.
pub const MAX_SOURCE_BYTES: usize = 1 << 18;

/// Most text that a template may produce from one conversation, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Most steps (of minijinja's virtual machine) that one rendering may take: thousands of messages.
pub const MAX_STEPS: u64 = 1_000_000;

/// Most text and lists that one rendering may make on the way, in bytes; reading is an eighth as dear.
pub const MAX_WORK_BYTES: usize = 8 * MAX_OUTPUT_BYTES;
