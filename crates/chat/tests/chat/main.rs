//! Tests of chat templates from outside.

mod goldens;
mod limits;
mod marks;
mod with_tokenizer;
