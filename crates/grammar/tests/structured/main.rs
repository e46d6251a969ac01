//! Grammars of every kind, on every kind of vocabulary.

mod common;
mod schemas;
