//! Chat templates: from messages to the prompt a model expects.
//!
//! A [`Template`] is the Jinja template of a GGUF file, rendered as in Hugging Face's `transformers`. The result is a
//! [`Prompt`]: special tokens of the template as tokens, everything else as text, so that user text is never read as
//! a special token.
//!
//! Templates are untrusted. Rendering takes at most about [ten seconds](Error::TooMuchWork) and some hundred
//! megabytes: nesting is limited before compilation, and every instruction is charged for the sizes of what it reads
//! and makes, besides minijinja's limits of steps ([`MAX_STEPS`]) and recursion.
//!
//! What minijinja does differently from Jinja2, and no chat template needs, is refused by name: `autoescape`, filters
//! and methods for HTML and text layout (`urlencode`, `wordwrap`, `zfill` …), `*` before arguments of filters and
//! methods, tuples without brackets except in `set`, and escapes such as `\a`.

mod charges;
mod code;
mod error;
mod filters;
mod guard;
mod jinja;
mod json;
mod limits;
mod methods;
mod operators;
mod prompt;
mod source;
mod system;
mod template;
mod text;

pub use error::Error;
pub use prompt::{Message, Prompt, Segment};
pub use template::{Options, Specials, Template, TurnEnd};

/// Maximum template length in bytes. The longest known templates have 20 kB.
pub const MAX_SOURCE_BYTES: usize = 1 << 18;

/// Maximum output length in bytes.
pub const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Maximum steps of minijinja's virtual machine per rendering: enough for thousands of messages.
pub const MAX_STEPS: u64 = 4_000_000;

/// Maximum bytes of text and lists read or made per rendering, plus [`WORK_PER_BYTE`] for each byte of the
/// conversation.
pub const MAX_WORK_BYTES: usize = 128 << 20;

/// Reads allowed per byte of the conversation.
pub const WORK_PER_BYTE: usize = 64;
