//! Marks in messages, which show whether a template writes them.

use crate::message::{Content, ContentPart, Message};
use crate::prompt::{Segment, text};

/// Whether the prompt of `render` has the contents of the messages for which `is_marked` holds: none is left out, or quoted as
/// in a list of parts that is printed as a whole. Each gets a mark, a word that occurs in no conversation.
pub(crate) fn are_written(
    messages: &[Message],
    is_marked: fn(&Message) -> bool,
    render: impl FnOnce(&[Message]) -> Option<Vec<Segment>>,
) -> bool {
    let (mut messages, mut marks) = (messages.to_vec(), Vec::new());
    for message in messages.iter_mut().filter(|message| is_marked(message)) {
        let mark = format!("Eighteen-Badgers-{}.", marks.len());
        match &mut message.content {
            Content::Text(text) => *text = format!("{text} {mark}"),
            Content::Parts(parts) => parts.push(ContentPart::from_text(&mark)),
        }
        marks.push(mark);
    }
    let is_written = |prompt: &str, mark: &String| prompt.contains(mark) && !is_quoted(prompt, mark, "'\"");
    render(&messages).is_some_and(|segments| {
        let prompt = text(&segments);
        marks.iter().all(|mark| is_written(&prompt, mark))
    })
}

/// Whether `text` has `mark` between two of one of these quotes.
pub(crate) fn is_quoted(text: &str, mark: &str, quotes: &str) -> bool {
    quotes.chars().any(|quote| text.contains(&format!("{quote}{mark}{quote}")))
}
