//! A conversation in OpenAI's shape.

use chat::Choice;
use grammar::Source;
use rustorch::{Conversation, Ending};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::config::{Config, Limits};
use crate::conversation::{RESERVED_VARIABLES, ToolUse, conversation};
use crate::error::ApiError;
use crate::fields::Fields;

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}"
)]
enum ToolChoice {
    Word(String),
    Named { function: Named },
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
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

#[derive(Deserialize)]
struct NamedSchema {
    #[serde(default)]
    schema: Option<Json>,
}

/// The language of an answer, and the field that asks for it.
pub(crate) type Format = Option<(&'static str, Source)>;

/// The conversation of a call, and what the answer must be.
pub(crate) fn read(fields: &mut Fields, config: &Config) -> Result<(Conversation, Format), ApiError> {
    let limits = &config.limits;
    let messages = fields
        .list("messages", limits.messages)?
        .ok_or_else(|| ApiError::invalid("messages", "`messages` is missing"))?;
    let conversation = conversation(messages, &config.defaults)?;
    let effort: Option<String> = fields.take("reasoning_effort")?;
    let mut conversation = tools(fields, limits)?.apply(conversation);
    conversation.variables.extend(variables(fields, effort.as_deref())?);
    let format = format(fields)?;
    conversation.ending = ending(fields, &conversation)?;
    Ok((conversation, format))
}

/// What follows the messages, under the names of vLLM and transformers.
fn ending(fields: &mut Fields, conversation: &Conversation) -> Result<Ending, ApiError> {
    let (add, go_on) = ("add_generation_prompt", "continue_final_message");
    match (fields.take(add)?, fields.take(go_on)?) {
        (Some(true), Some(true)) => {
            Err(ApiError::invalid(go_on, format!("both `{add}` and `{go_on}` are true; choose one")))
        }
        (_, Some(true)) if !conversation.continues_answer() => {
            Err(ApiError::invalid(go_on, format!("`{go_on}`: the last message is not the assistant's")))
        }
        (_, Some(true)) => Ok(Ending::Continued),
        (Some(false), Some(false)) => Ok(Ending::Nothing),
        (_, Some(false)) => Ok(Ending::Answer),
        (Some(false), None) if !conversation.continues_answer() => Ok(Ending::Nothing),
        (_, None) => Ok(Ending::Continued),
    }
}

/// The tools of a call, and how they may be used.
pub(crate) fn tools(fields: &mut Fields, limits: &Limits) -> Result<ToolUse, ApiError> {
    let tools: Vec<Json> = fields.list("tools", limits.tools)?.unwrap_or_default();
    for (index, tool) in tools.iter().enumerate() {
        if let Some(kind) = tool["type"].as_str().filter(|kind| *kind != "function") {
            return Err(no_function(index, kind));
        }
    }
    let choice = match fields.take("tool_choice")? {
        Some(ToolChoice::Word(word)) if word == "none" => None,
        Some(ToolChoice::Word(word)) if word == "required" => Some(Choice::Required),
        Some(ToolChoice::Named { function }) => Some(Choice::Named(function.name)),
        Some(ToolChoice::Word(word)) if word != "auto" => {
            let message = format!("`tool_choice` is {word:?}, expected none, auto, required or a function");
            return Err(ApiError::invalid("tool_choice", message));
        }
        _ => Some(Choice::Auto),
    };
    let choice = match choice {
        Some(Choice::Required | Choice::Named(_)) if tools.is_empty() => {
            return Err(ApiError::invalid(
                "tool_choice",
                "`tool_choice` demands a call, but there are no `tools`",
            ));
        }
        choice => choice.filter(|_| !tools.is_empty()),
    };
    let is_parallel = fields.take("parallel_tool_calls")?.unwrap_or(true);
    let functions = tools.iter().map(|tool| &tool["function"]);
    let strict = functions.filter(|function| function["strict"] == Json::Bool(true));
    let strict = strict.filter_map(|function| function["name"].as_str()).map(str::to_owned).collect();
    Ok(ToolUse { tools, choice, is_parallel, strict })
}

/// The error for a tool of another type than `function`.
pub(super) fn no_function(index: usize, kind: &str) -> ApiError {
    let param = format!("tools[{index}]");
    let why = format!("`{param}` has the type `{kind}`; this server calls functions only");
    ApiError::unsupported(param, why)
}

/// Variables of the chat template: those of the client, and how much the model should reason.
pub(super) fn variables(fields: &mut Fields, effort: Option<&str>) -> Result<Map<String, Json>, ApiError> {
    let mut variables: Map<String, Json> = fields.take("chat_template_kwargs")?.unwrap_or_default();
    if let Some(name) = variables.keys().find(|name| RESERVED_VARIABLES.contains(&name.as_str())) {
        let message = format!("`chat_template_kwargs.{name}` is reserved for the server; leave it out");
        return Err(ApiError::invalid("chat_template_kwargs", message));
    }
    if let Some(effort) = effort {
        if effort == "none" {
            variables.extend(chat::reasoning_switch(false));
        }
        variables.insert("reasoning_effort".into(), effort.into());
    }
    Ok(variables)
}

/// `response_format`, or the fields of llama-server and vLLM for the same.
fn format(fields: &mut Fields) -> Result<Format, ApiError> {
    let found = match fields.take("response_format")? {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonObject { schema: None }) => Some(Source::JsonObject),
        Some(ResponseFormat::JsonObject { schema: Some(json) }) => Some(Source::of_schema(json)),
        Some(ResponseFormat::JsonSchema { json_schema }) => match json_schema.schema {
            Some(json) => Some(Source::of_schema(json)),
            None => {
                return Err(ApiError::invalid(
                    "response_format",
                    "`response_format.json_schema.schema` is missing",
                ));
            }
        },
    };
    one_constraint(fields, found.map(|source| ("response_format", source)))
}

/// The constraint that all protocols of text have: a JSON schema, a GBNF grammar or a regular expression.
pub(crate) fn constraint(fields: &mut Fields) -> Result<Format, ApiError> {
    one_constraint(fields, None)
}

/// The constraint `own` of a protocol, or one that all have. Fails if there are two.
pub(super) fn one_constraint(fields: &mut Fields, own: Format) -> Result<Format, ApiError> {
    let schema = fields.take::<Json>("json_schema")?.map(Source::of_schema);
    let grammar = fields.take("grammar")?.filter(|text: &String| !text.is_empty()).map(Source::Gbnf);
    let regex = fields.take("guided_regex")?.map(Source::Regex);
    let all = [("json_schema", schema), ("grammar", grammar), ("guided_regex", regex)];
    let mut all = own.into_iter().chain(all.into_iter().filter_map(|(name, source)| Some((name, source?))));
    match (all.next(), all.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(ApiError::invalid(second, format!("both `{first}` and `{second}` are given; choose one")))
        }
        (found, _) => Ok(found),
    }
}
