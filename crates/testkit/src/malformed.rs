//! Malformed GGUF files, the stage that must refuse each, and what its message must contain.
//!
//! The files are built byte by byte ([`raw`]), independently of the project's writer, which would refuse to write most
//! of them. Each case differs from a valid file ([`valid`]) in one aspect.

mod arrays;
mod header;
mod keys;
mod llama;
mod model;
pub mod raw;
mod tensors;
mod vocabulary;

/// The stage that must refuse a file; earlier stages accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Parsing: structure, metadata types, tensor list.
    File,
    /// Building the tokenizer from the metadata.
    Tokenizer,
    /// Building the model from metadata and tensors.
    Model,
}

/// A file that must be refused.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// Unique name: what is wrong.
    pub name: &'static str,
    /// Content of the file.
    pub bytes: Vec<u8>,
    /// The stage that must refuse it.
    pub stage: Stage,
    /// Parts of the message: what is wrong, and where.
    pub expect: Vec<&'static str>,
}

/// All cases.
pub fn cases() -> Vec<Malformed> {
    [header::cases(), keys::cases(), arrays::cases(), tensors::cases(), vocabulary::cases(), model::cases()]
        .concat()
}

/// The valid base files of the cases, with names; every stage accepts the second.
pub fn valid() -> [(&'static str, Vec<u8>); 2] {
    [("small file", tensors::base().bytes()), ("tiny llama", llama::Llama::new().into())]
}

/// Cases that `stage` must refuse: name, file, and the parts of the message besides `place`.
fn refused<F: Into<Vec<u8>>, const N: usize>(
    stage: Stage,
    place: &'static str,
    cases: [(&'static str, F, &[&'static str]); N],
) -> Vec<Malformed> {
    let case = |(name, file, expect): (&'static str, F, &[&'static str])| Malformed {
        name,
        bytes: file.into(),
        stage,
        expect: [&[place], expect].concat(),
    };
    cases.into_iter().map(case).collect()
}
