//! The rendered prompt.

use std::fmt;

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text, not to be searched for special tokens.
    Text(String),
    /// A special token of the template.
    Token {
        /// Its id.
        id: u32,
        /// Its text.
        text: String,
    },
}

impl Segment {
    /// The id of a special token.
    pub(crate) fn token(&self) -> Option<u32> {
        match self {
            Segment::Token { id, .. } => Some(*id),
            Segment::Text(_) => None,
        }
    }
}

/// A rendered conversation. [`Display`](fmt::Display) gives the template's output; only
/// [`segments`](Prompt::segments) distinguish special tokens from text that looks like them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub(crate) segments: Vec<Segment>,
    pub(crate) merged_system: bool,
}

impl Prompt {
    /// The pieces in order. No text is empty or follows another.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the template's output.
    pub fn len(&self) -> usize {
        let text = |segment: &Segment| match segment {
            Segment::Text(text) | Segment::Token { text, .. } => text.len(),
        };
        self.segments.iter().map(text).sum()
    }

    /// Whether the template's output is empty.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether system messages were merged into other messages, because the template does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.merged_system
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| match segment {
            Segment::Text(text) | Segment::Token { text, .. } => f.write_str(text),
        })
    }
}
