//! What can go wrong in an engine.

use crate::request::RequestError;
use crate::sampling::SamplingError;
use crate::scheduler::Refusal;

/// An error of an engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, is not valid GGUF, or was changed while in use.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// The file's model cannot be computed.
    #[error("{path}: {source}")]
    Model {
        /// The file.
        path: String,
        /// Why not.
        source: models::Error,
    },
    /// The file's tokenizer cannot be used.
    #[error("{path}: {source}")]
    Tokenizer {
        /// The file.
        path: String,
        /// Why not.
        source: tokenizer::Error,
    },
    /// The backend cannot do what is asked of it.
    #[error(transparent)]
    Backend(#[from] backend::Error),
    /// Options that no engine can have.
    #[error("option `{name}` is {value}, expected {expected}")]
    Option {
        /// The field of [`Options`](crate::Options).
        name: &'static str,
        /// What it holds.
        value: usize,
        /// What it may hold.
        expected: &'static str,
    },
    /// The model was trained on less context than any request needs, and no other was asked for.
    #[error(
        "the model was trained on {trained} tokens of context (metadata key `context_length` of its \
         architecture), a request needs 2; set option `n_ctx`"
    )]
    TrainedContext {
        /// Tokens of context.
        trained: usize,
    },
    /// The prompt cannot be served.
    #[error(transparent)]
    Prompt(#[from] Refusal),
    /// The prompt holds an id that is no token.
    #[error("token {position} of the prompt has id {id}, but the vocabulary has {n_vocab} tokens")]
    Token {
        /// Its place in the prompt.
        position: usize,
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// How tokens are to be sampled makes no sense.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A stop string without text.
    #[error("a stop string is empty and would stop before the first token; leave it out")]
    EmptyStopString,
    /// A template was asked for and there is none.
    #[error("messages cannot go through a chat template: {why}")]
    NoTemplate {
        /// Why there is none.
        why: String,
    },
    /// The chat template refuses the conversation.
    #[error("{0}; raw text goes without the template")]
    Template(#[from] chat::Error),
    /// The conversation has grown as long as the context.
    #[error(
        "the conversation has {tokens} tokens, but the context holds {n_ctx} and must have room for an answer; \
         begin a new one or make the context larger (`n_ctx`)"
    )]
    ConversationFull {
        /// Tokens of the conversation, with what was just said.
        tokens: usize,
        /// Tokens of the context.
        n_ctx: usize,
    },
    /// A turn was begun while another has not ended.
    #[error("an answer has not ended; wait for its end or cancel it")]
    Answering,
    /// A saved conversation cannot be written or read.
    #[error("{path}: {source}")]
    Conversation {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: std::io::Error,
    },
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
