//! A context that does not fit in memory.

pub(crate) mod refusal;
pub(crate) mod search;
