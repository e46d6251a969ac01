//! What a call asks for. <https://platform.claude.com/docs/en/api/messages>.

use engine::Params;
use grammar::Source;
use rustorch::Conversation;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{conversation, tools};
use crate::app::App;
use crate::call::{Call as Asks, Parameters};
use crate::config::Config;
use crate::error::ApiError;
use crate::fields::{Fields, HARMLESS};
use crate::openai::conversation::Format;

/// A call of `/v1/messages`.
pub(super) struct Call {
    pub(super) call: Asks,
    pub(super) is_stream: bool,
    pub(super) shows_thinking: bool,
    /// Names of the fields that are ignored.
    pub(super) ignored: Vec<String>,
}

/// What a prompt is made of.
pub(super) struct Asked {
    pub(super) conversation: Conversation,
    format: Format,
    shows_thinking: bool,
    pub(super) ignored: Vec<String>,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: ThinkingKind,
    #[serde(default)]
    budget_tokens: Option<u64>,
    #[serde(default)]
    display: Option<Display>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ThinkingKind {
    Enabled,
    Adaptive,
    Disabled,
    BetweenTools,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Display {
    Summarized,
    Omitted,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputConfig {
    effort: Option<String>,
    format: Option<JsonFormat>,
    #[serde(flatten)]
    others: Map<String, Json>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonFormat {
    JsonSchema { schema: Json },
}

/// Fields that this server does not do.
pub(crate) const REFUSED: &[&str] = &["container", "mcp_servers"];

/// `context_management`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextManagement {
    edits: Vec<Edit>,
}

#[derive(Deserialize)]
struct Edit {
    #[serde(rename = "type")]
    kind: String,
}

/// Fields that say nothing of the prompt.
pub(crate) const OF_THE_ANSWER: &[&str] =
    &["max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"];

/// Reads a call of `/v1/messages`.
pub(super) fn read(mut fields: Fields, app: &App) -> Result<Call, ApiError> {
    let is_stream = fields.take("stream")?.unwrap_or(false);
    let defaults = Params { max_tokens: None, ..app.config.defaults.params.clone() };
    let parameters = Parameters::read_one(&mut fields, &defaults)?;
    if parameters.params.max_tokens.unwrap_or(0) == 0 {
        return Err(ApiError::invalid("max_tokens", "`max_tokens` is missing, expected 1 or more"));
    }
    let found = parameters.params.temperature;
    if found > 1.0 && found != defaults.temperature {
        let message = format!("`temperature` is {found}, expected 0 to 1");
        return Err(ApiError::invalid("temperature", message));
    }
    let Asked { conversation, format, shows_thinking, ignored } = ask(fields, &app.config)?;
    Ok(Call { call: Asks::chat(conversation, parameters, format), is_stream, shows_thinking, ignored })
}

/// Reads a call of `/v1/messages/count_tokens`.
pub(super) fn read_prompt(mut fields: Fields, app: &App) -> Result<Asked, ApiError> {
    fields.ignore(OF_THE_ANSWER);
    ask(fields, &app.config)
}

/// Reads what a prompt is made of, the last of a call.
fn ask(mut fields: Fields, config: &Config) -> Result<Asked, ApiError> {
    let mut ignored = Vec::new();
    let conversation = conversation::read(&mut fields, config)?;
    let mut conversation = tools::read(&mut fields, &config.limits, &mut ignored)?.apply(conversation);
    let variables = &mut conversation.variables;
    let shows_thinking = thinking(&mut fields, variables, &mut ignored)?;
    let format = output(&mut fields, variables, &mut ignored)?;
    edits(&mut fields, &mut ignored)?;
    fields.refuse(REFUSED)?;
    fields.ignore(HARMLESS);
    ignored.extend(fields.unknown());
    Ok(Asked { conversation, format, shows_thinking, ignored })
}

/// `context_management`. What would be cleared to make room stays; of earlier reasoning, the chat template decides.
fn edits(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<(), ApiError> {
    const NAME: &str = "context_management";
    let Some(ContextManagement { edits }) = fields.take(NAME)? else { return Ok(()) };
    for (index, Edit { kind }) in edits.into_iter().enumerate() {
        let param = format!("{NAME}.edits[{index}]");
        if !kind.starts_with("clear_") {
            let why = format!("`{param}` has the type `{kind}`, which this server does not do; leave it out");
            return Err(ApiError::unsupported(param, why));
        }
        ignored.push(param);
    }
    Ok(())
}

/// `thinking`, as variables of the chat template. Returns whether the answer shows it.
fn thinking(
    fields: &mut Fields,
    variables: &mut Map<String, Json>,
    ignored: &mut Vec<String>,
) -> Result<bool, ApiError> {
    let Some(Thinking { kind, budget_tokens, display }) = fields.take("thinking")? else { return Ok(true) };
    let thinks = match kind {
        ThinkingKind::Enabled | ThinkingKind::Adaptive => true,
        ThinkingKind::Disabled => false,
        ThinkingKind::BetweenTools => {
            let message = "`thinking.type` is `between_tools`, which this server does not do; expected enabled, adaptive or disabled";
            return Err(ApiError::unsupported("thinking.type", message));
        }
    };
    variables.extend(chat::reasoning_switch(thinks));
    if budget_tokens.is_some() {
        ignored.push("thinking.budget_tokens".into());
    }
    Ok(display != Some(Display::Omitted))
}

/// What the answer must be: `output_config`, or `output_format`, its older name.
fn output(
    fields: &mut Fields,
    variables: &mut Map<String, Json>,
    ignored: &mut Vec<String>,
) -> Result<Format, ApiError> {
    let config: OutputConfig = fields.take("output_config")?.unwrap_or_default();
    if let Some(effort) = config.effort {
        variables.insert("reasoning_effort".into(), effort.into());
    }
    ignored.extend(config.others.into_iter().map(|(name, _)| format!("output_config.{name}")));
    let source = |JsonFormat::JsonSchema { schema }| Source::of_schema(schema);
    match (config.format, fields.take("output_format")?) {
        (Some(_), Some(_)) => {
            let message = "both `output_config.format` and `output_format` are given; choose one";
            Err(ApiError::invalid("output_format", message))
        }
        (Some(format), None) => Ok(Some(("output_config", source(format)))),
        (None, format) => Ok(format.map(|format| ("output_format", source(format)))),
    }
}
