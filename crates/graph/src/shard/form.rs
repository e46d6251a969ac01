//! Ranks, and the forms in which one has a value.

use std::fmt;
use std::ops::Range;

use crate::{StoreId, ValueId, WeightId};

/// One of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    /// From 0 on.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl Rank {
    /// Its part of `units` units: consecutive, and never more than one unit larger than that of another rank.
    pub(super) fn part(self, units: usize) -> Range<usize> {
        let start = |rank| units * rank / self.ranks;
        start(self.rank)..start(self.rank + 1)
    }
}

/// Why a graph cannot be sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardError {
    /// The value that cannot be split.
    pub value: String,
    /// Why not.
    pub why: String,
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be split over several ranks: {}", self.value, self.why)
    }
}

impl std::error::Error for ShardError {}

/// The form in which a rank has a value. In this order, a form may be made of an earlier one of the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Form {
    /// A summand: the sum over all ranks is the value.
    Partial,
    Whole,
    /// Columns from `start` on.
    Columns {
        start: usize,
        len: usize,
    },
}

/// Receives the operands of a form, and returns those of the operation that makes it.
pub(super) trait Operands {
    fn value(&mut self, id: ValueId, form: Form) -> ValueId;
    /// These rows and columns of each matrix.
    fn weight(&mut self, id: WeightId, rows: Range<usize>, cols: Range<usize>) -> WeightId;
    /// The rank's heads of a store.
    fn store(&mut self, id: StoreId) -> StoreId;
}
