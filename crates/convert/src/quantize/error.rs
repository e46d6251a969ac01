//! Errors and warnings.

use std::path::PathBuf;

use gguf::quoted;
use quant::Format;

pub(super) const LARGEST_F16: f32 = 65504.0;

/// Why a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(transparent)]
    File(#[from] gguf::Error),
    #[error("{file}: {why}")]
    Model { file: String, why: String },
    #[error(
        "{file}: {} is in {format} already, and what that lost would be lost again; start from the file in F16, \
         BF16 or F32",
        quoted(tensor)
    )]
    Requantize { file: String, tensor: String, format: Format },
    #[error(
        "{} would become {format}, which loses too much without an imatrix; give one, or choose another type",
        quoted(tensor)
    )]
    Blind { tensor: String, format: Format },
    #[error("imatrix {}: {why}", path.display())]
    Imatrix { path: PathBuf, why: String },
    #[error("the imatrix is of another model: {0}")]
    OtherModel(String),
    #[error("{0}: only finite numbers can be quantised; nothing was written")]
    NotFinite(#[from] NotFinite),
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
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Warning {
    #[error("the imatrix has entries for tensors that this model lacks: {}", listed(.0))]
    Strangers(Vec<String>),
    #[error("the imatrix has no entry for {}; their columns get equal weights", listed(.0))]
    Unknown(Vec<String>),
    #[error(
        "{} holds values up to {largest:e}, and the scales of {format} are F16, whose largest is {LARGEST_F16}; larger \
         values become the largest that the format has",
        quoted(tensor)
    )]
    BeyondF16 { tensor: String, largest: f32, format: Format },
}

pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| quoted(name).to_string()).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
