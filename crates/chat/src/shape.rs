//! The form in which a template expects messages, found by rendering samples: templates disagree on the arguments of a tool call
//! (an object, or its JSON as a text), on its id, on the field of reasoning, and on whether a content is a text or a list of parts.

use minijinja::Value;
use minijinja::value::Serde;
use serde_json::{Map, Value as Json, json};

use crate::history;
use crate::json::tojson;
use crate::marks::is_quoted;
use crate::message::{Content, ContentPart, Message, ToolCall};

/// The text of a sample: a word that no template writes on its own.
const MARK: &str = "SeventeenOtters";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Arguments of tool calls are JSON texts.
    arguments_are_text: bool,
    /// Ids of tool calls must be [short](short_id).
    ids_are_short: bool,
    reasoning: Reasoning,
    /// Texts must be lists of parts.
    parts_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reasoning {
    Field(&'static str),
    /// A part of the content: `{"type": "thinking", "thinking": …}`.
    Part,
}

const REASONING: [Reasoning; 4] = [
    Reasoning::Field("reasoning_content"),
    Reasoning::Field("thinking"),
    Reasoning::Field("reasoning"),
    Reasoning::Part,
];

const USUAL: Shape =
    Shape { arguments_are_text: false, ids_are_short: false, reasoning: REASONING[0], parts_only: false };

impl Default for Shape {
    /// The form that most templates expect.
    fn default() -> Shape {
        USUAL
    }
}

impl Shape {
    /// The form for the template that `render` renders, without an answer's beginning; `None` if it fails.
    pub(crate) fn of(render: impl Fn(Json) -> Option<String>) -> Shape {
        let shows = |shape: &Shape, messages: &[Message]| {
            let text = render(shape.json(messages, false));
            // Quoted, it is in a list that the template prints as a whole.
            let in_parts = shape.parts_only || shape.reasoning == Reasoning::Part;
            let quotes = if in_parts { "'\"" } else { "'" };
            text.is_some_and(|text| text.contains(MARK) && !is_quoted(&text, MARK, quotes))
        };
        let mut shape = USUAL;

        let said = [Message::new("user", MARK)];
        let parts_only = Shape { parts_only: true, ..USUAL };
        if !shows(&shape, &said) && shows(&parts_only, &said) {
            shape = parts_only;
        }

        let function = json!({ "name": "f", "arguments": { MARK: MARK } });
        // Mistral's templates want ids of nine characters.
        let called = |id: &str| {
            let call = json!({ "id": id, "type": "function", "function": function });
            let call = Message {
                tool_calls: serde_json::from_value(call).into_iter().collect(),
                ..Message::new("assistant", "")
            };
            let result = Message { tool_call_id: Some(id.into()), ..Message::new("tool", "1") };
            [Message::new("user", "a"), call, result]
        };
        let (short, long) = (called("abcdef123"), called("call_abcdefghijklmnopqrstuvwx"));
        let texts = Shape { arguments_are_text: true, ..shape.clone() };
        if !shows(&shape, &short) && shows(&texts, &short) {
            shape = texts;
        }
        shape.ids_are_short = shows(&shape, &short) && !shows(&shape, &long);

        let thought = Message { reasoning: Some(MARK.to_owned()), ..Message::new("assistant", "b") };
        let thought = [Message::new("user", "a"), thought];
        let mut shapes = REASONING.map(|reasoning| Shape { reasoning, ..shape.clone() }).into_iter();
        shapes.find(|shape| shows(shape, &thought)).unwrap_or(shape)
    }

    /// `messages` as JSON. With `flat`, all contents are texts if the template allows.
    pub(crate) fn json(&self, messages: &[Message], flat: bool) -> Json {
        messages.iter().map(|message| self.message(message, flat)).collect()
    }

    fn message(&self, message: &Message, flat: bool) -> Json {
        let mut fields = Map::from_iter([("role".to_owned(), json!(message.role))]);
        let as_part = message.reasoning.as_deref().filter(|_| self.reasoning == Reasoning::Part);
        let mut content = match &message.content {
            Content::Text(text) if self.parts_only || as_part.is_some() => {
                json!(if text.is_empty() { vec![] } else { vec![ContentPart::from_text(text)] })
            }
            Content::Parts(parts) if !flat || self.parts_only => json!(parts),
            _ => json!(message.text()),
        };
        if let (Some(reasoning), Json::Array(parts)) = (as_part, &mut content) {
            parts.insert(0, json!({ "type": "thinking", "thinking": reasoning }));
        }
        fields.insert("content".into(), content);
        if let (Some(reasoning), Reasoning::Field(name)) = (&message.reasoning, self.reasoning) {
            fields.insert(name.into(), json!(reasoning));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| self.call(call));
            fields.insert("tool_calls".into(), calls.collect());
        }
        let texts =
            [("tool_call_id", self.id(message.tool_call_id.as_deref())), ("name", message.name.clone())];
        fields.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), json!(text?)))));
        for (name, value) in &message.others {
            fields.entry(name).or_insert_with(|| value.clone());
        }
        fields.into()
    }

    fn id(&self, id: Option<&str>) -> Option<String> {
        id.map(|id| if self.ids_are_short { short_id(id) } else { id.to_owned() })
    }

    fn call(&self, call: &ToolCall) -> Json {
        let mut call = ToolCall { id: self.id(call.id.as_deref()), ..call.clone() };
        match call.function.arguments.as_str() {
            None if self.arguments_are_text => {
                let arguments = &call.function.arguments;
                let text = tojson(Value::from(Serde(arguments)), false, None, None, false);
                call.function.arguments = text.unwrap_or_else(|_| arguments.to_string()).into();
            }
            Some(_) if !self.arguments_are_text => call.function.arguments = history::arguments(&call),
            _ => {}
        }
        json!(call)
    }
}

/// `id`, or else nine hexadecimal digits of its hash (FNV-1a, 64 bits): Mistral's templates want nine letters and digits.
fn short_id(id: &str) -> String {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, add);
    format!("{:09x}", hash >> 28)
}
