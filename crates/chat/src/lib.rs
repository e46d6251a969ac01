//! Chat templates: from messages to the prompt a model expects.
//!
//! A [`Template`] is the Jinja template of a GGUF file, rendered as Hugging Face's `transformers`
//! does. The result is a [`Prompt`]: the template's own special tokens as tokens and everything else
//! as text, so that what a user typed is never read as a special token.
//!
//! Templates come from anywhere. Whatever one holds, rendering it takes at most about [ten
//! seconds](Error::TooMuchWork) and some hundred megabytes; what bounds it:
//!
//! - The length of the source, and how deeply its blocks and expressions are nested, before it is compiled. So an
//!   ordinary stack is enough.
//! - minijinja's fuel ([`MAX_STEPS`]) and its limit to recursion of macros and loops.
//! - The sizes of all values that are read or made, summed up ([`MAX_WORK_BYTES`]), and a deadline, both checked
//!   with each value.
//! - The length of the output ([`MAX_OUTPUT_BYTES`]).

mod error;
mod fence;
mod filters;
mod guard;
mod jinja;
mod json;
mod lexer;
mod limits;
mod methods;
mod operators;
mod prompt;
mod system;
mod template;
mod text;

pub use error::Error;
pub use prompt::{Message, Prompt, Segment};
pub use template::{Options, Specials, Template, TurnEnd};

/// Longest template that is accepted, in bytes. The longest of known models have 20 kB.
pub const MAX_SOURCE_BYTES: usize = 1 << 18;

/// Most text that a template may produce from one conversation, in bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Most steps (of minijinja's virtual machine) that one rendering may take: thousands of messages.
pub const MAX_STEPS: u64 = 4_000_000;

/// Most text and lists that one rendering may read and make, in bytes. [`WORK_PER_BYTE`] come in addition for
/// each byte of the conversation.
pub const MAX_WORK_BYTES: usize = 128 << 20;

/// How often a rendering may read each byte of the conversation.
pub const WORK_PER_BYTE: usize = 64;
