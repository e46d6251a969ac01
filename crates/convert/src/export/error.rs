//! Why a tokenizer cannot be exported.

/// Why a tokenizer cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(transparent)]
    Tokenizer(#[from] tokenizer::Error),
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error(transparent)]
    Out(#[from] gguf::output::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: std::path::PathBuf, source: std::io::Error },
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {why}")]
    Inexpressible { kind: &'static str, why: String },
    #[error(
        "this {kind} tokenizer cannot be written in Hugging Face's format: of {text} it would make the tokens \
         {found:?} instead of {expected:?}"
    )]
    Differs { kind: &'static str, text: String, found: Vec<u32>, expected: Vec<u32> },
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {source}")]
    Library { kind: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}
