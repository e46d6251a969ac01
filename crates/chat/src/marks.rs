//! Marks in messages, which show whether a template writes them.

use crate::message::{Content, ContentPart, Message};
use crate::prompt::{Segment, text};

/// A word that occurs in no conversation.
const MARK: &str = "Eighteen-Badgers";

fn mark(index: usize) -> String {
    format!("{MARK}-{index}.")
}

/// Appends a mark to the content of each message for which `is_marked` holds.
pub(crate) fn marked(messages: &[Message], is_marked: fn(&Message) -> bool) -> Vec<Message> {
    let mut messages = messages.to_vec();
    for (index, message) in messages.iter_mut().enumerate().filter(|(_, message)| is_marked(message)) {
        match &mut message.content {
            Content::Text(text) => *text = format!("{text} {}", mark(index)),
            Content::Parts(parts) => parts.push(ContentPart::from_text(&mark(index))),
        }
    }
    messages
}

/// Whether the prompt of [`marked`] messages contains every mark, and none quoted, as in a list of parts that is printed as a whole.
pub(crate) fn are_written(prompt: &[Segment], marked: &[Message], is_marked: fn(&Message) -> bool) -> bool {
    let text = text(prompt);
    let mut marks =
        marked.iter().enumerate().filter(|(_, message)| is_marked(message)).map(|(index, _)| mark(index));
    marks.all(|mark| {
        text.contains(&mark)
            && ['\'', '"'].iter().all(|quote| !text.contains(&format!("{quote}{mark}{quote}")))
    })
}
