//! Messages, in the form of OpenAI's chat completions.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value as Json};

/// One message of a conversation.
///
/// In JSON: `{"role": …, "content": …}`, and where they apply `reasoning_content` (also read from `reasoning` and
/// `thinking`), `tool_calls`, `tool_call_id` and `name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or another role that the template supports.
    pub role: String,
    /// The text or parts. Missing or `null`: the empty text.
    pub content: Content,
    /// The reasoning that precedes an answer.
    #[serde(rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The calls that an answer makes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// In a message of role `tool`: the id of the [call](ToolCall::id) whose result the message is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Name of the speaker, or of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other fields. The template gets them unchanged.
    #[serde(flatten)]
    pub others: Map<String, Json>,
}

/// A [`Message`] as clients write it: reasoning has several names, of which those with `null` say nothing.
#[derive(Deserialize)]
struct Written {
    role: String,
    #[serde(default, deserialize_with = "or_default")]
    content: Content,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    thinking: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    tool_calls: Vec<ToolCall>,
    tool_call_id: Option<String>,
    name: Option<String>,
    #[serde(flatten)]
    others: Map<String, Json>,
}

impl From<Written> for Message {
    fn from(written: Written) -> Message {
        let Written { role, content, reasoning_content, reasoning, thinking, tool_calls, .. } = written;
        Message {
            role,
            content,
            reasoning: reasoning_content.or(reasoning).or(thinking),
            tool_calls,
            tool_call_id: written.tool_call_id,
            name: written.name,
            others: written.others,
        }
    }
}

impl Message {
    /// A message with this role and text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: Content::Text(content.into()), ..Message::default() }
    }

    /// The text. Parts are joined by line breaks; parts that are not text are left out.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Text(text) => text.into(),
            Content::Parts(parts) => {
                parts.iter().filter_map(ContentPart::text).collect::<Vec<_>>().join("\n").into()
            }
        }
    }
}

/// The content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "content is a text or a list of parts such as {\"type\": \"text\", \"text\": …}"
)]
pub enum Content {
    /// A text.
    Text(String),
    /// Several parts.
    Parts(Vec<ContentPart>),
}

impl Default for Content {
    fn default() -> Content {
        Content::Text(String::new())
    }
}

/// A part of a message: `{"type": "text", "text": …}`, or of another type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentPart {
    /// `text`, `image` or another type that the template supports.
    #[serde(rename = "type")]
    pub kind: String,
    /// The other fields.
    #[serde(flatten)]
    pub fields: Map<String, Json>,
}

impl ContentPart {
    pub(crate) fn from_text(text: &str) -> ContentPart {
        ContentPart { kind: "text".into(), fields: Map::from_iter([("text".into(), text.into())]) }
    }

    /// The text of a text part.
    pub fn text(&self) -> Option<&str> {
        self.fields.get("text").filter(|_| self.kind == "text")?.as_str()
    }
}

/// A call of a tool: `{"id": …, "type": "function", "function": {"name": …, "arguments": …}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Identifies the call for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// The function and its arguments.
    pub function: FunctionCall,
}

fn function() -> String {
    "function".to_owned()
}

/// The function and the arguments of a [`ToolCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// The arguments by name: an object, or its JSON as a text. Templates get the one that they expect.
    #[serde(default)]
    pub arguments: Json,
}

/// Reads `null` as the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}
