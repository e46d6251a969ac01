//! The body of a call. <https://platform.claude.com/docs/en/api/messages>.

use chat::Choice;
use engine::Params;
use grammar::Source;
use rustorch::{Conversation, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::conversation::Messages;
use crate::call::Sampling;
use crate::config::{Config, Limits};
use crate::constraint::{AnswerFormat, Format};
use crate::conversation::{self, function, parse, with_tools};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Within, at_most};

pub(super) type Prompt = (Messages, Tools, Manner);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Length {
    /// Tokens of the answer, at most; -1 is any number.
    max_tokens: MaxTokens,
    /// 0 takes the most likely token.
    #[schemars(range(min = 0.0, max = 1.0))]
    temperature: Option<f32>,
    /// Answer as a stream.
    #[serde(default)]
    pub(super) stream: bool,
}

impl Group for Length {}

/// Tokens, at most.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected an integer from 1, or -1 for no limit")]
enum MaxTokens {
    Some(Within<1, { usize::MAX }>),
    Any(Unlimited),
}

/// -1.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "i8")]
struct Unlimited;

impl TryFrom<i8> for Unlimited {
    type Error = &'static str;

    fn try_from(number: i8) -> Result<Unlimited, &'static str> {
        (number == -1).then_some(Unlimited).ok_or("expected -1")
    }
}

/// Fields of the answer, which change no count of the prompt's tokens.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Uncounted {}

impl Group for Uncounted {
    const IGNORED: &'static [&'static str] =
        &["max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"];
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Manner {
    /// Whether the model reasons.
    thinking: Option<Thinking>,
    /// How the answer is written.
    #[serde(default)]
    output_config: OutputConfig,
    /// The older name of `output_config.format`.
    output_format: Option<JsonFormat>,
    /// Edits of the conversation.
    #[serde(default)]
    context_management: ContextManagement,
}

impl Group for Manner {}

/// The prompt of a call, and how it is answered.
pub(super) struct Asked {
    pub(super) conversation: Conversation,
    pub(super) format: Format,
    pub(super) shows_thinking: bool,
    pub(super) ignored: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Thinking {
    #[serde(rename = "type")]
    kind: ThinkingKind,
    #[serde(default)]
    #[schemars(with = "Option<u64>")]
    budget_tokens: Option<Json>,
    #[serde(default)]
    display: Option<Display>,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum ThinkingKind {
    Enabled,
    Adaptive,
    Disabled,
    #[schemars(skip)]
    BetweenTools,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Display {
    Summarized,
    Omitted,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct OutputConfig {
    effort: Option<String>,
    format: Option<JsonFormat>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Json>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonFormat {
    JsonSchema { schema: Json },
}

/// `context_management`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ContextManagement {
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
struct Edit {
    #[serde(rename = "type")]
    kind: String,
}

impl Length {
    pub(super) fn request(&self, sampling: Sampling, defaults: &Params) -> Result<Request, ApiError> {
        if let Some(found) = self.temperature.filter(|found| !(0.0..=1.0).contains(found)) {
            return Err(ApiError::invalid("temperature", format!("is {found}, expected 0 to 1")));
        }
        let mut request = sampling.one_over(defaults)?;
        request.params.max_tokens = match self.max_tokens {
            MaxTokens::Some(most) => Some(most.0),
            MaxTokens::Any(Unlimited) => None,
        };
        request.params.temperature = self.temperature.unwrap_or(defaults.temperature);
        Ok(request)
    }
}

pub(super) fn ask((messages, tools, manner): Prompt, config: &Config) -> Result<Asked, ApiError> {
    let mut ignored = Vec::new();
    let conversation = messages.read(config, &mut ignored)?;
    let mut conversation = tools.give(conversation, &config.limits, &mut ignored)?;
    let (format, shows_thinking) = manner.read(&mut conversation.variables, &mut ignored)?;
    Ok(Asked { conversation, format, shows_thinking, ignored })
}

impl Manner {
    /// The language of the answer, and whether the answer shows its reasoning. Adds variables of the chat template, and names what
    /// is ignored.
    fn read(
        self,
        variables: &mut Map<String, Json>,
        ignored: &mut Vec<String>,
    ) -> Result<(Format, bool), ApiError> {
        let mut shows_thinking = true;
        if let Some(Thinking { kind, budget_tokens, display }) = self.thinking {
            if let ThinkingKind::BetweenTools = kind {
                let why = "is `between_tools`, which this server does not do; expected enabled, adaptive or disabled";
                return Err(ApiError::unsupported("thinking.type", why));
            }
            variables.extend(chat::reasoning_switch(kind != ThinkingKind::Disabled));
            ignored.extend(budget_tokens.map(|_| "thinking.budget_tokens".into()));
            shows_thinking = display != Some(Display::Omitted);
        }
        let OutputConfig { effort, format, others } = self.output_config;
        variables.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort.into())));
        ignored.extend(others.into_iter().map(|(name, _)| format!("output_config.{name}")));
        let (name, format) = match (format, self.output_format) {
            (Some(_), Some(_)) => {
                let message = "both `output_config.format` and `output_format` are given; choose one";
                return Err(ApiError::new(Kind::Invalid, message).at("output_format"));
            }
            (Some(format), None) => ("output_config", Some(format)),
            (None, format) => ("output_format", format),
        };
        // Nothing is cleared to make room. The chat template decides about earlier reasoning.
        for (index, Edit { kind }) in self.context_management.edits.into_iter().enumerate() {
            let param = format!("context_management.edits[{index}]");
            if !kind.starts_with("clear_") {
                let why = format!("has the type `{kind}`, which this server does not do; leave it out");
                return Err(ApiError::unsupported(param, why));
            }
            ignored.push(param);
        }
        let source = |JsonFormat::JsonSchema { schema }| AnswerFormat::new(name, Source::from_schema(schema));
        Ok((format.map(source), shows_thinking))
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Tools {
    /// Functions that the model may call.
    #[serde(default)]
    #[schemars(with = "Vec<Tool>")]
    tools: Vec<Json>,
    /// Whether tools are called, and which.
    tool_choice: Option<ToolChoice>,
}

impl Group for Tools {}

#[derive(Deserialize, JsonSchema)]
struct Tool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Map<String, Json>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Json>,
}

#[derive(Deserialize, JsonSchema)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: ChoiceKind,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ChoiceKind {
    Auto,
    Any,
    Tool,
    None,
}

/// Parts of a tool that change nothing here.
const HARMLESS: [&str; 3] = ["type", "cache_control", "eager_input_streaming"];

impl Tools {
    /// Gives the tools to a conversation. Names what is ignored in `ignored`.
    fn give(
        self,
        conversation: Conversation,
        limits: &Limits,
        ignored: &mut Vec<String>,
    ) -> Result<Conversation, ApiError> {
        let Tools { tools: given, tool_choice } = self;
        at_most("tools", &given, limits.tools)?;
        let mut tools = conversation::Tools::new(["name", "input_schema"]);
        for (index, json) in given.into_iter().enumerate() {
            let place = format!("tools[{index}]");
            match tool(&place, json, ignored)? {
                Some((tool, is_strict)) => tools.push(place, tool, is_strict),
                None => ignored.push(place),
            }
        }
        let Some(ToolChoice { kind, name, disable_parallel_tool_use }) = tool_choice else {
            return with_tools(conversation, tools, Some(Choice::Auto), true);
        };
        let choice = match kind {
            ChoiceKind::None => None,
            ChoiceKind::Auto => Some(Choice::Auto),
            ChoiceKind::Any => Some(Choice::Required),
            ChoiceKind::Tool => {
                let missing = || ApiError::invalid("tool_choice.name", "is missing; it says which tool");
                Some(Choice::Named(name.ok_or_else(missing)?))
            }
        };
        with_tools(conversation, tools, choice, !disable_parallel_tool_use.unwrap_or(false))
    }
}

/// A tool in OpenAI's shape, and whether it is strict. None if Anthropic would run it, or knows how it is called.
fn tool(place: &str, json: Json, ignored: &mut Vec<String>) -> Result<Option<(Json, bool)>, ApiError> {
    match json["type"].as_str() {
        None | Some("custom") => {}
        Some("function") => {
            let why = "is in OpenAI's shape, expected {\"name\": …, \"input_schema\": …}";
            return Err(ApiError::invalid(place, why));
        }
        Some(_) => return Ok(None),
    }
    let Tool { name, description, input_schema, strict, others } = parse(place, json)?;
    for (field, value) in others {
        let place = format!("tools[].{field}");
        let says_nothing = matches!(value, Json::Null | Json::Bool(false));
        if !says_nothing && !HARMLESS.contains(&&*field) && !ignored.contains(&place) {
            ignored.push(place);
        }
    }
    let tool = function(&name, description.as_deref(), Some(input_schema.into()));
    Ok(Some((tool, strict.unwrap_or(false))))
}
