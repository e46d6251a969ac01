//! What may precede the content of an answer.

use crate::reasoning;
use crate::tools::format::Format;

/// The marks before and around the content of answers, by which a constraint finds the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// What encloses reasoning, at the start of an answer.
    pub reasoning: Option<Enclosed>,
    /// Marks before content that are no part of it.
    pub headers: Vec<&'static str>,
    /// Marks after content.
    pub ends: Vec<&'static str>,
}

/// Text between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Enclosed {
    pub open: &'static str,
    pub close: &'static str,
}

impl Preamble {
    pub(crate) fn new(reasoning: Option<&reasoning::Format>, format: Option<&Format>) -> Preamble {
        let headers = reasoning.into_iter().flat_map(|format| format.headers);
        Preamble {
            reasoning: reasoning.map(|format| Enclosed { open: format.open, close: format.close }),
            headers: headers.chain(format.into_iter().flat_map(|format| format.headers)).copied().collect(),
            ends: reasoning.into_iter().flat_map(|format| format.ends).copied().collect(),
        }
    }
}
