//! Fields that `/api/chat` and `/api/generate` have in common.

use std::sync::Arc;

use grammar::Source;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::Named;
use crate::app::App;
use crate::call::{Parameters, Sampling};
use crate::error::ApiError;
use crate::fields::{Body, Fields, Group, Properties, Within};
use crate::models::Served;
use crate::openai::conversation::Format;
use crate::openapi::object;

/// Fields that both endpoints read.
pub(super) struct Common {
    pub(super) named: Named,
    text: Text,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    /// Parameters under ollama's names; those of a model's load are ignored.
    #[serde(default)]
    #[schemars(schema_with = "options_schema")]
    options: Map<String, Json>,
    /// `json`, or a JSON schema.
    format: Option<Json>,
    /// Whether the model reasons, or how much.
    think: Option<Think>,
    /// Lines, unless it is false.
    stream: Option<bool>,
    /// Return the log-probability of each token.
    #[serde(default)]
    logprobs: bool,
    /// Also return this many most likely tokens.
    top_logprobs: Option<Within<0, 20>>,
}

impl Group for Text {}

impl Body for Common {
    fn take(fields: &mut Fields) -> Result<Common, ApiError> {
        Ok(Common { named: Body::take(fields)?, text: Body::take(fields)? })
    }

    fn describe(properties: &mut Properties, generator: &mut SchemaGenerator) {
        Named::describe(properties, generator);
        Text::describe(properties, generator);
    }
}

fn options_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Properties::default();
    let help = "Tokens of the answer, at most; zero and less are any number.";
    properties.add("num_predict", json!({ "type": "integer", "description": help }));
    Sampling::describe(&mut properties, generator);
    Schema::try_from(object(properties)).unwrap_or_default()
}

/// How a call is answered.
pub(super) struct Options {
    pub(super) parameters: Parameters,
    pub(super) format: Format,
    pub(super) think: Option<Think>,
    pub(super) is_stream: bool,
}

/// Whether to reason, or how much.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged, expecting = "expected true, false, \"high\", \"medium\" or \"low\"")]
pub(super) enum Think {
    Whether(bool),
    Effort(Effort),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effort {
    High,
    Medium,
    Low,
}

impl Common {
    /// How to answer, and the names of the options that nobody has read.
    pub(super) fn read(self, app: &App) -> Result<(Options, Vec<String>), ApiError> {
        let Text { options, format, think, stream, logprobs, top_logprobs } = self.text;
        let mut fields = Fields::new(options);
        // Zero and less are any number of tokens.
        if let Some(n) = fields.map().get_mut("num_predict")
            && n.as_i64().is_some_and(|n| n <= 0)
        {
            *n = (-1).into();
        }
        let mut parameters = Sampling::take(&mut fields)?.one_over(&app.config.defaults.params)?;
        parameters.params.logprobs = logprobs.then(|| top_logprobs.map_or(0, |top| top.0));
        let (format, is_stream) = (self::format(format)?, stream.unwrap_or(true));
        let ignored = fields.finish()?.into_iter().map(|name| format!("options.{name}")).collect();
        Ok((Options { parameters, format, think, is_stream }, ignored))
    }
}

fn format(format: Option<Json>) -> Result<Format, ApiError> {
    let source = match format {
        None => return Ok(None),
        Some(Json::String(word)) if word.is_empty() => return Ok(None),
        Some(Json::String(word)) if word == "json" => Source::JsonObject,
        Some(schema @ Json::Object(_)) => Source::from_schema(schema),
        Some(other) => {
            let message = format!("`format` is {other}, expected \"json\" or a JSON schema");
            return Err(ApiError::invalid("format", message));
        }
    };
    Ok(Some(("format", source)))
}

impl Think {
    /// The variables of the chat template that say so. Fails if the model is to reason, and cannot.
    pub(super) async fn variables(
        self,
        app: &App,
        served: &Arc<Served>,
    ) -> Result<Map<String, Json>, ApiError> {
        let (is_wanted, effort) = match self {
            Think::Whether(is_wanted) => (is_wanted, None),
            Think::Effort(Effort::High) => (true, Some("high")),
            Think::Effort(Effort::Medium) => (true, Some("medium")),
            Think::Effort(Effort::Low) => (true, Some("low")),
        };
        if is_wanted && !can_think(app, served).await? {
            return Err(ApiError::unsupported("think", "`think`: this model does not reason; leave it out"));
        }
        let mut variables = chat::reasoning_switch(is_wanted);
        variables.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort.into())));
        Ok(variables)
    }
}

async fn can_think(app: &App, served: &Arc<Served>) -> Result<bool, ApiError> {
    let served = served.clone();
    app.blocking(move || served.file().template().is_ok_and(chat::Template::has_reasoning)).await
}
