//! Messages in Anthropic's shape: what they say, think, call and return are blocks of one message.

use std::collections::HashMap;

use chat::{FunctionCall, Message, ToolCall};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::config::Config;
use crate::conversation::{conversation, parse, text_part, without_begun_reasoning};
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
    Document { source: Source, title: Option<String> },
    SearchResult { source: String, title: String, content: Content },
    ToolUse { id: String, name: String, input: Map<String, Json> },
    ToolResult { tool_use_id: String, content: Option<Content>, is_error: Option<bool> },
}

/// A document's text. Files and addresses have none.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Text {
        data: String,
    },
    Content {
        content: Content,
    },
    #[serde(other)]
    File,
}

/// The beginning of a block that Claude Code sends before its system prompt, for Anthropic's accounts.
const BILLING: &str = "x-anthropic-billing-header:";

const KINDS: [&str; 7] =
    ["text", "thinking", "redacted_thinking", "document", "search_result", "tool_use", "tool_result"];

/// Whether a block of this type is of a tool that a service runs: its calls, results and files mean nothing here.
fn is_of_service(role: Role, kind: &str) -> bool {
    let is_service =
        matches!(kind, "server_tool_use" | "mcp_tool_use" | "container_upload" | "tool_reference")
            || kind.ends_with("_tool_result");
    // Answers have blocks that came later than this list.
    is_service || role == Role::Assistant && !matches!(kind, "" | "image" | "tool_result")
}

impl Messages {
    /// The conversation. Blocks of services are left out, and named in `ignored`.
    pub(super) fn read(
        self,
        config: &Config,
        ignored: &mut Vec<String>,
    ) -> Result<rustorch::Conversation, ApiError> {
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
        let mut conversation = conversation(turns.finish(ignored), &config.defaults, ignored)?;
        without_begun_reasoning(&mut conversation, "thinking", ignored);
        Ok(conversation)
    }
}

/// Messages for the chat template. Those of one role that follow each other are one turn.
#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
    /// Names of the tools that have been called, by id.
    called: HashMap<String, String>,
    /// Places of blocks that are left out.
    ignored: Vec<String>,
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
        if !KINDS.contains(&&*kind) && is_of_service(role, &kind) {
            self.turn(role);
            self.ignored.push(place.to_owned());
            return Ok(());
        }
        match (role, block(place, json)?) {
            // Its last digits differ from session to session: at the beginning of prompts, they would share nothing.
            (Role::System, Block::Text { text })
                if text.starts_with(BILLING) && text.lines().count() == 1 => {}
            (_, Block::Text { text }) => self.say(role, &text),
            (_, Block::Document { source, title }) => {
                let text = document(place, source, &mut self.ignored)?;
                self.say(role, &titled(title.iter(), text));
            }
            (_, Block::SearchResult { source, title, content }) => {
                let text = joined(&format!("{place}.content"), content, &mut self.ignored)?;
                self.say(role, &titled([&title, &source], text));
            }
            (Role::Assistant, Block::Thinking { thinking }) => {
                let reasoning = self.turn(role).reasoning.get_or_insert_default();
                if !reasoning.is_empty() {
                    reasoning.push('\n');
                }
                *reasoning += &thinking;
            }
            // Only who has encrypted it can read it.
            (Role::Assistant, Block::RedactedThinking) => {
                self.turn(role);
                self.ignored.push(place.to_owned());
            }
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
                let content = content.unwrap_or(Content::Text(String::new()));
                let mut text = joined(&format!("{place}.content"), content, &mut self.ignored)?;
                // Chat templates have no other way to say it.
                if is_error == Some(true) {
                    text.insert_str(0, "Error: ");
                }
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

    /// The messages. Names the blocks that are left out in `ignored`.
    fn finish(mut self, ignored: &mut Vec<String>) -> Vec<Message> {
        for message in &mut self.messages {
            // Most templates know no parts.
            if let chat::Content::Parts(parts) = &message.content
                && parts.len() < 2
            {
                message.content = chat::Content::Text(message.text().into_owned());
            }
        }
        ignored.append(&mut self.ignored);
        self.messages
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

/// The texts of a tool's result, or of another block within one. Files are errors; names of other tools are left out.
fn joined(place: &str, content: Content, ignored: &mut Vec<String>) -> Result<String, ApiError> {
    let blocks = match content {
        Content::Text(text) => return Ok(text),
        Content::Blocks(blocks) => blocks,
    };
    let mut texts = Vec::new();
    for (index, json) in blocks.into_iter().enumerate() {
        let place = format!("{place}[{index}]");
        let kind = json["type"].as_str().unwrap_or_default().to_owned();
        if is_of_service(Role::User, &kind) {
            ignored.push(place);
            continue;
        }
        texts.push(match block(&place, json)? {
            Block::Text { text } => text,
            Block::Document { source, title } => titled(title.iter(), document(&place, source, ignored)?),
            Block::SearchResult { source, title, content } => {
                titled([&title, &source], joined(&format!("{place}.content"), content, ignored)?)
            }
            _ => return Err(ApiError::invalid(place, format!("has the type `{kind}`, expected text"))),
        });
    }
    Ok(texts.join("\n"))
}

fn document(place: &str, source: Source, ignored: &mut Vec<String>) -> Result<String, ApiError> {
    match source {
        Source::Text { data } => Ok(data),
        Source::Content { content } => joined(&format!("{place}.source.content"), content, ignored),
        Source::File => {
            let why =
                "is a file or an address; this server takes text only, such as a source of the type `text`";
            Err(ApiError::unsupported(format!("{place}.source"), why))
        }
    }
}

/// A text below its titles.
fn titled<'a>(titles: impl IntoIterator<Item = &'a String>, text: String) -> String {
    titles.into_iter().cloned().chain([text]).collect::<Vec<_>>().join("\n")
}
