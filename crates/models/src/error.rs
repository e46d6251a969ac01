//! Errors of unsupported or invalid models.

/// A model that cannot be run. Shapes are as in the file, fastest dimension first.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(
        "metadata key `general.architecture` is {found}: this architecture is not supported; supported: {supported}"
    )]
    Architecture { found: String, supported: String },
    #[error("the file is {what}, not a model: {advice}")]
    OtherKind { what: &'static str, advice: &'static str },
    #[error("the file has a vocabulary but no tensors; use a file with the model's weights")]
    NoTensors,
    #[error("metadata key `{key}` is missing: {what}; the file is incomplete; convert the model again")]
    MissingKey { key: String, what: &'static str },
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error(
        "metadata key `{key}` is {found}, expected {expected}; the file is damaged or was converted incorrectly"
    )]
    BadValue { key: String, found: String, expected: String },
    #[error("metadata key `{key}` is {found}: {what} is not supported for architecture {architecture}")]
    Unsupported { key: String, found: String, what: &'static str, architecture: &'static str },
    #[error(
        "the file has no classifier, which scores need: neither tensor `cls.weight` nor `cls.output.weight`; use the file of a \
         reranker, or another pooling"
    )]
    NoClassifier,
    #[error(
        "tensor `{name}` of shape {expected:?} is missing; the file is incomplete; convert or download it again"
    )]
    MissingTensor { name: String, expected: Vec<usize> },
    #[error(
        "tensor `{name}` has a single expert, the layout of Mixtral files before April 2024, which is not supported; \
         convert the model again"
    )]
    SplitExperts { name: String },
    #[error("tensor `{name}` has shape {found:?}, the hyper-parameters require {expected:?}")]
    TensorShape { name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error(
        "tensor `{name}` is not used by the supported variant of architecture {architecture}; ignoring it could give wrong results"
    )]
    UnusedTensor { name: String, architecture: &'static str },
}
