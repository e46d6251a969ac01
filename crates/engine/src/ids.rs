//! Ids of requests.

/// A request, unique within its engine. Ids increase in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);
