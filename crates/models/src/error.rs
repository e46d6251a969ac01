//! Why a file's model is refused.

/// A model that cannot be computed as its file asks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is of a family that is not built.
    #[error(
        "metadata key `general.architecture` is {found}: that architecture is not supported; supported: {supported}"
    )]
    Architecture {
        /// The name found.
        found: String,
        /// Those that are.
        supported: String,
    },
    /// There are no weights.
    #[error("the file holds a vocabulary but no tensors; pass a file that holds the model's weights")]
    NoTensors,
    /// A key without a default is missing.
    #[error("metadata key `{key}` is missing: {what}; the file is incomplete, convert the model again")]
    MissingKey {
        /// The key.
        key: String,
        /// What it holds.
        what: &'static str,
    },
    /// A key holds another type.
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    /// A key holds a value that cannot be.
    #[error(
        "metadata key `{key}` is {found}, expected {expected}; the file is damaged or was converted wrongly"
    )]
    BadValue {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// A key asks for a computation that is not built.
    #[error("metadata key `{key}` is {found}: {what} is not supported for architecture {architecture}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What it asks for.
        what: &'static str,
        /// The file's architecture.
        architecture: &'static str,
    },
    /// A tensor of the architecture is not in the file.
    #[error(
        "tensor `{name}` of shape {expected:?} is missing; the file is incomplete, convert or download it again"
    )]
    MissingTensor {
        /// Its name.
        name: String,
        /// The shape it should have, fastest dimension first.
        expected: Vec<usize>,
    },
    /// A tensor holds one expert, where all experts of a layer are expected in one tensor.
    #[error(
        "tensor `{name}` holds one expert alone, as files of Mixtral did until 2024; such files are not supported, \
         convert the model again"
    )]
    SplitExperts {
        /// Its name.
        name: String,
    },
    /// A tensor's shape is not what the hyper-parameters say.
    #[error("tensor `{name}` has shape {found:?}, the hyper-parameters say {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// The shape in the file, fastest dimension first.
        found: Vec<usize>,
        /// The shape it should have.
        expected: Vec<usize>,
    },
    /// A tensor that the architecture does not know; leaving it out could change the result.
    #[error(
        "tensor `{name}` is not part of architecture {architecture} as it is supported; running without it could give wrong answers"
    )]
    UnusedTensor {
        /// Its name.
        name: String,
        /// The file's architecture.
        architecture: &'static str,
    },
}
