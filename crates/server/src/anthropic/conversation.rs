//! Messages in Anthropic's shape: what they say, think, call and return are blocks of one message.

use std::collections::HashMap;

use chat::{FunctionCall, Message, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::config::Config;
use crate::conversation::{conversation, parse, text_part};
use crate::error::ApiError;
use crate::fields::{Group, at_most};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Messages {
    /// The conversation.
    #[schemars(with = "Vec<Said>", length(min = 1))]
    messages: Vec<Json>,
    /// A message of the system before it.
    system: Option<Content>,
}

impl Group for Messages {}

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`content` is a string or an array of blocks such as {\"type\": \"text\", \"text\": …}"
)]
enum Content {
    Text(String),
    Blocks(#[schemars(extend("items" = { "$ref": "#/components/schemas/AnthropicBlock" }))] Vec<Json>),
}

impl Content {
    /// Whether it says anything: clients without a system prompt may send an empty one.
    fn is_said(&self) -> bool {
        match self {
            Content::Text(text) => !text.is_empty(),
            Content::Blocks(blocks) => !blocks.is_empty(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Said {
    role: Role,
    content: Content,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
    System,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text { text: String },
    Thinking { thinking: String },
    RedactedThinking,
    ToolUse { id: String, name: String, input: Map<String, Json> },
    ToolResult { tool_use_id: String, content: Option<Content>, is_error: Option<bool> },
}

/// The beginning of a block that Claude Code sends before its system prompt, for Anthropic's accounts.
const BILLING: &str = "x-anthropic-billing-header:";

const KINDS: [&str; 5] = ["text", "thinking", "redacted_thinking", "tool_use", "tool_result"];

impl Messages {
    pub(super) fn read(self, config: &Config) -> Result<rustorch::Conversation, ApiError> {
        let mut turns = Turns::default();
        if let Some(system) = self.system.filter(Content::is_said) {
            turns.read("system", Role::System, system)?;
        }
        at_most("messages", &self.messages, config.limits.messages)?;
        if self.messages.is_empty() {
            return Err(ApiError::invalid("messages", "is empty; expected at least one message"));
        }
        for (index, message) in self.messages.into_iter().enumerate() {
            let place = format!("messages[{index}]");
            let Said { role, content } = parse(&place, message)?;
            turns.read(&format!("{place}.content"), role, content)?;
        }
        conversation(turns.finish()?, &config.defaults)
    }
}

/// Messages for the chat template. Those of one role that follow each other are one turn.
#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
    /// Names of the tools that have been called, by id.
    called: HashMap<String, String>,
}

impl Turns {
    fn read(&mut self, place: &str, role: Role, content: Content) -> Result<(), ApiError> {
        match content {
            Content::Text(text) => self.say(role, &text),
            Content::Blocks(blocks) if blocks.is_empty() => drop(self.turn(role)),
            Content::Blocks(blocks) => {
                for (index, json) in blocks.into_iter().enumerate() {
                    self.block(&format!("{place}[{index}]"), role, json)?;
                }
            }
        }
        Ok(())
    }

    fn block(&mut self, place: &str, role: Role, json: Json) -> Result<(), ApiError> {
        let kind = json["type"].as_str().unwrap_or_default().to_owned();
        match (role, block(place, json)?) {
            // Its last digits differ from session to session: at the beginning of prompts, they would share nothing.
            (Role::System, Block::Text { text })
                if text.starts_with(BILLING) && text.lines().count() == 1 => {}
            (_, Block::Text { text }) => self.say(role, &text),
            (Role::Assistant, Block::Thinking { thinking }) => {
                let reasoning = self.turn(role).reasoning.get_or_insert_default();
                if !reasoning.is_empty() {
                    reasoning.push('\n');
                }
                *reasoning += &thinking;
            }
            // Only who has encrypted it can read it.
            (Role::Assistant, Block::RedactedThinking) => drop(self.turn(role)),
            (Role::Assistant, Block::ToolUse { id, name, input }) => {
                self.called.insert(id.clone(), name.clone());
                let function = FunctionCall { name, arguments: Json::Object(input) };
                self.turn(role).tool_calls.push(ToolCall { id: Some(id), kind: "function".into(), function });
            }
            (Role::User, Block::ToolResult { tool_use_id, content, is_error }) => {
                let Some(name) = self.called.get(&tool_use_id).cloned() else {
                    let why = format!("is {tool_use_id:?}, but no `tool_use` before it has this id");
                    return Err(ApiError::invalid(format!("{place}.tool_use_id"), why));
                };
                let text = result(place, content, is_error.unwrap_or(false))?;
                let (tool_call_id, name) = (Some(tool_use_id), Some(name));
                self.messages.push(Message { tool_call_id, name, ..Message::new("tool", text) });
            }
            (_, _) => {
                let role = role.name();
                let why = format!("has the type `{kind}`, which a message of role `{role}` cannot have");
                return Err(ApiError::invalid(place, why));
            }
        }
        Ok(())
    }

    /// The turn of `role`: the last one, or a new one.
    fn turn(&mut self, role: Role) -> &mut Message {
        if self.messages.last().is_none_or(|last| last.role != role.name()) {
            let content = chat::Content::Parts(Vec::new());
            self.messages.push(Message { role: role.name().into(), content, ..Message::default() });
        }
        let last = self.messages.len() - 1;
        &mut self.messages[last]
    }

    fn say(&mut self, role: Role, text: &str) {
        if let chat::Content::Parts(parts) = &mut self.turn(role).content {
            parts.push(text_part(text));
        }
    }

    /// The messages. Fails if the last one is an answer that cannot be continued.
    fn finish(mut self) -> Result<Vec<Message>, ApiError> {
        for message in &mut self.messages {
            // Most templates know no parts.
            if let chat::Content::Parts(parts) = &message.content
                && parts.len() < 2
            {
                message.content = chat::Content::Text(message.text().into_owned());
            }
        }
        match self.messages.last() {
            Some(last)
                if last.role == "assistant" && last.reasoning.is_some() && last.tool_calls.is_empty() =>
            {
                let why = "ends with an answer that has `thinking` blocks; this server continues only text";
                Err(ApiError::unsupported("messages", why))
            }
            _ => Ok(self.messages),
        }
    }
}

fn block(place: &str, json: Json) -> Result<Block, ApiError> {
    if let Some(kind) = json["type"].as_str().filter(|kind| !KINDS.contains(kind)) {
        // Claude Code takes an image out of its history by these words, and goes on.
        let lead = if kind == "image" { "Could not process image: " } else { "" };
        let why = format!("has the type `{kind}`; this server takes text, thinking and calls of tools only");
        let error = ApiError::unsupported(place, why);
        return Err(ApiError { message: format!("{lead}{}", error.message), ..error });
    }
    parse(place, json)
}

fn result(place: &str, content: Option<Content>, is_error: bool) -> Result<String, ApiError> {
    let text = match content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Blocks(blocks)) => {
            let texts = blocks.into_iter().enumerate().map(|(index, json)| {
                let place = format!("{place}.content[{index}]");
                let kind = json["type"].as_str().unwrap_or_default().to_owned();
                match block(&place, json)? {
                    Block::Text { text } => Ok(text),
                    _ => Err(ApiError::invalid(place, format!("has the type `{kind}`, expected text"))),
                }
            });
            texts.collect::<Result<Vec<_>, _>>()?.join("\n")
        }
    };
    // Chat templates have no other way to say it.
    Ok(if is_error { format!("Error: {text}") } else { text })
}
