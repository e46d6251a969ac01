//! Chat templates: from messages to the prompt that a model expects.
//!
//! A [`Template`] is the Jinja template of a GGUF file, rendered as in Hugging Face's `transformers` to a [`Prompt`]: special
//! tokens of the template as tokens, everything else as text. Its [`AnswerParser`] finds reasoning and tool calls in the answer,
//! in the [`ToolFormat`] that the template shows.
//!
//! Templates are untrusted input. Rendering takes at most about [ten seconds](Options::time) and some hundred megabytes. Limits
//! apply to the source's length and nesting before compilation; to minijinja's fuel ([`MAX_STEPS`]) and recursion; with each
//! value, to the time and the size of all values read or made ([`MAX_WORK_BYTES`]); and to the output ([`MAX_OUTPUT_BYTES`]).

mod answer;
mod builtin;
mod capabilities;
mod delta;
mod error;
mod filters;
mod format;
mod function;
mod guard;
mod history;
mod jinja;
mod json;
mod limits;
mod marks;
mod message;
mod meter;
mod methods;
mod operators;
mod parts;
mod prompt;
mod reasoning;
mod shape;
mod system;
mod template;
mod text;
mod tools;

pub use answer::AnswerParser;
pub use builtin::{builtin, builtin_names};
pub use capabilities::reasoning_switch;
pub use delta::{Answer, Calls, Delta};
pub use error::Error;
pub use message::{Content, ContentPart, FunctionCall, Message, ToolCall};
pub use parts::{AnswerPart, Enclosed, Leads, Marks, Next, OpeningPlace, Preamble};
pub use prompt::{Segment, TurnEnd};
pub use reasoning::Span;
pub use template::{Options, Prompt, Specials, Template};
pub use tools::{
    Choice, Grammar, Tool, ToolFormat, Tools, ToolsError, Trigger, Unenforced, is_annotation, plain_schema,
};

/// Maximum template length in bytes. The longest known templates have 20 kB.
pub const MAX_SOURCE_BYTES: usize = 1 << 18;

/// Maximum output length in bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Maximum steps of minijinja's virtual machine per rendering: enough for thousands of messages.
pub const MAX_STEPS: u64 = 4_000_000;

/// Maximum bytes of text and lists read or made per rendering, plus [`WORK_PER_BYTE`] per byte of the conversation.
pub const MAX_WORK_BYTES: usize = 128 << 20;

/// Reads allowed per byte of the conversation.
pub const WORK_PER_BYTE: usize = 64;
