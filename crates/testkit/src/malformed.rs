//! Malformed GGUF files: what must be refused, at which stage, and what the message must say.
//!
//! The files are built byte by byte ([`raw`]), independently of the project's own writer, which
//! refuses to write most of them. Each case differs from a valid file ([`valid`]) in one thing.

mod arrays;
mod header;
mod keys;
mod llama;
mod model;
pub mod raw;
mod tensors;
mod vocabulary;

/// Who must refuse a file; the stages before accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the file: structure, metadata types, tensor list.
    File,
    /// Making a tokenizer from the metadata.
    Tokenizer,
    /// Making a model from metadata and tensors.
    Model,
}

/// A file that must be refused.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// What is wrong; unique.
    pub name: &'static str,
    /// The file's content.
    pub bytes: Vec<u8>,
    /// Who must refuse it.
    pub stage: Stage,
    /// What the message must contain: what is wrong and where.
    pub expect: &'static [&'static str],
}

/// Every case.
pub fn cases() -> Vec<Malformed> {
    [header::cases(), keys::cases(), arrays::cases(), tensors::cases(), vocabulary::cases(), model::cases()]
        .concat()
}

/// The valid files that the cases are made from, with their names: every stage accepts the second.
pub fn valid() -> [(&'static str, Vec<u8>); 2] {
    [("small file", tensors::base().bytes()), ("tiny llama", llama::Llama::new().bytes())]
}

/// A case that reading the file must refuse.
fn file(name: &'static str, bytes: Vec<u8>, expect: &'static [&'static str]) -> Malformed {
    Malformed { name, bytes, stage: Stage::File, expect }
}
