//! What a call asks for.

use std::collections::BTreeMap;

use engine::Param;
use grammar::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{input, tools};
use crate::app::App;
use crate::call::{Call as Asked, Parameters};
use crate::conversation::conversation;
use crate::error::ApiError;
use crate::fields::{Fields, HARMLESS};
use crate::openai::conversation as openai;

/// A call that has been read.
pub(super) struct Call {
    pub(super) call: Asked,
    /// What the response repeats of it.
    pub(super) repeated: Json,
    pub(super) is_stream: bool,
    /// Names of the tools that are ignored.
    pub(super) ignored: Vec<String>,
}

/// `reasoning`. The model's own text is returned, never a summary.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Reasoning {
    effort: Option<String>,
    summary: Option<String>,
}

/// `text`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default)]
struct Text {
    format: Json,
    verbosity: Option<String>,
}

impl Default for Text {
    fn default() -> Text {
        Text { format: json!({ "type": "text" }), verbosity: None }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format {
    Text,
    JsonObject,
    JsonSchema { schema: Json },
}

/// What would need a store of responses, or another service.
pub(crate) const REFUSED: &[&str] = &[
    "store",
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
    "context_management",
    "moderation",
];

/// Of services that this server does not have, or of how a stream is packed.
pub(crate) const WITHOUT_EFFECT: &[&str] =
    &["max_tool_calls", "prompt_cache_options", "prompt_cache_retention", "stream_options"];

pub(super) fn read(fields: &mut Fields, app: &App) -> Result<Call, ApiError> {
    let limits = &app.config.limits;
    fields.refuse(REFUSED)?;
    check_truncation(fields)?;
    let instructions: Option<String> = fields.take("instructions")?;
    let mut ignored = Vec::new();
    let tools::Read { used, tools, choice } = tools::read(fields, limits, &mut ignored)?;
    let text: Text = fields.take("text")?.unwrap_or_default();
    let reasoning: Reasoning = fields.take("reasoning")?.unwrap_or_default();
    let (logprobs, top_logprobs) = logprobs(fields)?;

    let messages = input::read(fields, instructions.as_deref(), limits)?;
    let parallel_tool_calls = used.is_parallel;
    let mut conversation = used.apply(conversation(messages, &app.config.defaults)?);
    conversation.variables.extend(openai::variables(fields, reasoning.effort.as_deref())?);
    let format = openai::one_constraint(fields, format(&text.format)?)?;
    let mut parameters = Parameters::read_one(fields, &app.config.defaults.params)?;
    parameters.params.logprobs = logprobs;
    let params = &parameters.params;
    let told = |name: &str| Param::find(name).map(|param| param.get(params));

    let metadata: BTreeMap<String, String> = fields.take("metadata")?.unwrap_or_default();
    let repeated = json!({
        "background": false,
        "instructions": instructions,
        "max_output_tokens": params.max_tokens,
        "max_tool_calls": null,
        "metadata": metadata,
        "parallel_tool_calls": parallel_tool_calls,
        "previous_response_id": null,
        "prompt_cache_key": fields.take::<String>("prompt_cache_key")?,
        "reasoning": reasoning,
        "safety_identifier": fields.take::<String>("safety_identifier")?,
        "service_tier": "default",
        "store": false,
        "temperature": told("temperature"),
        "text": text,
        "tool_choice": choice,
        "tools": tools,
        "top_logprobs": top_logprobs,
        "top_p": told("top_p"),
        "truncation": "disabled",
        "user": fields.take::<String>("user")?,
    });
    let is_stream = fields.take("stream")?.unwrap_or(false);
    fields.ignore(HARMLESS);
    fields.ignore(WITHOUT_EFFECT);
    let call = Asked { input_field: "input", ..Asked::chat(conversation, parameters, format) };
    Ok(Call { call, repeated, is_stream, ignored })
}

fn check_truncation(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.take::<String>("truncation")?.as_deref() {
        None | Some("disabled") => Ok(()),
        Some("auto") => {
            let why = "`truncation` is \"auto\", but this server never cuts a prompt; leave it out";
            Err(ApiError::unsupported("truncation", why))
        }
        Some(other) => {
            let why = format!("`truncation` is {other:?}, expected \"disabled\"");
            Err(ApiError::invalid("truncation", why))
        }
    }
}

/// The number of most likely tokens to return with each token, and `top_logprobs` as given.
fn logprobs(fields: &mut Fields) -> Result<(Option<usize>, usize), ApiError> {
    let include: Vec<String> = fields.take("include")?.unwrap_or_default();
    let mut wants_logprobs = false;
    for (index, name) in include.iter().enumerate() {
        match &**name {
            "message.output_text.logprobs" => wants_logprobs = true,
            // Reasoning is in the output as it is.
            "reasoning.encrypted_content" => {}
            name => {
                let param = format!("include[{index}]");
                let why = format!("`{param}` is {name:?}, which this server does not have; leave it out");
                return Err(ApiError::unsupported(param, why));
            }
        }
    }
    let top = fields.within("top_logprobs", 0..=20)?.unwrap_or(0);
    if top > 0 && !wants_logprobs {
        let why = "`top_logprobs` needs `include`: [\"message.output_text.logprobs\"]";
        return Err(ApiError::invalid("top_logprobs", why));
    }
    Ok((wants_logprobs.then_some(top), top))
}

fn format(json: &Json) -> Result<Option<(&'static str, Source)>, ApiError> {
    let param = "text.format";
    let format = match json {
        Json::Null => Format::Text,
        json => Format::deserialize(json)
            .map_err(|error| ApiError::invalid(param, format!("`{param}`: {error}")))?,
    };
    Ok(match format {
        Format::Text => None,
        Format::JsonObject => Some((param, Source::JsonObject)),
        Format::JsonSchema { schema } => Some((param, Source::of_schema(schema))),
    })
}
