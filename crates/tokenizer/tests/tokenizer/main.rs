//! Tests of the tokenizer from outside.

mod from_metadata;
mod fuzzed;
mod hostile;
mod llama_cpp;
mod made;
mod properties;
mod shared_vocab;
