//! Grammars of every kind, on every kind of vocabulary.

mod calls;
mod common;
mod compiling;
mod dialects;
mod gates;
mod gbnf;
mod hostile;
mod large;
mod refusals;
mod requests;
mod sampled;
mod schemas;
mod triggers;
mod vocabularies;
