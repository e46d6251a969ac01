//! What goes into a template and what comes out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant` or what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text, in which no special token is to be looked for.
    Text(String),
    /// A special token that the template wrote.
    Token {
        /// Its id.
        id: u32,
        /// Its text.
        text: String,
    },
}

/// A rendered conversation. Its [`Display`](fmt::Display) is the text that the template produced;
/// only [`segments`](Prompt::segments) tell its special tokens from text that looks like them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub(crate) segments: Vec<Segment>,
    pub(crate) merged_system: bool,
}

impl Prompt {
    /// The pieces in order. Two texts never follow each other and none is empty.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the template knows no system messages, so that their text stands before the first user message.
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
