//! The error of this crate.

use std::sync::Arc;

use backend::Remedy;
use engine::RequestError;
use runner::placement::PlacementError;

use crate::devices::NoGpu;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file, the model, the request or a device.
    #[error("{error}{}", advice(error))]
    Engine {
        /// The error.
        #[source]
        error: Arc<engine::Error>,
    },
    /// The model cannot be put on the devices.
    #[error("{0}; {advice}", advice = placement_advice(.0))]
    Placement(PlacementError),
    /// The requested GPU is missing.
    #[error("{0}; `BackendName::CPU` and `BackendName::Auto` need none")]
    Gpu(NoGpu),
    /// The model cannot be downloaded.
    #[cfg(feature = "hub")]
    #[error(transparent)]
    Hub(Arc<hub::Error>),
    /// The repository has no such model.
    #[cfg(feature = "hub")]
    #[error("{repo} has no {requested}; it has {found}")]
    NotInRepository {
        /// The repository.
        repo: hub::RepoId,
        /// The quantisation or file that was asked for.
        requested: String,
        /// What there is.
        found: String,
    },
    /// A field of a request has a wrong value.
    #[error("{message}")]
    Invalid {
        /// The field.
        field: Field,
        /// What was found and expected.
        message: String,
    },
    /// A field of a request asks for something that the model cannot do.
    #[error("{message}")]
    Unsupported {
        /// The field.
        field: Field,
        /// What, and what to do instead.
        message: String,
    },
    /// A text is too long for any context.
    #[error(
        "the text has {bytes} bytes, but a context of {n_ctx} tokens holds at most {most}; shorten it or increase the context \
         (`n_ctx`)"
    )]
    TextTooLong {
        /// Bytes of the text.
        bytes: usize,
        /// Bytes that the context can hold at most.
        most: usize,
        /// Tokens of the context.
        n_ctx: usize,
    },
    /// A grammar or a JSON schema.
    #[error("{error}")]
    Grammar {
        /// The field of the request that asks for it.
        field: Field,
        /// The error.
        error: grammar::Error,
    },
    /// The answer is not the JSON of the requested type: it was cut, or the type accepts less than its schema.
    #[error("the answer cannot be read as the requested type: {error}; it is {text:?}")]
    Json {
        /// The answer.
        text: String,
        /// The error.
        error: Arc<serde_json::Error>,
    },
    /// A conversation leaves no room for an answer.
    #[error(
        "the conversation has at least {tokens} tokens, which leaves no room for an answer in a context of {n_ctx}; start a new one or \
         increase the context (`n_ctx`)"
    )]
    ConversationFull {
        /// Tokens of the prompt, or a lower bound if that is enough to refuse it.
        tokens: usize,
        /// Tokens of the context.
        n_ctx: usize,
    },
    /// A saved conversation cannot be written.
    #[error(transparent)]
    Output(Arc<gguf::output::Error>),
    /// A saved conversation cannot be read or written.
    #[error("{path}: {source}")]
    Conversation {
        /// The file.
        path: String,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// No thread for the engine.
    #[error("cannot start the engine's thread: {0}")]
    Thread(Arc<std::io::Error>),
    /// A request was prepared by another model.
    #[error("a request was prepared by another model; submit it to the model that prepared it")]
    OtherModel,
    /// The model's owner ended all requests.
    #[error("the model is shutting down; the request was ended")]
    Closed,
    /// No grammar can constrain the model's tokens.
    #[error(transparent)]
    Vocabulary(#[from] grammar::VocabularyError),
    /// Scores of documents need a reranker.
    #[error("{file} is no reranker; open one such as bge-reranker, or compare the texts by `Model::embed`")]
    NoReranker {
        /// The model's file.
        file: String,
    },
    /// A sampler hook or an observer panicked within a step.
    #[error("an earlier step panicked, perhaps in a sampler hook: the model's state is lost; open it again")]
    Panicked,
}

/// A field of a [`Request`](crate::Request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the request's fields")]
pub enum Field {
    Messages,
    Tools,
    ToolChoice,
    Format,
}

impl Error {
    pub(crate) fn invalid(field: Field, message: impl Into<String>) -> Error {
        Error::Invalid { field, message: message.into() }
    }

    pub(crate) fn unsupported(field: Field, message: impl Into<String>) -> Error {
        Error::Unsupported { field, message: message.into() }
    }

    pub(crate) fn conversation(path: &std::path::Path, error: std::io::Error) -> Error {
        Error::Conversation { path: path.display().to_string(), source: Arc::new(error) }
    }

    pub(crate) fn grammar(field: Field, error: grammar::Error) -> Error {
        Error::Grammar { field, error }
    }

    /// The backend's error, if it is one.
    pub(crate) fn backend_error(&self) -> Option<&backend::Error> {
        match self {
            Error::Engine { error } => backend_error(error),
            _ => None,
        }
    }
}

fn backend_error(error: &engine::Error) -> Option<&backend::Error> {
    if let engine::Error::Backend(error) = error { Some(error) } else { None }
}

fn placement_advice(error: &PlacementError) -> &'static str {
    match error {
        PlacementError::TooManyProportions(_) => "`Options::tensor_split` takes at most one for each GPU",
        PlacementError::TensorSplit(_) => {
            "`SplitMode::Layer`, the default of `Options::split_mode`, gives each GPU whole layers"
        }
        PlacementError::ShareTooLarge(_) => {
            "`Layers::Auto` offloads as many layers as fit in these proportions, others in `Options::tensor_split` perhaps more"
        }
        _ => "`Layers::Auto` offloads as many layers as fit",
    }
}

/// The options of this crate that remedy `error`, beyond the error's own advice.
fn advice(error: &engine::Error) -> &'static str {
    let Some(backend::Error::OutOfMemory { remedy, .. } | backend::Error::OverBudget { remedy, .. }) =
        backend_error(error)
    else {
        return "";
    };
    match remedy {
        Remedy::SmallerContext => " (`Options::n_ctx`)",
        Remedy::SmallerBatch => " (`Options::n_batch`)",
        Remedy::LeaveWeightsInFile => " (`Options::leave_weights_in_file`)",
        Remedy::FewerLayers => " (`Options::gpu_layers`)",
        Remedy::UseCpu => " (`Options::backend`)",
        Remedy::RaiseLimit => " (`Options::gpu_memory`, `Options::gpu_layers`)",
        _ => "",
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Error {
        Error::Engine { error: Arc::new(error) }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Thread(Arc::new(error))
    }
}

impl From<gguf::output::Error> for Error {
    fn from(error: gguf::output::Error) -> Error {
        Error::Output(Arc::new(error))
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        engine::Error::from(error).into()
    }
}

impl From<backend::Error> for Error {
    fn from(error: backend::Error) -> Error {
        engine::Error::from(error).into()
    }
}

impl From<gguf::Error> for Error {
    fn from(error: gguf::Error) -> Error {
        engine::Error::from(error).into()
    }
}

impl From<PlacementError> for Error {
    fn from(error: PlacementError) -> Error {
        match error {
            PlacementError::Backend(error) => error.into(),
            error => Error::Placement(error),
        }
    }
}

impl From<NoGpu> for Error {
    fn from(error: NoGpu) -> Error {
        Error::Gpu(error)
    }
}

#[cfg(feature = "hub")]
impl From<hub::Error> for Error {
    fn from(error: hub::Error) -> Error {
        Error::Hub(Arc::new(error))
    }
}
