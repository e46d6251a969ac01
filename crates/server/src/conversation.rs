//! Messages and tools as clients send them, whatever the protocol.

use chat::{Choice, Content, ContentPart, Message};
use rustorch::Conversation;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::config::Defaults;
use crate::error::{ApiError, Kind};

/// Variables of the chat template that belong to the server, not to clients or operators.
pub const RESERVED_VARIABLES: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

/// Gives a conversation `tools` in OpenAI's shape, of which those in `strict` have schemas that must be enforced. Without a choice,
/// they must not be used. Fails if a call is demanded, and there are no tools.
pub(crate) fn with_tools(
    conversation: Conversation,
    tools: Vec<Json>,
    choice: Option<Choice>,
    parallel_tool_calls: bool,
    strict_tools: Vec<String>,
) -> Result<Conversation, ApiError> {
    if tools.is_empty() && matches!(choice, Some(Choice::Required | Choice::Named(_))) {
        return Err(ApiError::invalid("tool_choice", "demands a call, but there are no `tools`"));
    }
    let tool_choice = choice.filter(|_| !tools.is_empty());
    Ok(Conversation { tools, tool_choice, parallel_tool_calls, strict_tools, ..conversation })
}

/// A tool in OpenAI's shape, which templates know.
pub(crate) fn function(name: &str, description: Option<&str>, parameters: Option<Json>) -> Json {
    let mut function = Map::from_iter([("name".to_owned(), name.into())]);
    function.extend(description.map(|text| ("description".to_owned(), text.into())));
    function.extend(parameters.map(|schema| ("parameters".to_owned(), schema)));
    serde_json::json!({ "type": "function", "function": function })
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

/// A conversation of these messages, in OpenAI's shape, without tools. Fails if there are none, or if one is not text.
pub(crate) fn conversation(
    mut messages: Vec<Message>,
    defaults: &Defaults,
) -> Result<Conversation, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "is empty; expected at least one message"));
    }
    for (index, message) in messages.iter_mut().enumerate() {
        check_parts(index, message)?;
        if message.role == "developer" {
            message.role = "system".into();
        }
    }
    let (variables, calls) = (defaults.variables.clone(), chat::Calls::Streamed);
    Ok(Conversation { variables, calls, ..Conversation::new(messages) })
}

/// Fails if a part of a message is not text: the models read text, and nothing is fetched for a client. The text of a refusal is
/// text.
fn check_parts(index: usize, message: &mut Message) -> Result<(), ApiError> {
    let Content::Parts(parts) = &mut message.content else { return Ok(()) };
    for (number, part) in parts.iter_mut().enumerate() {
        if part.kind == "refusal"
            && let Some(text) = part.fields.remove("refusal")
        {
            part.kind = "text".into();
            part.fields.insert("text".into(), text);
        }
        if part.text().is_none() {
            let why = format!("has the type `{}`; this server takes text only", part.kind);
            return Err(ApiError::unsupported(format!("messages[{index}].content[{number}]"), why));
        }
    }
    Ok(())
}
