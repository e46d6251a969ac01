//! Pooling: the vector that represents a sequence.

use std::fmt;

use crate::{Error, Keys};

/// The result of an embedding model for a sequence; the numbers are those of the key `pooling_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// One embedding per token (0).
    None,
    /// The mean of the tokens' rows (1).
    Mean,
    /// The first token's row (2).
    Cls,
    /// The last token's row (3).
    Last,
    /// The scores of a classifier, such as a reranker's (4).
    Rank,
}

impl Pooling {
    /// All kinds, by the number of `pooling_type`.
    pub const ALL: [Pooling; 5] = [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last, Pooling::Rank];

    /// The name, such as `mean`.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::None => "none",
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::Last => "last",
            Pooling::Rank => "rank",
        }
    }

    /// The file's kind; `None` if it has no such key.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Pooling, Error> {
        let number = keys.count("pooling_type")?;
        let kind = Pooling::ALL.get(number).copied();
        kind.ok_or_else(|| keys.bad("pooling_type", number, "a number from 0 to 4"))
    }
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
