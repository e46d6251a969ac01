//! The pieces of a rendered prompt.

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text, not to be searched for special tokens.
    Text(String),
    /// A special token of the template.
    #[expect(missing_docs, reason = "the names say it")]
    Token { id: u32, text: String },
}

impl Segment {
    pub(crate) fn token(&self) -> Option<u32> {
        match self {
            Segment::Token { id, .. } => Some(*id),
            Segment::Text(_) => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Segment::Text(text) | Segment::Token { text, .. } => text,
        }
    }
}

pub(crate) fn text(segments: &[Segment]) -> String {
    segments.iter().map(Segment::text).collect()
}

/// The text or token that a template appends to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TurnEnd {
    Token(u32),
    Text(String),
}
