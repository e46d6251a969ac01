//! Tests of chat templates from outside.

mod bombs;
mod builtin;
mod fuzzed;
mod goldens;
mod limits;
mod marks;
mod messages;
mod reasoning;
mod system;
mod with_tokenizer;
