//! Errors of unsupported or invalid models.

/// A model that cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The architecture is not supported.
    #[error(
        "metadata key `general.architecture` is {found}: this architecture is not supported; supported: {supported}"
    )]
    Architecture {
        /// Architecture of the file.
        found: String,
        /// The supported architectures.
        supported: String,
    },
    /// The file has no tensors.
    #[error("the file has a vocabulary but no tensors; use a file with the model's weights")]
    NoTensors,
    /// A key without a default is missing.
    #[error("metadata key `{key}` is missing: {what}; the file is incomplete; convert the model again")]
    MissingKey {
        /// The key.
        key: String,
        /// Meaning of the key.
        what: &'static str,
    },
    /// A key has a value of another type.
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    /// A key has an invalid value.
    #[error(
        "metadata key `{key}` is {found}, expected {expected}; the file is damaged or was converted incorrectly"
    )]
    BadValue {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// Valid values.
        expected: String,
    },
    /// A key requests an unsupported computation.
    #[error("metadata key `{key}` is {found}: {what} is not supported for architecture {architecture}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// The requested feature.
        what: &'static str,
        /// The file's architecture.
        architecture: &'static str,
    },
    /// A tensor of the graph is missing.
    #[error(
        "tensor `{name}` of shape {expected:?} is missing; the file is incomplete; convert or download it again"
    )]
    MissingTensor {
        /// Its name.
        name: String,
        /// Expected shape, fastest dimension first.
        expected: Vec<usize>,
    },
    /// A tensor has a single expert, instead of all experts of a layer.
    #[error(
        "tensor `{name}` has a single expert, the layout of Mixtral files before April 2024, which is not supported; \
         convert the model again"
    )]
    SplitExperts {
        /// Its name.
        name: String,
    },
    /// The shape of a tensor does not match the hyper-parameters.
    #[error("tensor `{name}` has shape {found:?}, the hyper-parameters require {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Shape in the file, fastest dimension first.
        found: Vec<usize>,
        /// Expected shape.
        expected: Vec<usize>,
    },
    /// A tensor that the graph does not use; ignoring it could change the result.
    #[error(
        "tensor `{name}` is not used by the supported variant of architecture {architecture}; ignoring it could give wrong results"
    )]
    UnusedTensor {
        /// Its name.
        name: String,
        /// The file's architecture.
        architecture: &'static str,
    },
}
