//! Errors of the engine.

use crate::request::RequestError;
use crate::sampling::SamplingError;
use crate::scheduler::Refusal;

/// An engine error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Error {
    /// The file cannot be read, is not valid GGUF, or was changed while in use.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// The model in the file is invalid or not supported.
    #[error("{path}: {source}")]
    Model { path: String, source: models::Error },
    /// The tokenizer in the file is invalid or not supported.
    #[error("{path}: {source}")]
    Tokenizer { path: String, source: tokenizer::Error },
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] backend::Error),
    /// An invalid field of [`Options`](crate::Options).
    #[error("option `{name}` is {value}, expected {expected}")]
    Option { name: &'static str, value: usize, expected: &'static str },
    /// The model's training context is below the minimum of a request, and no other context was requested.
    #[error(
        "the model was trained on {trained} tokens of context (metadata key `context_length` of its \
         architecture), but a request needs 2; set option `n_ctx`"
    )]
    TrainedContext { trained: usize },
    /// The prompt was refused.
    #[error(transparent)]
    Prompt(#[from] Refusal),
    /// The text is too long for the context, however it is tokenised.
    #[error(
        "the text is longer than {most} bytes, the most that a context of {n_ctx} tokens can hold; shorten it \
         or increase the context (`n_ctx`)"
    )]
    TextTooLong { most: usize, n_ctx: usize },
    /// An id of the prompt is not in the vocabulary.
    #[error("token {position} of the prompt has id {id}, but the vocabulary has {n_vocab} tokens")]
    Token { position: usize, id: u32, n_vocab: usize },
    /// Invalid sampling parameters.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// An empty stop string.
    #[error("a stop string is empty and would stop before the first token; leave it out")]
    EmptyStopString,
    /// The model has no usable chat template.
    #[error("the model has no usable chat template: {why}")]
    NoTemplate { why: String },
    /// The chat template rejected the conversation.
    #[error("{0}; raw mode works without the template")]
    Template(#[from] chat::Error),
    /// The conversation, the new message included, fills the context.
    #[error(
        "the conversation has {tokens} tokens, which leaves no room for an answer in a context of {n_ctx}; \
         start a new one or increase the context (`n_ctx`)"
    )]
    ConversationFull { tokens: usize, n_ctx: usize },
    /// A turn was started before the previous one ended.
    #[error("an answer is in progress; wait for its end or cancel it")]
    Answering,
    /// A conversation cannot be saved there.
    #[error(transparent)]
    Output(#[from] outfile::Error),
    /// A saved conversation cannot be written or read.
    #[error("{path}: {source}")]
    Conversation { path: String, source: std::io::Error },
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        match error {
            RequestError::Sampling(error) => error.into(),
            RequestError::Backend(error) => error.into(),
        }
    }
}

impl Error {
    pub(crate) fn conversation(path: &std::path::Path, source: std::io::Error) -> Error {
        Error::Conversation { path: path.display().to_string(), source }
    }
}
