//! System messages for templates that do not support them.

use crate::prompt::{Message, Prompt};

/// A word that occurs in no conversation.
const MARK: &str = "Eighteen-Badgers";

pub(crate) fn is_system(message: &Message) -> bool {
    message.role == "system"
}

/// Merges each system message into the next user message, or into a user message of its own at the end.
///
/// Separated by a line break, like llama.cpp's `system_message_not_supported` in `chat.cpp`.
pub(crate) fn merged(messages: &[Message]) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::new();
    let mut system: Vec<&str> = Vec::new();
    for message in messages {
        if is_system(message) {
            system.push(&message.content);
            continue;
        }
        let mut content = message.content.clone();
        if message.role == "user" {
            system.push(&message.content);
            content = system.join("\n");
            system.clear();
        }
        merged.push(Message { role: message.role.clone(), content });
    }
    if !system.is_empty() {
        merged.push(Message::new("user", system.join("\n")));
    }
    merged
}

/// Appends a mark to each system message.
pub(crate) fn marked(messages: &[Message]) -> Vec<Message> {
    let mark = |(index, message): (usize, &Message)| match is_system(message) {
        true => Message::new("system", format!("{} {}", message.content, mark(index))),
        false => message.clone(),
    };
    messages.iter().enumerate().map(mark).collect()
}

fn mark(index: usize) -> String {
    format!("{MARK}-{index}.")
}

/// Whether a prompt for [`marked`] messages contains every mark.
pub(crate) fn holds_marks(prompt: &Prompt, marked: &[Message]) -> bool {
    let text = prompt.to_string();
    let mut system = marked.iter().enumerate().filter(|(_, message)| is_system(message));
    system.all(|(index, _)| text.contains(&mark(index)))
}
