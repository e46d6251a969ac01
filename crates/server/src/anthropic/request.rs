//! The body of a call. <https://platform.claude.com/docs/en/api/messages>.

use engine::Params;
use grammar::Source;
use rustorch::Conversation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::conversation::Messages;
use super::tools::Tools;
use crate::call::{Parameters, Sampling};
use crate::config::Config;
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Within};
use crate::openai::conversation::Format;

pub(super) type Prompt = (Messages, Tools, Manner);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Length {
    /// Tokens of the answer, at most.
    max_tokens: Within<1, { usize::MAX }>,
    /// 0 takes the most likely token.
    #[schemars(range(min = 0.0, max = 1.0))]
    temperature: Option<f32>,
    /// Answer as a stream.
    #[serde(default)]
    pub(super) stream: bool,
}

impl Group for Length {}

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

impl Group for Manner {
    const REFUSED: &'static [&'static str] = &["container", "mcp_servers"];
}

/// The prompt of a call, and how it is answered.
pub(super) struct Asked {
    pub(super) conversation: Conversation,
    pub(super) format: Format,
    pub(super) shows_thinking: bool,
    pub(super) ignored: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Thinking {
    #[serde(rename = "type")]
    kind: ThinkingKind,
    #[serde(default)]
    budget_tokens: Option<u64>,
    #[serde(default)]
    display: Option<Display>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum ThinkingKind {
    Enabled,
    Adaptive,
    Disabled,
    #[schemars(skip)]
    BetweenTools,
}

#[derive(Deserialize, JsonSchema, PartialEq, Eq)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
enum Display {
    Summarized,
    Omitted,
}

#[derive(Default, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(default)]
struct OutputConfig {
    effort: Option<String>,
    format: Option<JsonFormat>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Json>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonFormat {
    JsonSchema { schema: Json },
}

/// `context_management`.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(default)]
struct ContextManagement {
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Edit {
    #[serde(rename = "type")]
    kind: String,
}

impl Length {
    pub(super) fn parameters(&self, sampling: Sampling, defaults: &Params) -> Result<Parameters, ApiError> {
        if let Some(found) = self.temperature.filter(|found| !(0.0..=1.0).contains(found)) {
            return Err(ApiError::invalid("temperature", format!("is {found}, expected 0 to 1")));
        }
        let mut parameters = sampling.one_over(defaults)?;
        parameters.params.max_tokens = Some(self.max_tokens.0);
        parameters.params.temperature = self.temperature.unwrap_or(defaults.temperature);
        Ok(parameters)
    }
}

pub(super) fn ask((messages, tools, manner): Prompt, config: &Config) -> Result<Asked, ApiError> {
    let mut ignored = Vec::new();
    let conversation = messages.read(config)?;
    let mut conversation = tools.read(&config.limits, &mut ignored)?.apply(conversation);
    let variables = &mut conversation.variables;
    let Manner { thinking, output_config, output_format, context_management } = manner;
    let shows_thinking = self::thinking(thinking, variables, &mut ignored)?;
    let format = output(output_config, output_format, variables, &mut ignored)?;
    check_edits(context_management, &mut ignored)?;
    Ok(Asked { conversation, format, shows_thinking, ignored })
}

/// `context_management`. What would be cleared to make room stays; of earlier reasoning, the chat template decides.
fn check_edits(
    ContextManagement { edits }: ContextManagement,
    ignored: &mut Vec<String>,
) -> Result<(), ApiError> {
    for (index, Edit { kind }) in edits.into_iter().enumerate() {
        let param = format!("context_management.edits[{index}]");
        if !kind.starts_with("clear_") {
            let why = format!("has the type `{kind}`, which this server does not do; leave it out");
            return Err(ApiError::unsupported(param, why));
        }
        ignored.push(param);
    }
    Ok(())
}

/// `thinking`, as variables of the chat template. Returns whether the answer shows it.
fn thinking(
    thinking: Option<Thinking>,
    variables: &mut Map<String, Json>,
    ignored: &mut Vec<String>,
) -> Result<bool, ApiError> {
    let Some(Thinking { kind, budget_tokens, display }) = thinking else { return Ok(true) };
    let thinks = match kind {
        ThinkingKind::Enabled | ThinkingKind::Adaptive => true,
        ThinkingKind::Disabled => false,
        ThinkingKind::BetweenTools => {
            let why =
                "is `between_tools`, which this server does not do; expected enabled, adaptive or disabled";
            return Err(ApiError::unsupported("thinking.type", why));
        }
    };
    variables.extend(chat::reasoning_switch(thinks));
    if budget_tokens.is_some() {
        ignored.push("thinking.budget_tokens".into());
    }
    Ok(display != Some(Display::Omitted))
}

/// The language of the answer: `output_config`, or `output_format`, its older name.
fn output(
    config: OutputConfig,
    format: Option<JsonFormat>,
    variables: &mut Map<String, Json>,
    ignored: &mut Vec<String>,
) -> Result<Format, ApiError> {
    if let Some(effort) = config.effort {
        variables.insert("reasoning_effort".into(), effort.into());
    }
    ignored.extend(config.others.into_iter().map(|(name, _)| format!("output_config.{name}")));
    let source = |JsonFormat::JsonSchema { schema }| Source::of_schema(schema);
    match (config.format, format) {
        (Some(_), Some(_)) => {
            let message = "both `output_config.format` and `output_format` are given; choose one";
            Err(ApiError::new(Kind::Invalid, message).at("output_format"))
        }
        (Some(format), None) => Ok(Some(("output_config", source(format)))),
        (None, format) => Ok(format.map(|format| ("output_format", source(format)))),
    }
}
