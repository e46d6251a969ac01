//! What keeps a model from being quantised, and what is worth knowing of one that was.

use std::fmt;
use std::path::PathBuf;

use gguf::quoted;
use models::Family;
use quant::Format;

/// The largest F16.
pub(crate) const LARGEST_F16: f32 = 65504.0;

/// Why a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read, or was truncated while in use.
    #[error(transparent)]
    File(#[from] gguf::Error),
    /// A key of the metadata has another type.
    #[error("{file}: {source}")]
    Metadata {
        /// The file.
        file: String,
        /// The key.
        source: gguf::WrongType,
    },
    /// Nobody knows which formats suit the tensors of such a model.
    #[error(
        "{file}: the architecture is {}; which formats suit a model's tensors is known for {}",
        quoted(architecture),
        Family::names()
    )]
    Architecture {
        /// The file.
        file: String,
        /// `general.architecture`
        architecture: String,
    },
    /// The same of a mixture of experts.
    #[error("{file}: the model is a mixture of {experts} experts, and formats for these are not known")]
    Experts {
        /// The file.
        file: String,
        /// `expert_count`
        experts: u32,
    },
    /// A key that every model has.
    #[error("{file}: {key} is missing: no whole model")]
    MissingKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
    },
    /// A tensor that is quantised already.
    #[error(
        "{file}: {} is in {format} already, and what that lost would be lost again; start from the file in F16, \
         BF16 or F32",
        quoted(tensor)
    )]
    Requantize {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its format.
        format: Format,
    },
    /// A file that is no imatrix, or a damaged one.
    #[error("imatrix {}: {why}", path.display())]
    Imatrix {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        why: String,
    },
    /// An imatrix of another model.
    #[error("the imatrix is of another model: {0}")]
    OtherModel(String),
    /// A value that no format can hold.
    #[error("{0}: only finite numbers can be quantised; nothing was written")]
    NotFinite(#[from] NotFinite),
    /// The file cannot be written.
    #[error("cannot write the file")]
    Write(#[from] gguf::WriteError),
}

/// Values of a tensor that are NaN or infinite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{} holds {value} in row {row}, column {column}", quoted(tensor))]
pub struct NotFinite {
    /// The tensor.
    pub tensor: String,
    /// Row of the first of them.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// What it is.
    pub value: f32,
    /// How many there are.
    pub count: usize,
}

/// What is worth knowing of a plan that can be carried out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The imatrix has entries for these, which the model has not.
    Strangers(Vec<String>),
    /// The imatrix has no entries for these, whose columns count the same.
    Unknown(Vec<String>),
    /// A tensor whose values are beyond the F16 scales of its format.
    BeyondF16 {
        /// The tensor.
        tensor: String,
        /// Its largest magnitude.
        largest: f32,
        /// Its new format.
        format: Format,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Strangers(names) => {
                write!(f, "the imatrix knows tensors that this model has not: {}", listed(names))
            }
            Warning::Unknown(names) => {
                write!(f, "the imatrix does not know {}; all columns count the same there", listed(names))
            }
            Warning::BeyondF16 { tensor, largest, format } => write!(
                f,
                "{} holds values up to {largest:e}, and the scales of {format} are F16, whose largest is {}; larger \
                 values become the largest that the format has",
                quoted(tensor),
                LARGEST_F16
            ),
        }
    }
}

/// The first few names, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    const MOST: usize = 4;
    let shown: Vec<String> = names.iter().take(MOST).map(|name| quoted(name).to_string()).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
