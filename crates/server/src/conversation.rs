//! Messages and tools as clients send them, whatever the protocol.

use chat::{Choice, Content, Message};
use rustorch::Conversation;
use serde_json::Value as Json;

use crate::config::Defaults;
use crate::error::ApiError;

/// Variables of the chat template that belong to the server, not to clients or operators.
pub const RESERVED_VARIABLES: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

/// The tools of a call.
pub(crate) struct ToolUse {
    /// In OpenAI's shape.
    pub(crate) tools: Vec<Json>,
    /// None if they must not be used.
    pub(crate) choice: Option<Choice>,
    /// Whether an answer may have several calls.
    pub(crate) is_parallel: bool,
    /// Names of tools whose schemas must be enforced.
    pub(crate) strict: Vec<String>,
}

impl ToolUse {
    /// Gives the tools to a conversation.
    pub(crate) fn apply(self, conversation: Conversation) -> Conversation {
        let ToolUse { tools, choice, is_parallel, strict } = self;
        Conversation {
            tools,
            tool_choice: choice,
            parallel_tool_calls: is_parallel,
            strict_tools: strict,
            ..conversation
        }
    }
}

/// A conversation of these messages, in OpenAI's shape, without tools. Fails if there are none, or if one is not text.
pub(crate) fn conversation(
    mut messages: Vec<Message>,
    defaults: &Defaults,
) -> Result<Conversation, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty; expected at least one message"));
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
    for part in parts.iter_mut().filter(|part| part.kind == "refusal") {
        if let Some(text) = part.fields.remove("refusal") {
            part.kind = "text".into();
            part.fields.insert("text".into(), text);
        }
    }
    if let Some((number, part)) = parts.iter().enumerate().find(|(_, part)| part.text().is_none()) {
        let param = format!("messages[{index}].content[{number}]");
        let message = format!("`{param}` has the type `{}`; this server takes text only", part.kind);
        return Err(ApiError::unsupported(param, message));
    }
    Ok(())
}
