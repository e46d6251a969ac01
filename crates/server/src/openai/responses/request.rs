//! The body of a call. `tools` and `tool_choice` are flatter here than in chat completions.

use std::collections::BTreeMap;

use chat::Choice;
use engine::Param;
use rustorch::Conversation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::input::{self, Input};
use crate::app::App;
use crate::call::Sampling;
use crate::config::Limits;
use crate::constraint::{Constraint, Format, ResponseFormat};
use crate::conversation::{self, conversation, parse, with_tools};
use crate::error::ApiError;
use crate::fields::{Group, Within, at_most};
use crate::openai::conversation::{Mode, variables};

pub(in crate::openai) type Body = (Request, Tools, Constraint, Sampling);

#[derive(Deserialize, JsonSchema)]
pub(in crate::openai) struct Request {
    /// A text, or items: messages, calls, their results, reasoning.
    input: Input,
    /// A message of the system before them.
    instructions: Option<String>,
    /// How the answer is written.
    #[serde(default)]
    text: Text,
    /// How much the model reasons.
    #[serde(default)]
    reasoning: Reasoning,
    /// Further parts of the answer.
    #[serde(default)]
    #[schemars(extend("items" = { "type": "string", "examples": ["message.output_text.logprobs", "reasoning.encrypted_content"] }))]
    include: Vec<String>,
    /// So many most likely tokens; needs `include`.
    top_logprobs: Option<Within<0, 20>>,
    /// A prompt is never cut.
    #[schemars(extend("enum" = ["disabled"]))]
    truncation: Option<String>,
    /// More variables of the chat template.
    #[serde(default)]
    chat_template_kwargs: Map<String, Json>,
    /// Repeated.
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    /// Repeated.
    prompt_cache_key: Option<String>,
    /// Repeated.
    safety_identifier: Option<String>,
    /// Repeated.
    user: Option<String>,
    /// Answer as a stream.
    #[serde(default)]
    stream: bool,
}

impl Group for Request {
    /// They would need a store of responses, or another service.
    const REFUSED: &'static [&'static str] = &[
        "store",
        "previous_response_id",
        "conversation",
        "background",
        "prompt",
        "context_management",
        "moderation",
    ];
    /// They concern services that this server does not have, or how a stream is packed.
    const IGNORED: &'static [&'static str] =
        &["max_tool_calls", "prompt_cache_options", "prompt_cache_retention", "stream_options"];
}

/// A call that has been read.
pub(super) struct Call {
    pub(super) request: rustorch::Request,
    pub(super) format: Format,
    /// The fields that the response repeats.
    pub(super) repeated: Json,
    pub(super) is_stream: bool,
    /// Names of the tools that are ignored.
    pub(super) ignored: Vec<String>,
}

/// `reasoning`. The model's own text is returned, never a summary.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
struct Reasoning {
    effort: Option<String>,
    summary: Option<String>,
}

/// `text`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
struct Text {
    #[schemars(with = "Option<ResponseFormat>")]
    format: Json,
    verbosity: Option<String>,
}

impl Default for Text {
    fn default() -> Text {
        Text { format: json!({ "type": "text" }), verbosity: None }
    }
}

pub(super) fn read((body, tools, constraint, sampling): Body, app: &App) -> Result<Call, ApiError> {
    match body.truncation.as_deref() {
        None | Some("disabled") => {}
        Some("auto") => {
            let why = "is \"auto\", but this server never cuts a prompt; leave it out";
            return Err(ApiError::unsupported("truncation", why));
        }
        Some(other) => {
            return Err(ApiError::invalid("truncation", format!("is {other:?}, expected \"disabled\"")));
        }
    }
    let mut ignored = Vec::new();
    let top_logprobs = body.top_logprobs.map_or(0, |top| top.0);
    let logprobs = logprobs(&body.include, top_logprobs, &mut ignored)?;
    let messages = input::read(body.input, body.instructions.as_deref(), &app.config.limits, &mut ignored)?;
    let conversation = conversation(messages, &app.config.defaults, &mut ignored)?;
    let (mut conversation, tools, choice) = tools.give(conversation, &app.config.limits, &mut ignored)?;
    let parallel_tool_calls = conversation.parallel_tool_calls;
    conversation.variables.extend(variables(body.chat_template_kwargs, body.reasoning.effort.as_deref())?);
    let format = constraint.or(format(&body.text.format)?)?;
    let mut request = sampling.one_over(&app.config.defaults.params)?;
    request.input = conversation.into();
    request.params.logprobs = logprobs;
    let params = &request.params;
    let told = |name: &str| Param::find(name).map(|param| param.get(params));
    let repeated = json!({
        "background": false,
        "instructions": body.instructions,
        "max_output_tokens": params.max_tokens,
        "max_tool_calls": null,
        "metadata": body.metadata,
        "parallel_tool_calls": parallel_tool_calls,
        "previous_response_id": null,
        "prompt_cache_key": body.prompt_cache_key,
        "reasoning": body.reasoning,
        "safety_identifier": body.safety_identifier,
        "service_tier": "default",
        "store": false,
        "temperature": told("temperature"),
        "text": body.text,
        "tool_choice": choice,
        "tools": tools,
        "top_logprobs": top_logprobs,
        "top_p": told("top_p"),
        "truncation": "disabled",
        "user": body.user,
    });
    Ok(Call { request, format, repeated, is_stream: body.stream, ignored })
}

/// Parts of the answer that concern tools of services and pictures, of which there are none.
const ABSENT: [&str; 5] = [
    "web_search_call.",
    "file_search_call.",
    "code_interpreter_call.",
    "computer_call_output.",
    "message.input_image.",
];

/// The number of most likely tokens to return with each token. Names what `include` asks for and no answer has in `ignored`.
fn logprobs(include: &[String], top: usize, ignored: &mut Vec<String>) -> Result<Option<usize>, ApiError> {
    let mut wants_logprobs = false;
    for (index, name) in include.iter().enumerate() {
        match &**name {
            "message.output_text.logprobs" => wants_logprobs = true,
            // Reasoning is in the output as it is.
            "reasoning.encrypted_content" => {}
            name if ABSENT.iter().any(|group| name.starts_with(group)) => {
                ignored.push(format!("include[{index}]"))
            }
            name => {
                let why = format!("is {name:?}, which this server does not have; leave it out");
                return Err(ApiError::unsupported(format!("include[{index}]"), why));
            }
        }
    }
    if top > 0 && !wants_logprobs {
        let why = "needs `include`: [\"message.output_text.logprobs\"]";
        return Err(ApiError::invalid("top_logprobs", why));
    }
    Ok(wants_logprobs.then_some(top))
}

fn format(json: &Json) -> Result<Format, ApiError> {
    let param = "text.format";
    if json.is_null() { Ok(None) } else { parse::<ResponseFormat>(param, json.clone())?.read(param) }
}

#[derive(Deserialize, JsonSchema)]
pub(in crate::openai) struct Tools {
    /// Functions that the model may call.
    #[serde(default)]
    #[schemars(with = "Vec<Function>")]
    tools: Vec<Json>,
    /// Whether tools are called, and which.
    #[schemars(with = "Option<ToolChoice>")]
    tool_choice: Option<Json>,
    /// Whether an answer may have several calls.
    parallel_tool_calls: Option<bool>,
}

impl Group for Tools {}

/// A function that the model may call.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Function {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["function"]))]
    kind: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Json>,
    #[serde(default)]
    strict: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\", {\"type\": \"function\", \"name\": …} or {\"type\": \"allowed_tools\", \"mode\": …, \"tools\": …}"
)]
enum ToolChoice {
    Word(Mode),
    Object(Chosen),
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Chosen {
    Function {
        name: String,
    },
    AllowedTools {
        mode: Mode,
        tools: Vec<Named>,
    },
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    #[serde(rename = "type", default = "function_type")]
    kind: String,
    #[serde(default)]
    name: String,
}

fn function_type() -> String {
    "function".to_owned()
}

impl Tools {
    /// Gives the tools that may be used to a conversation; also the tools and the choice that the answer repeats. Tools that are no
    /// functions are left out, and named in `ignored`.
    fn give(
        self,
        conversation: Conversation,
        limits: &Limits,
        ignored: &mut Vec<String>,
    ) -> Result<(Conversation, Vec<Function>, Json), ApiError> {
        let Tools { tools: given, tool_choice, parallel_tool_calls } = self;
        at_most("tools", &given, limits.tools)?;
        let mut tools: Vec<(String, Function)> = Vec::new();
        for (index, tool) in given.into_iter().enumerate() {
            let place = format!("tools[{index}]");
            match tool["type"].as_str() {
                Some("function") => {
                    let function = parse(&place, tool)?;
                    tools.push((place, function));
                }
                Some(_) => ignored.push(place),
                None => return Err(ApiError::invalid(place, "has no `type`, expected \"function\"")),
            }
        }
        let choice = tool_choice.unwrap_or_else(|| json!("auto"));
        let parsed = serde_json::from_value(choice.clone())
            .map_err(|error| ApiError::invalid("tool_choice", format!("is {choice}: {error}")))?;
        let (allowed, chosen) = match parsed {
            ToolChoice::Word(mode) => (None, mode.choice()),
            ToolChoice::Object(Chosen::Function { name }) => (None, Some(Choice::Named(name))),
            ToolChoice::Object(Chosen::AllowedTools { mode, tools: mut allowed }) => {
                // Others have been left out, too.
                allowed.retain(|tool| tool.kind == "function");
                (Some(allowed), mode.choice())
            }
            ToolChoice::Object(Chosen::Other) => {
                let why = format!("is {choice}; this server calls functions only");
                return Err(ApiError::unsupported("tool_choice", why));
            }
        };
        if let Some(unknown) =
            allowed.iter().flatten().find(|allowed| tools.iter().all(|(_, tool)| tool.name != allowed.name))
        {
            let why = format!("allows {:?}, which is not one of the tools", unknown.name);
            return Err(ApiError::invalid("tool_choice", why));
        }
        // The model sees only what it may call.
        let is_allowed = |tool: &Function| match &allowed {
            Some(allowed) => allowed.iter().any(|allowed| allowed.name == tool.name),
            None => true,
        };
        let mut nested = conversation::Tools::new(["name", "parameters"]);
        for (place, tool) in tools.iter().filter(|(_, tool)| is_allowed(tool)) {
            let own =
                conversation::function(&tool.name, tool.description.as_deref(), tool.parameters.clone());
            nested.push(place.clone(), own, tool.strict == Some(true));
        }
        let is_parallel = parallel_tool_calls.unwrap_or(true);
        let conversation = with_tools(conversation, nested, chosen, is_parallel)?;
        Ok((conversation, tools.into_iter().map(|(_, tool)| tool).collect(), choice))
    }
}
