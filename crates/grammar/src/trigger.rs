//! Where in a text a grammar begins.

/// The token or text that starts a grammar ([`Grammar::after`](crate::Grammar::after)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A token, such as the one of `<tool_call>`.
    Token(u32),
    /// A text, be it one token or several. It may be the text of a special token.
    Text(String),
}
