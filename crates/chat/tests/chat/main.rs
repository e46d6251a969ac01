//! Tests of chat templates from outside.

mod bombs;
mod goldens;
mod limits;
mod marks;
mod with_tokenizer;
