//! `input`: a text, or items that become messages.

use std::collections::HashMap;

use chat::{Content, ContentPart, FunctionCall, Message, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::config::Limits;
use crate::conversation::{parse, text_part};
use crate::error::{ApiError, Kind};

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
    Message { role: Role, content: Option<Text> },
    FunctionCall { call_id: String, name: String, arguments: Json, status: Option<String> },
    FunctionCallOutput { call_id: String, output: Text },
    Reasoning { summary: Option<Vec<Json>>, content: Option<Vec<Json>> },
}

/// Types of [`Item`].
const KINDS: [&str; 4] = ["message", "function_call", "function_call_output", "reasoning"];

/// Calls of tools that a client runs and that are no functions, each with the field of its input.
const CALLS: [(&str, &str); 4] = [
    ("custom_tool_call", "input"),
    ("local_shell_call", "action"),
    ("shell_call", "action"),
    ("apply_patch_call", "operation"),
];

/// Whether the arguments of a call are complete: an object, or its text.
fn is_object(arguments: &Json) -> bool {
    match arguments {
        Json::String(text) => serde_json::from_str::<Map<String, Json>>(text).is_ok(),
        arguments => arguments.is_object(),
    }
}

/// The items by which functions are called, for an item by which another tool is.
fn translated(mut item: Json) -> Vec<Json> {
    let kind = item["type"].as_str().unwrap_or_default();
    let id = || if item["call_id"].is_string() { item["call_id"].clone() } else { item["id"].clone() };
    let call = |name: &str, arguments: String| json!({ "type": "function_call", "call_id": id(), "name": name, "arguments": arguments });
    let output = |output: &Json| {
        let is_part = |part: &Json| part["type"].as_str().is_some_and(|kind| kind.starts_with("input_"));
        let output = match output {
            Json::Null => "".into(),
            Json::Array(parts) if parts.iter().all(is_part) => output.clone(),
            Json::String(text) => text.clone().into(),
            other => other.to_string().into(),
        };
        json!({ "type": "function_call_output", "call_id": id(), "output": output })
    };
    if let Some((_, field)) = CALLS.iter().find(|(name, _)| *name == kind) {
        let input = &item[*field];
        let arguments =
            if input.is_object() { input.to_string() } else { json!({ *field: input }).to_string() };
        return vec![call(item["name"].as_str().unwrap_or(kind.trim_end_matches("_call")), arguments)];
    }
    if kind == "function_call_output"
        || CALLS.iter().any(|(name, _)| kind.strip_suffix("_output") == Some(name))
    {
        return vec![output(&item["output"])];
    }
    // A service has run it: call and result are one item.
    if kind == "mcp_call" && !(item["output"].is_null() && item["error"].is_null()) {
        let result = if item["output"].is_null() { &item["error"] } else { &item["output"] };
        let arguments = item["arguments"].as_str().unwrap_or("{}").to_owned();
        return vec![call(item["name"].as_str().unwrap_or_default(), arguments), output(result)];
    }
    let (is_call, id) = (kind == "function_call", id());
    if is_call {
        item["call_id"] = id;
    }
    vec![item]
}

/// The messages of a call, after its `instructions`. Items that mean something to another provider only are left out, and named in
/// `ignored`.
pub(super) fn read(
    input: Input,
    instructions: Option<&str>,
    limits: &Limits,
    ignored: &mut Vec<String>,
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
                for item in translated(item) {
                    messages.add(&format!("input[{index}]"), item)?;
                }
            }
        }
    }
    messages.end();
    ignored.append(&mut messages.ignored);
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
    /// Places of items that are left out.
    ignored: Vec<String>,
}

/// Reasoning, a text and calls, which are items here and one message for a template.
#[derive(Default)]
struct Answer {
    /// The place of its reasoning.
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
            self.ignored.push(place.to_owned());
            return Ok(());
        }
        if let Some(item) = item.as_object_mut() {
            item.insert("type".into(), kind.into());
        }
        match parse(place, item)? {
            Item::Message { role: Role::Assistant, content } => {
                let content = self.answer_text(&format!("{place}.content"), content)?;
                if self.answer.as_ref().is_some_and(|answer| answer.content.is_some()) {
                    self.end_answer();
                }
                self.answer().content = Some(content);
            }
            Item::Message { role, content } => {
                let place = format!("{place}.content");
                let content = content
                    .ok_or_else(|| ApiError::invalid(&place, "is missing; expected a string or parts"))?;
                let content = text(&place, content)?;
                self.end_answer();
                let role = if let Role::User = role { "user" } else { "system" };
                self.list.push(Message { role: role.into(), content, ..Message::default() });
            }
            // A call that was cut has not been run.
            Item::FunctionCall { arguments, status: Some(status), .. }
                if status != "completed" && !is_object(&arguments) =>
            {
                self.ignored.push(place.to_owned());
            }
            Item::FunctionCall { call_id, name, arguments, .. } => {
                self.calls.insert(call_id.clone(), name.clone());
                let function = FunctionCall { name, arguments };
                let call = ToolCall { id: Some(call_id), kind: "function".into(), function };
                self.answer().calls.push(call);
            }
            Item::FunctionCallOutput { call_id, output } => {
                self.end_answer();
                let content = text(&format!("{place}.output"), output)?;
                let Some(name) = self.calls.get(&call_id).cloned() else {
                    // Its call may be among what is left out: then its result is what the user says.
                    if !self.ignored.is_empty() {
                        self.list.push(Message { role: "user".into(), content, ..Message::default() });
                        return Ok(());
                    }
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
                    self.end_answer();
                }
                let (field, parts) = match content {
                    Some(content) if !content.is_empty() => ("content", content),
                    _ => ("summary", summary.unwrap_or_default()),
                };
                // Encrypted reasoning has no text: only the model that wrote it can read it.
                if parts.is_empty() {
                    self.ignored.push(place.to_owned());
                }
                for (number, part) in parts.iter().enumerate() {
                    let Json::String(text) = &part["text"] else {
                        let place = format!("{place}.{field}[{number}]");
                        return Err(ApiError::invalid(place, "lacks `text`, a string"));
                    };
                    let answer = self.answer();
                    answer.place = place.to_owned();
                    answer.reasoning.push(text.clone());
                }
            }
        }
        Ok(())
    }

    /// The content of an answer. Parts of other providers are left out.
    fn answer_text(&mut self, place: &str, content: Option<Text>) -> Result<Content, ApiError> {
        let parts = match content {
            Some(Text::Whole(text)) => return Ok(Content::Text(text)),
            Some(Text::Parts(parts)) => parts,
            None => Vec::new(),
        };
        let mut texts = Vec::new();
        for (number, json) in parts.iter().enumerate() {
            let place = format!("{place}[{number}]");
            match part(&place, json) {
                Ok(text) => texts.push(text),
                Err(error) if error.kind == Kind::Unsupported => self.ignored.push(place),
                Err(error) => return Err(error),
            }
        }
        Ok(Content::Parts(texts))
    }

    /// The answer to which the next item belongs.
    fn answer(&mut self) -> &mut Answer {
        self.answer.get_or_insert_default()
    }

    /// The next item belongs to no answer, or to another one.
    fn end_answer(&mut self) {
        let Some(Answer { reasoning, content, calls: tool_calls, .. }) = self.answer.take() else { return };
        let reasoning = Some(reasoning.join("\n")).filter(|text| !text.is_empty());
        let (role, content) = ("assistant".into(), content.unwrap_or_default());
        self.list.push(Message { role, content, reasoning, tool_calls, ..Message::default() });
    }

    /// There are no more items. An answer without calls is continued, and is past its reasoning; one that has only reasoned begins
    /// anew.
    fn end(&mut self) {
        if let Some(answer) = self.answer.as_mut().filter(|answer| answer.calls.is_empty()) {
            if !answer.reasoning.is_empty() {
                answer.reasoning.clear();
                self.ignored.push(std::mem::take(&mut answer.place));
            }
            if !answer.is_said() {
                self.answer = None;
            }
        }
        self.end_answer();
    }
}

/// The content of a message: parts of text.
fn text(place: &str, text: Text) -> Result<Content, ApiError> {
    let parts = match text {
        Text::Whole(text) => return Ok(Content::Text(text)),
        Text::Parts(parts) => parts,
    };
    let parts = parts.iter().enumerate().map(|(number, json)| part(&format!("{place}[{number}]"), json));
    parts.collect::<Result<_, _>>().map(Content::Parts)
}

fn part(place: &str, part: &Json) -> Result<ContentPart, ApiError> {
    let kind = part["type"].as_str().unwrap_or_default();
    let field = match kind {
        "input_text" | "output_text" | "text" => "text",
        "refusal" => "refusal",
        kind => {
            let why = format!("has the type `{kind}`; this server takes text only");
            return Err(ApiError::unsupported(place, why));
        }
    };
    match &part[field] {
        Json::String(text) => Ok(text_part(text)),
        _ => Err(ApiError::invalid(place, format!("lacks `{field}`, a string"))),
    }
}
