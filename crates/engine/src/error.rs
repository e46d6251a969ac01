//! Errors of the engine.

use crate::request::RequestError;
use crate::sampling::SamplingError;
use crate::scheduler::Refusal;

/// An engine error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(transparent)]
    File(#[from] gguf::Error),
    #[error("{path}: {source}")]
    Model { path: String, source: models::Error },
    #[error("{path}: {source}")]
    Tokenizer { path: String, source: tokenizer::Error },
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error("option `{name}` is {value}, expected {expected}")]
    Option { name: &'static str, value: usize, expected: &'static str },
    #[error(
        "the model was trained on {trained} tokens of context (metadata key `context_length` of its \
         architecture), but a request needs 2; set option `n_ctx`"
    )]
    TrainedContext { trained: usize },
    #[error(transparent)]
    Prompt(#[from] Refusal),
    #[error(
        "the model computes embeddings ({pooling}), not the probabilities of tokens, so that it cannot write text"
    )]
    ComputesEmbeddings { pooling: models::Pooling },
    #[error(transparent)]
    Key(#[from] gguf::WrongType),
    #[error("the engine does not use drafts; set option `speculation`")]
    NotSpeculating,
    #[error(
        "{file}: `{architecture}` has recurrent layers, whose state cannot go back to before drafted tokens that are not \
         accepted, so that it can neither draft nor use drafts"
    )]
    CannotGoBack { file: String, architecture: String },
    #[error(
        "{draft} cannot draft for {model}: token {id} is {found:?} in its vocabulary, expected {expected:?}; take a smaller \
         model of the same family"
    )]
    DraftVocabulary { draft: String, model: String, id: u32, found: String, expected: String },
    #[error("the model was opened to compute the probabilities of tokens, not embeddings")]
    ComputesLogits,
    #[error(
        "text {text} has {tokens} tokens, expected 1 to {n_ctx}; shorten it or increase the context (`n_ctx`)"
    )]
    TextLength { text: usize, tokens: usize, n_ctx: usize },
    #[error("token {position} of the prompt has id {id}, but the vocabulary has {n_vocab} tokens")]
    Token { position: usize, id: u32, n_vocab: usize },
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error("a stop string is empty and would stop before the first token; leave it out")]
    EmptyStopString,
    #[error("`min_tokens` is {min}, but at most {max} tokens are asked for; lower it")]
    MinTokens { min: usize, max: usize },
    #[error("the model has no usable chat template: {why}")]
    NoTemplate { why: String },
    #[error("{0}; raw mode works without the template")]
    Template(#[from] chat::Error),
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        match error {
            RequestError::Sampling(error) => error.into(),
            RequestError::Backend(error) => error.into(),
        }
    }
}
