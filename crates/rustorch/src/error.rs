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
    #[error("{repo} has no {wanted}; it has {found}")]
    NotInRepository {
        /// The repository.
        repo: hub::RepoId,
        /// The quantisation or file that was asked for.
        wanted: String,
        /// What there is.
        found: String,
    },
    /// The grammar, or the JSON schema.
    #[error(transparent)]
    Grammar(#[from] grammar::Error),
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

impl Error {
    /// The backend's error, if it is one.
    pub(crate) fn of_backend(&self) -> Option<&backend::Error> {
        match self {
            Error::Engine { error } => of_backend(error),
            _ => None,
        }
    }
}

fn of_backend(error: &engine::Error) -> Option<&backend::Error> {
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
        of_backend(error)
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
