//! Why a tokenizer cannot be exported.

/// Why a tokenizer cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    #[error(transparent)]
    Tokenizer(#[from] tokenizer::Error),
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error(transparent)]
    Out(#[from] outfile::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: std::path::PathBuf, source: std::io::Error },
    /// The format of Hugging Face cannot express the tokenizer.
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {why}")]
    Inexpressible { kind: &'static str, why: String },
    /// The library `tokenizers` reads something else out of the file than what was meant.
    #[error(
        "this {kind} tokenizer cannot be written in Hugging Face's format: of {text} it would make the tokens \
         {found:?} instead of {expected:?}"
    )]
    Differs { kind: &'static str, text: String, found: Vec<u32>, expected: Vec<u32> },
    /// The library `tokenizers` refuses the file.
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {source}")]
    Library { kind: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}
