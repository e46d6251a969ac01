//! `input`: a text, or items that become messages.

use std::collections::HashMap;

use chat::{Content, FunctionCall, Message, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::config::Limits;
use crate::conversation::{parse, text_part};
use crate::error::ApiError;

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or an array of items")]
pub(in crate::openai) enum Input {
    Text(String),
    Items(#[schemars(with = "Vec<Map<String, Json>>", length(min = 1))] Vec<Json>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
    System,
    Developer,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of parts")]
enum Text {
    Whole(String),
    Parts(Vec<Json>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message { role: Role, content: Text },
    FunctionCall { call_id: String, name: String, arguments: String },
    FunctionCallOutput { call_id: String, output: Text },
    Reasoning { summary: Option<Vec<Json>>, content: Option<Vec<Json>> },
}

/// Types of [`Item`].
const KINDS: [&str; 4] = ["message", "function_call", "function_call_output", "reasoning"];

/// The messages of a call, after its `instructions`.
pub(super) fn read(
    input: Input,
    instructions: Option<&str>,
    limits: &Limits,
) -> Result<Vec<Message>, ApiError> {
    let mut messages = Messages::default();
    messages.list.extend(instructions.map(|text| Message::new("system", text)));
    match input {
        Input::Text(text) => messages.list.push(Message::new("user", text)),
        Input::Items(items) => {
            if !(1..=limits.messages).contains(&items.len()) {
                let why = format!("has {} items, expected 1 to {}", items.len(), limits.messages);
                return Err(ApiError::invalid("input", why));
            }
            for (index, item) in items.into_iter().enumerate() {
                messages.add(&format!("input[{index}]"), item)?;
            }
        }
    }
    messages.end_answer()?;
    Ok(messages.list)
}

/// Messages, as far as they have been read.
#[derive(Default)]
struct Messages {
    list: Vec<Message>,
    /// The answer whose items are being read.
    answer: Option<Answer>,
    /// The names of the functions called, by the ids of the calls.
    calls: HashMap<String, String>,
}

/// Reasoning, a text and calls, which are items here and one message for a template.
#[derive(Default)]
struct Answer {
    /// The place of its first item.
    place: String,
    reasoning: Vec<String>,
    content: Option<Content>,
    calls: Vec<ToolCall>,
}

impl Answer {
    /// Whether there is more than reasoning.
    fn is_said(&self) -> bool {
        self.content.is_some() || !self.calls.is_empty()
    }
}

impl Messages {
    fn add(&mut self, place: &str, mut item: Json) -> Result<(), ApiError> {
        let kind = item["type"].as_str().unwrap_or("message").to_owned();
        if !KINDS.contains(&&*kind) {
            return Err(ApiError::unsupported(
                place,
                match &*kind {
                    "item_reference" => {
                        "refers to an item, but this server stores none; send the item itself".to_owned()
                    }
                    kind => format!("has the type `{kind}`, which this server does not take; leave it out"),
                },
            ));
        }
        if let Some(item) = item.as_object_mut() {
            item.insert("type".into(), kind.into());
        }
        match parse(place, item)? {
            Item::Message { role: Role::Assistant, content } => {
                let content = text(&format!("{place}.content"), content)?;
                if self.answer.as_ref().is_some_and(|answer| answer.content.is_some()) {
                    self.end_answer()?;
                }
                self.answer(place).content = Some(content);
            }
            Item::Message { role, content } => {
                let content = text(&format!("{place}.content"), content)?;
                self.end_answer()?;
                let role = if let Role::User = role { "user" } else { "system" };
                self.list.push(Message { role: role.into(), content, ..Message::default() });
            }
            Item::FunctionCall { call_id, name, arguments } => {
                self.calls.insert(call_id.clone(), name.clone());
                let function = FunctionCall { name, arguments: arguments.into() };
                let call = ToolCall { id: Some(call_id), kind: "function".into(), function };
                self.answer(place).calls.push(call);
            }
            Item::FunctionCallOutput { call_id, output } => {
                self.end_answer()?;
                let content = text(&format!("{place}.output"), output)?;
                let Some(name) = self.calls.get(&call_id).cloned() else {
                    let why = format!("is {call_id:?}, but no function_call before it has this id");
                    return Err(ApiError::invalid(format!("{place}.call_id"), why));
                };
                let (role, tool_call_id) = ("tool".into(), Some(call_id));
                self.list.push(Message {
                    role,
                    content,
                    name: Some(name),
                    tool_call_id,
                    ..Message::default()
                });
            }
            Item::Reasoning { summary, content } => {
                if self.answer.as_ref().is_some_and(Answer::is_said) {
                    self.end_answer()?;
                }
                let (field, parts) = match content {
                    Some(content) if !content.is_empty() => ("content", content),
                    _ => ("summary", summary.unwrap_or_default()),
                };
                // Encrypted reasoning has no text: only the model that wrote it can read it.
                for (number, part) in parts.iter().enumerate() {
                    let Json::String(text) = &part["text"] else {
                        let place = format!("{place}.{field}[{number}]");
                        return Err(ApiError::invalid(place, "lacks `text`, a string"));
                    };
                    self.answer(place).reasoning.push(text.clone());
                }
            }
        }
        Ok(())
    }

    /// The answer to which an item at `place` belongs.
    fn answer(&mut self, place: &str) -> &mut Answer {
        self.answer.get_or_insert_with(|| Answer { place: place.to_owned(), ..Answer::default() })
    }

    /// The next item belongs to no answer, or to another one. Fails if there is only reasoning of this one.
    fn end_answer(&mut self) -> Result<(), ApiError> {
        let Some(answer) = self.answer.take() else { return Ok(()) };
        if !answer.is_said() {
            let why = "is reasoning, expected the message or the call that follows it";
            return Err(ApiError::invalid(answer.place, why));
        }
        let Answer { reasoning, content, calls: tool_calls, .. } = answer;
        let reasoning = Some(reasoning.join("\n")).filter(|text| !text.is_empty());
        let (role, content) = ("assistant".into(), content.unwrap_or_default());
        self.list.push(Message { role, content, reasoning, tool_calls, ..Message::default() });
        Ok(())
    }
}

/// The content of a message: parts of text.
fn text(place: &str, text: Text) -> Result<Content, ApiError> {
    let parts = match text {
        Text::Whole(text) => return Ok(Content::Text(text)),
        Text::Parts(parts) => parts,
    };
    let parts = parts.into_iter().enumerate().map(|(number, part)| {
        let place = format!("{place}[{number}]");
        let kind = part.get("type").and_then(Json::as_str).unwrap_or_default();
        let field = match kind {
            "input_text" | "output_text" => "text",
            "refusal" => "refusal",
            kind => {
                let why = format!("has the type `{kind}`; this server takes text only");
                return Err(ApiError::unsupported(place, why));
            }
        };
        match part.get(field) {
            Some(Json::String(text)) => Ok(text_part(text)),
            _ => Err(ApiError::invalid(place, format!("lacks `{field}`, a string"))),
        }
    });
    parts.collect::<Result<_, _>>().map(Content::Parts)
}
