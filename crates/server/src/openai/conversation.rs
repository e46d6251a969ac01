//! A conversation in OpenAI's shape.

use chat::{Choice, Message};
use grammar::Source;
use rustorch::Ending;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::config::{Config, Limits};
use crate::conversation::{RESERVED_VARIABLES, conversation, with_tools};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, at_most};

pub(crate) type Prompt = (Conversation, Tools, Constraint);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Conversation {
    /// The conversation; a last message of the assistant is continued.
    #[schemars(with = "Vec<Json>", extend("minItems" = 1, "items" = { "$ref": "#/components/schemas/Message" }))]
    messages: Vec<Message>,
    /// For the chat template; `none` turns reasoning off.
    reasoning_effort: Option<String>,
    /// More variables of the chat template.
    #[serde(default)]
    chat_template_kwargs: Map<String, Json>,
    /// Whether the prompt ends with the beginning of an answer.
    add_generation_prompt: Option<bool>,
    /// Whether the last message is continued.
    continue_final_message: Option<bool>,
    /// The language of the answer.
    response_format: Option<ResponseFormat>,
}

impl Group for Conversation {}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Tools {
    /// Functions that the model may call.
    #[serde(default)]
    #[schemars(with = "Vec<Json>", extend("items" = { "$ref": "#/components/schemas/Tool" }))]
    tools: Vec<Json>,
    /// Whether tools are called, and which.
    tool_choice: Option<ToolChoice>,
    /// Whether an answer may have several calls.
    parallel_tool_calls: Option<bool>,
}

impl Group for Tools {}

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}"
)]
enum ToolChoice {
    Mode(Mode),
    Named { function: Named },
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    None,
    Auto,
    Required,
}

impl Mode {
    pub(super) fn choice(self) -> Option<Choice> {
        match self {
            Mode::None => None,
            Mode::Auto => Some(Choice::Auto),
            Mode::Required => Some(Choice::Required),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject {
        /// `value` is the name of Hugging Face's clients.
        #[serde(default, alias = "value")]
        schema: Option<Json>,
    },
    JsonSchema {
        json_schema: NamedSchema,
    },
}

#[derive(Deserialize, JsonSchema)]
struct NamedSchema {
    #[serde(default)]
    schema: Option<Json>,
}

/// The language of the answer; one of them.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Constraint {
    /// The answer is JSON with this schema.
    json_schema: Option<Json>,
    /// The answer follows this grammar (GBNF).
    grammar: Option<String>,
    /// The answer matches this regular expression.
    guided_regex: Option<String>,
}

impl Group for Constraint {}

/// The language of an answer, and the field that asks for it.
pub(crate) type Format = Option<(&'static str, Source)>;

/// The [shapes](crate::openapi::shape) of messages and tools.
pub(super) fn shapes() -> [(&'static str, Json); 3] {
    let part = json!({ "type": "=text", "text": "string" });
    [
        (
            "Message",
            json!({
                "role": "string",
                "content?": ["string", [part], "null"],
                "reasoning_content?": "string|null",
                "tool_calls?": [["#ToolCall"], "null"],
                "tool_call_id?": "string|null",
                "name?": "string|null",
            }),
        ),
        (
            "Tool",
            json!({
                "type": "=function",
                "function": { "name": "string", "description?": "string|null", "parameters?": "any" },
            }),
        ),
        (
            "ToolCall",
            json!({
                "id?": "string|null", "type?": "=function", "function": { "name": "string", "arguments?": "any" },
            }),
        ),
    ]
}

pub(crate) fn read(
    (body, tools, constraint): Prompt,
    config: &Config,
) -> Result<(rustorch::Conversation, Format), ApiError> {
    at_most("messages", &body.messages, config.limits.messages)?;
    let conversation = conversation(body.messages, &config.defaults)?;
    let mut conversation = tools.give(conversation, &config.limits)?;
    conversation.variables.extend(variables(body.chat_template_kwargs, body.reasoning_effort.as_deref())?);
    let format = constraint.or(format(body.response_format)?)?;
    conversation.ending = ending(body.add_generation_prompt, body.continue_final_message, &conversation)?;
    Ok((conversation, format))
}

/// The end of the prompt, under the names of vLLM and transformers.
fn ending(
    add: Option<bool>,
    go_on: Option<bool>,
    conversation: &rustorch::Conversation,
) -> Result<Ending, ApiError> {
    let name = "continue_final_message";
    let wrong = |message| Err(ApiError::new(Kind::Invalid, message).at(name));
    match (add, go_on) {
        (Some(true), Some(true)) => {
            wrong(format!("both `add_generation_prompt` and `{name}` are true; choose one"))
        }
        (_, Some(true)) if !conversation.continues_answer() => {
            wrong(format!("`{name}`: the last message is not the assistant's"))
        }
        (_, Some(true)) => Ok(Ending::Continued),
        (Some(false), Some(false)) => Ok(Ending::Nothing),
        (_, Some(false)) => Ok(Ending::Answer),
        (Some(false), None) if !conversation.continues_answer() => Ok(Ending::Nothing),
        (_, None) => Ok(Ending::Continued),
    }
}

impl Tools {
    /// Gives the tools to a conversation.
    pub(crate) fn give(
        self,
        conversation: rustorch::Conversation,
        limits: &Limits,
    ) -> Result<rustorch::Conversation, ApiError> {
        let Tools { tools, tool_choice, parallel_tool_calls } = self;
        at_most("tools", &tools, limits.tools)?;
        for (index, tool) in tools.iter().enumerate() {
            if let Some(kind) = tool["type"].as_str().filter(|kind| *kind != "function") {
                return Err(not_a_function(index, kind));
            }
        }
        let choice = match tool_choice {
            None => Some(Choice::Auto),
            Some(ToolChoice::Mode(mode)) => mode.choice(),
            Some(ToolChoice::Named { function }) => Some(Choice::Named(function.name)),
        };
        let functions = tools.iter().map(|tool| &tool["function"]);
        let strict = functions.filter(|function| function["strict"] == Json::Bool(true));
        let strict = strict.filter_map(|function| function["name"].as_str()).map(str::to_owned).collect();
        with_tools(conversation, tools, choice, parallel_tool_calls.unwrap_or(true), strict)
    }
}

pub(super) fn not_a_function(index: usize, kind: &str) -> ApiError {
    let why = format!("has the type `{kind}`; this server calls functions only");
    ApiError::unsupported(format!("tools[{index}]"), why)
}

/// Variables of the chat template: those of the client, and how much the model should reason.
pub(super) fn variables(
    mut variables: Map<String, Json>,
    effort: Option<&str>,
) -> Result<Map<String, Json>, ApiError> {
    if let Some(name) = variables.keys().find(|name| RESERVED_VARIABLES.contains(&name.as_str())) {
        let why = "is reserved for the server; leave it out";
        let error = ApiError::invalid(format!("chat_template_kwargs.{name}"), why);
        return Err(error.at("chat_template_kwargs"));
    }
    if let Some(effort) = effort {
        if effort == "none" {
            variables.extend(chat::reasoning_switch(false));
        }
        variables.insert("reasoning_effort".into(), effort.into());
    }
    Ok(variables)
}

fn format(format: Option<ResponseFormat>) -> Result<Format, ApiError> {
    let name = "response_format";
    let source = match format {
        None | Some(ResponseFormat::Text) => return Ok(None),
        Some(ResponseFormat::JsonObject { schema: None }) => Source::JsonObject,
        Some(
            ResponseFormat::JsonObject { schema: Some(schema) }
            | ResponseFormat::JsonSchema { json_schema: NamedSchema { schema: Some(schema) } },
        ) => Source::from_schema(schema),
        Some(ResponseFormat::JsonSchema { json_schema: NamedSchema { schema: None } }) => {
            return Err(ApiError::invalid("response_format.json_schema.schema", "is missing").at(name));
        }
    };
    Ok(Some((name, source)))
}

impl Constraint {
    /// The constraint `own` of a protocol, or this one. Fails if there are two.
    pub(crate) fn or(self, own: Format) -> Result<Format, ApiError> {
        let all = [
            ("json_schema", self.json_schema.map(Source::from_schema)),
            ("grammar", self.grammar.filter(|text| !text.is_empty()).map(Source::Gbnf)),
            ("guided_regex", self.guided_regex.map(Source::Regex)),
        ];
        let all = all.into_iter().filter_map(|(name, source)| Some((name, source?)));
        let mut all = own.into_iter().chain(all);
        match (all.next(), all.next()) {
            (Some((first, _)), Some((second, _))) => {
                let message = format!("both `{first}` and `{second}` are given; choose one");
                Err(ApiError::new(Kind::Invalid, message).at(second))
            }
            (found, _) => Ok(found),
        }
    }
}
