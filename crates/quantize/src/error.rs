//! Errors and warnings.

use std::path::PathBuf;

use gguf::quoted;
use quant::Format;

pub(crate) const LARGEST_F16: f32 = 65504.0;

/// Why a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// The file cannot be read, or was truncated while in use.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// The metadata is invalid, or of a model whose formats are not known.
    #[error("{file}: {why}")]
    Model { file: String, why: String },
    /// A tensor is quantised already.
    #[error(
        "{file}: {} is in {format} already, and what that lost would be lost again; start from the file in F16, \
         BF16 or F32",
        quoted(tensor)
    )]
    Requantize { file: String, tensor: String, format: Format },
    /// The format loses too much without an imatrix.
    #[error(
        "{} would become {format}, which loses too much without an imatrix; give one, or choose another type",
        quoted(tensor)
    )]
    Blind { tensor: String, format: Format },
    /// The file is no imatrix, or a damaged one.
    #[error("imatrix {}: {why}", path.display())]
    Imatrix { path: PathBuf, why: String },
    /// The imatrix is of another model.
    #[error("the imatrix is of another model: {0}")]
    OtherModel(String),
    /// A weight is NaN or infinite.
    #[error("{0}: only finite numbers can be quantised; nothing was written")]
    NotFinite(#[from] NotFinite),
    /// The file cannot be written.
    #[error("cannot write the file")]
    Write(#[from] gguf::WriteError),
}

/// A tensor has NaNs or infinities.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{} holds {value} in row {row}, column {column}", quoted(tensor))]
#[expect(missing_docs, reason = "the message says what the fields are")]
pub struct NotFinite {
    pub tensor: String,
    pub row: usize,
    pub column: usize,
    pub value: f32,
    /// How many there are; the other fields are of the first.
    pub count: usize,
}

/// What users should know before a plan is carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Warning {
    /// The imatrix has entries for tensors that the model lacks.
    #[error("the imatrix has entries for tensors that this model lacks: {}", listed(.0))]
    Strangers(Vec<String>),
    /// The imatrix has no entries for these tensors.
    #[error("the imatrix has no entry for {}; their columns get equal weights", listed(.0))]
    Unknown(Vec<String>),
    /// Values exceed the F16 scales of the new format.
    #[error(
        "{} holds values up to {largest:e}, and the scales of {format} are F16, whose largest is {LARGEST_F16}; larger \
         values become the largest that the format has",
        quoted(tensor)
    )]
    BeyondF16 { tensor: String, largest: f32, format: Format },
}

/// The first few names, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name).to_string()).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
