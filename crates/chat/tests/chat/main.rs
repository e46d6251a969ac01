//! Tests of chat templates from outside.

mod bombs;
mod fuzzed;
mod goldens;
mod limits;
mod marks;
mod messages;
mod system;
mod with_tokenizer;
