//! System messages for templates that do not support them.

use crate::message::{Content, ContentPart, Message};

pub(crate) fn is_system(message: &Message) -> bool {
    message.role == "system"
}

pub(crate) type Form = fn(&[Message]) -> Vec<Message>;

/// For templates that do not write every system message: the first form whose system messages are written is the best.
pub(crate) const FORMS: [Form; 3] = [leading, merged, apart];

/// One system message at the beginning. Later ones are in the user message or tool result before them, which stays the same as
/// the conversation goes on; messages of the user that follow each other are one.
fn leading(messages: &[Message]) -> Vec<Message> {
    turns(messages, &["user", "tool"])
}

/// As [`leading`], with the system message in the next user message, or in one of its own at the end: separated by a line
/// break, like llama.cpp's `system_message_not_supported` in `chat.cpp`.
fn merged(messages: &[Message]) -> Vec<Message> {
    without_first(leading(messages))
}

/// As [`merged`], but nothing is added to results of tools, which some templates leave out.
fn apart(messages: &[Message]) -> Vec<Message> {
    without_first(turns(messages, &["user"]))
}

/// Whether `formed`, a form of `messages`, has system messages in others.
pub(crate) fn are_moved(messages: &[Message], formed: &[Message]) -> bool {
    let at_start = messages.iter().take_while(|message| is_system(message)).count();
    !formed.first().is_some_and(is_system) || messages[at_start..].iter().any(is_system)
}

/// `messages`, of which later system messages are in the message before them if that is of one of these roles.
fn turns(messages: &[Message], roles: &[&str]) -> Vec<Message> {
    let mut result: Vec<Message> = Vec::new();
    for message in messages {
        let is_first = result.is_empty();
        let belongs_to = |last: &&mut Message| match (&*last.role, &*message.role) {
            ("system", "system") => true,
            ("user", "user") => last.name == message.name,
            (role, "system") => roles.contains(&role),
            _ => false,
        };
        match result.last_mut().filter(belongs_to) {
            Some(last) => last.content = joined(&[last, message]),
            None if is_system(message) && !is_first => {
                result.push(Message { role: "user".into(), ..message.clone() });
            }
            None => result.push(message.clone()),
        }
    }
    result
}

fn without_first(mut messages: Vec<Message>) -> Vec<Message> {
    if !messages.first().is_some_and(is_system) {
        return messages;
    }
    let system = messages.remove(0);
    match messages.iter_mut().find(|message| message.role == "user") {
        Some(user) => user.content = joined(&[&system, user]),
        None => messages.push(Message { role: "user".into(), ..system }),
    }
    messages
}

pub(crate) fn joined(messages: &[&Message]) -> Content {
    let is_parts = |message: &&Message| matches!(message.content, Content::Parts(_));
    if messages.iter().any(is_parts) {
        return Content::Parts(messages.iter().flat_map(|message| parts(message)).collect());
    }
    let texts = messages.iter().map(|message| message.text()).filter(|text| !text.is_empty());
    Content::Text(texts.collect::<Vec<_>>().join("\n"))
}

fn parts(message: &Message) -> Vec<ContentPart> {
    match &message.content {
        Content::Text(text) => vec![ContentPart::from_text(text)],
        Content::Parts(parts) => parts.clone(),
    }
}
