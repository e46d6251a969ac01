//! Messages and tools as clients send them, whatever the protocol.

use chat::{Choice, Content, ContentPart, Message};
use rustorch::Conversation;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::config::Defaults;
use crate::error::{ApiError, Kind};

/// Variables of the chat template that belong to the server, not to clients or operators.
pub const RESERVED_VARIABLES: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

/// Tools in OpenAI's shape.
pub(crate) struct Tools {
    list: Vec<Json>,
    /// Where the client has each of them.
    places: Vec<String>,
    /// What the client calls name and schema of a tool.
    fields: [&'static str; 2],
    /// Names of those whose schemas must be enforced.
    strict: Vec<String>,
}

impl Tools {
    pub(crate) fn new(fields: [&'static str; 2]) -> Tools {
        Tools { list: Vec::new(), places: Vec::new(), fields, strict: Vec::new() }
    }

    pub(crate) fn push(&mut self, place: String, tool: Json, is_strict: bool) {
        self.strict.extend(tool["function"]["name"].as_str().filter(|_| is_strict).map(str::to_owned));
        self.places.push(place);
        self.list.push(tool);
    }

    /// Fails if one of them is no function; the error names it as the client does.
    fn check(&self) -> Result<(), ApiError> {
        let Err(error) = chat::Tools::read(&self.list) else { return Ok(()) };
        let message = error.to_string();
        let (index, rest) =
            message.strip_prefix("tools[").and_then(|rest| rest.split_once(']')).unwrap_or_default();
        let place = index.parse().ok().and_then(|index: usize| self.places.get(index));
        let message = place.map_or_else(
            || message.clone(),
            |place| {
                let [name, schema] = self.fields;
                let rest = rest.replacen("function.name", name, 1).replacen("function.parameters", schema, 1);
                format!("{place}{rest}")
            },
        );
        let list = place.and_then(|place| place.split('[').next()).unwrap_or("tools");
        Err(ApiError::new(Kind::Invalid, format!("`{list}`: {message}")).at(list))
    }
}

/// Gives a conversation tools. Without a choice, they must not be used. Fails if a call is demanded, and there are no tools, or if
/// one of them is no function.
pub(crate) fn with_tools(
    conversation: Conversation,
    tools: Tools,
    choice: Option<Choice>,
    parallel_tool_calls: bool,
) -> Result<Conversation, ApiError> {
    if choice.is_some() {
        tools.check()?;
    }
    let Tools { list: tools, strict: strict_tools, .. } = tools;
    if tools.is_empty() && matches!(choice, Some(Choice::Required | Choice::Named(_))) {
        let why = "demands a call, but there are no `tools` to call; the server runs none itself";
        return Err(ApiError::invalid("tool_choice", why));
    }
    let tool_choice = choice.filter(|_| !tools.is_empty());
    Ok(Conversation { tools, tool_choice, parallel_tool_calls, strict_tools, ..conversation })
}

/// A tool in OpenAI's shape, which templates know.
pub(crate) fn function(name: &str, description: Option<&str>, parameters: Option<Json>) -> Json {
    let mut function = Map::from_iter([("name".to_owned(), name.into())]);
    function.extend(description.map(|text| ("description".to_owned(), text.into())));
    function.extend(parameters.map(|schema| ("parameters".to_owned(), schema)));
    json!({ "type": "function", "function": function })
}

/// `json`, which is at `place` in the call.
pub(crate) fn parse<T: DeserializeOwned>(place: &str, json: Json) -> Result<T, ApiError> {
    serde_json::from_value(json)
        .map_err(|error| ApiError::new(Kind::Invalid, format!("`{place}`: {error}")).at(place))
}

/// A text as a part of a message.
pub(crate) fn text_part(text: &str) -> ContentPart {
    ContentPart { kind: "text".into(), fields: Map::from_iter([("text".into(), text.into())]) }
}

/// A message in OpenAI's shape, also as older clients and other providers write it.
#[derive(Deserialize)]
#[serde(try_from = "Map<String, Json>")]
pub(crate) struct Said(Message);

impl Said {
    pub(crate) fn messages(said: Vec<Said>) -> Vec<Message> {
        said.into_iter().map(|Said(message)| message).collect()
    }
}

impl TryFrom<Map<String, Json>> for Said {
    type Error = serde_json::Error;

    fn try_from(mut message: Map<String, Json>) -> serde_json::Result<Said> {
        let calls = match (message.remove("function_call"), message.remove("tool_calls")) {
            (Some(call @ Json::Object(_)), None | Some(Json::Null)) => json!([{ "function": call }]),
            (_, calls) => calls.unwrap_or_default(),
        };
        let calls = match calls {
            Json::Array(calls) => calls.into_iter().map(function_call).collect(),
            other => other,
        };
        message.insert("tool_calls".into(), calls);
        if message.get("role").is_some_and(|role| role == "function") {
            message.insert("role".into(), "tool".into());
        }
        if message.get("content").is_none_or(Json::is_null)
            && let Some(refusal @ Json::String(_)) = message.remove("refusal")
        {
            message.insert("content".into(), refusal);
        }
        serde_json::from_value(Json::Object(message)).map(Said)
    }
}

/// A call of a custom tool, whose input is a text, as that of a function.
fn function_call(mut call: Json) -> Json {
    let Some(custom) = call.get_mut("custom").filter(|custom| custom.is_object()) else { return call };
    let (name, input) = (custom["name"].take(), custom["input"].take());
    json!({ "id": call["id"], "type": "function", "function": { "name": name, "arguments": { "input": input } } })
}

/// A conversation of these messages, in OpenAI's shape, without tools. Parts of earlier answers that are neither text nor reasoning
/// are left out, and named in `ignored`. Fails if there are no messages, or if one that is no answer is not text.
pub(crate) fn conversation(
    mut messages: Vec<Message>,
    defaults: &Defaults,
    ignored: &mut Vec<String>,
) -> Result<Conversation, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "is empty; expected at least one message"));
    }
    for (index, message) in messages.iter_mut().enumerate() {
        read_parts(index, message, ignored)?;
    }
    let (variables, calls) = (defaults.variables.clone(), chat::Calls::Streamed);
    Ok(Conversation { variables, calls, ..Conversation::new(messages) })
}

/// Leaves the text of a message's parts. Fails if a part of another one than an answer has none: the models read text, and nothing
/// is fetched for a client.
fn read_parts(index: usize, message: &mut Message, ignored: &mut Vec<String>) -> Result<(), ApiError> {
    let Content::Parts(parts) = &mut message.content else { return Ok(()) };
    for (number, mut part) in std::mem::take(parts).into_iter().enumerate() {
        let text = match &*part.kind {
            // OpenAI's names in chat completions and in responses.
            "refusal" => part.fields.remove("refusal"),
            "input_text" | "output_text" => part.fields.remove("text"),
            _ => None,
        };
        if let Some(Json::String(text)) = text {
            part = text_part(&text);
        }
        if part.text().is_some() {
            parts.push(part);
            continue;
        }
        let place = format!("messages[{index}].content[{number}]");
        if message.role != "assistant" {
            let why = format!("has the type `{}`; this server takes text only", part.kind);
            return Err(ApiError::unsupported(place, why));
        }
        match reasoning(&part) {
            Some(text) => message.reasoning.get_or_insert_default().push_str(&text),
            None => ignored.push(place),
        }
    }
    Ok(())
}

/// The text of a part that is reasoning, as other providers write it.
fn reasoning(part: &ContentPart) -> Option<String> {
    if !["thinking", "reasoning"].contains(&&*part.kind) {
        return None;
    }
    let texts = part.fields.get(&part.kind).or_else(|| part.fields.get("text"))?;
    match texts {
        Json::String(text) => Some(text.clone()),
        Json::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}

/// An answer that is continued is past its reasoning: what it has reasoned, in the client's `field`, is left out, and named in `ignored`. One that has not
/// come further begins anew.
pub(crate) fn without_begun_reasoning(
    conversation: &mut Conversation,
    field: &str,
    ignored: &mut Vec<String>,
) {
    if !conversation.continues_answer() {
        return;
    }
    let last = conversation.messages.len() - 1;
    let answer = &mut conversation.messages[last];
    if answer.reasoning.take().is_some_and(|reasoning| !reasoning.is_empty()) {
        ignored.push(format!("messages[].{field}"));
        if answer.text().is_empty() {
            conversation.messages.pop();
        }
    }
}
