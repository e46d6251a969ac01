//! System messages for templates that do not support them.

use crate::message::{Content, Message, Part};

pub(crate) fn is_system(message: &Message) -> bool {
    message.role == "system"
}

/// Merges each system message into the next user message, or into a user message of its own at the end.
///
/// Separated by a line break, like llama.cpp's `system_message_not_supported` in `chat.cpp`.
pub(crate) fn merged(messages: &[Message]) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::new();
    let mut system: Vec<&Message> = Vec::new();
    for message in messages {
        if is_system(message) {
            system.push(message);
        } else if message.role == "user" {
            system.push(message);
            merged.push(Message { content: joined(&system), ..message.clone() });
            system.clear();
        } else {
            merged.push(message.clone());
        }
    }
    if !system.is_empty() {
        merged.push(Message { role: "user".into(), content: joined(&system), ..Message::default() });
    }
    merged
}

/// The contents of `messages` in one.
fn joined(messages: &[&Message]) -> Content {
    let is_parts = |message: &&Message| matches!(message.content, Content::Parts(_));
    if messages.iter().any(is_parts) {
        return Content::Parts(messages.iter().flat_map(|message| parts(message)).collect());
    }
    let texts: Vec<_> = messages.iter().map(|message| message.text()).collect();
    Content::Text(texts.join("\n"))
}

fn parts(message: &Message) -> Vec<Part> {
    match &message.content {
        Content::Text(text) => vec![Part::from_text(text)],
        Content::Parts(parts) => parts.clone(),
    }
}
