//! A conversation in OpenAI's shape.

use chat::Choice;
use rustorch::Ending;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::config::{Config, Limits};
use crate::constraint::{Constraint, Format};
use crate::conversation::{
    self, RESERVED_VARIABLES, Said, conversation, with_tools, without_begun_reasoning,
};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, at_most};

pub(crate) type Prompt = (Conversation, Tools, Constraint);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Conversation {
    /// The conversation; a last message of the assistant is continued.
    #[schemars(with = "Vec<Json>", extend("minItems" = 1, "items" = { "$ref": "#/components/schemas/Message" }))]
    messages: Vec<Said>,
    /// For the chat template; `none` turns reasoning off.
    reasoning_effort: Option<String>,
    /// More variables of the chat template.
    #[serde(default)]
    chat_template_kwargs: Map<String, Json>,
    /// Whether the prompt ends with the beginning of an answer.
    add_generation_prompt: Option<bool>,
    /// Whether the last message is continued.
    continue_final_message: Option<bool>,
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
    /// The older form of `tools`: the answer has a `function_call`.
    #[serde(default)]
    functions: Vec<Json>,
    /// The older form of `tool_choice`.
    function_call: Option<FunctionChoice>,
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
    /// `any` is Mistral's name.
    #[serde(alias = "any")]
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
#[serde(untagged, expecting = "expected \"none\", \"auto\" or {\"name\": …}")]
enum FunctionChoice {
    Mode(Mode),
    Named(Named),
}

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

/// The conversation, the language of its answer, and the names of what is left out.
pub(crate) fn read(
    (body, tools, constraint): Prompt,
    config: &Config,
) -> Result<(rustorch::Conversation, Format, Vec<String>), ApiError> {
    at_most("messages", &body.messages, config.limits.messages)?;
    let mut ignored = Vec::new();
    let conversation = conversation(Said::messages(body.messages), &config.defaults, &mut ignored)?;
    let mut conversation = tools.give(conversation, &config.limits, &mut ignored)?;
    conversation.variables.extend(variables(body.chat_template_kwargs, body.reasoning_effort.as_deref())?);
    let format = constraint.or(None)?;
    conversation.ending = ending(body.add_generation_prompt, body.continue_final_message, &conversation)?;
    without_begun_reasoning(&mut conversation, "reasoning_content", &mut ignored);
    Ok((conversation, format, ignored))
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
    /// Whether they are in the older form.
    pub(crate) fn are_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Gives the tools to a conversation. Those that a service would run are left out, and named in `ignored`.
    pub(crate) fn give(
        self,
        conversation: rustorch::Conversation,
        limits: &Limits,
        ignored: &mut Vec<String>,
    ) -> Result<rustorch::Conversation, ApiError> {
        let are_functions = self.are_functions();
        let Tools { tools, tool_choice, parallel_tool_calls, functions, function_call } = self;
        if are_functions && !tools.is_empty() {
            return Err(ApiError::invalid("functions", "is given with `tools`; choose one"));
        }
        let (name, given) = if are_functions { ("functions", functions) } else { ("tools", tools) };
        at_most(name, &given, limits.tools)?;
        let fields =
            if are_functions { ["name", "parameters"] } else { ["function.name", "function.parameters"] };
        let mut tools = conversation::Tools::new(fields);
        for (index, mut tool) in given.into_iter().enumerate() {
            let place = format!("{name}[{index}]");
            if are_functions {
                tool = json!({ "type": "function", "function": tool });
            }
            if tool["type"].as_str().is_some_and(|kind| kind != "function") {
                ignored.push(place);
                continue;
            }
            let is_strict = tool["function"]["strict"] == true;
            tools.push(place, tool, is_strict);
        }
        let choice = match (tool_choice, function_call) {
            (Some(ToolChoice::Named { function: named }), _) | (None, Some(FunctionChoice::Named(named))) => {
                Some(Choice::Named(named.name))
            }
            (Some(ToolChoice::Mode(mode)), _) | (None, Some(FunctionChoice::Mode(mode))) => mode.choice(),
            (None, None) => Some(Choice::Auto),
        };
        // The older form of an answer has one call.
        let is_parallel = parallel_tool_calls.unwrap_or(true) && !are_functions;
        with_tools(conversation, tools, choice, is_parallel)
    }
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
