//! Fields that `/api/chat` and `/api/generate` have in common.

use std::sync::Arc;

use grammar::Source;
use rustorch::Request;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::app::App;
use crate::call::Sampling;
use crate::constraint::{AnswerFormat, Constraint, Format};
use crate::error::{ApiError, Kind};
use crate::fields::{Body, Fields, Group, Properties, Within};
use crate::models::Served;
use crate::openapi::object;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Text {
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

fn options_schema(_: &mut SchemaGenerator) -> Schema {
    let mut properties = Properties::default();
    let help = "Tokens of the answer, at most; zero and less are any number.";
    properties.add("num_predict", json!({ "type": "integer", "description": help }));
    Sampling::describe(&mut properties);
    Schema::try_from(object(properties)).unwrap_or_default()
}

pub(super) struct Options {
    /// Without an input.
    pub(super) request: Request,
    pub(super) format: Format,
    pub(super) think: Option<Think>,
    pub(super) is_stream: bool,
}

/// Whether to reason, or how much.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false, \"high\", \"medium\" or \"low\"")]
pub(super) enum Think {
    Whether(bool),
    Effort(Effort),
}

#[derive(Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effort {
    High,
    Medium,
    Low,
}

impl Text {
    /// How to answer, and the names of the options that are ignored.
    pub(super) fn read(self, constraint: Constraint, app: &App) -> Result<(Options, Vec<String>), ApiError> {
        let Text { options, format, think, stream, logprobs, top_logprobs } = self;
        let mut fields = Fields::new(options);
        // Zero and less are any number of tokens.
        if let Some(n) = fields.map.get_mut("num_predict")
            && n.as_i64().is_some_and(|n| n <= 0)
        {
            *n = (-1).into();
        }
        let mut request = Sampling::take(&mut fields)?.one_over(&app.config.defaults.params)?;
        request.params.logprobs = logprobs.then(|| top_logprobs.map_or(0, |top| top.0));
        let inner = Constraint::take(&mut fields)?;
        let format = constraint.or(inner.or(self::format(format)?)?)?;
        let is_stream = stream.unwrap_or(true);
        let ignored = fields.finish()?.into_iter().map(|name| format!("options.{name}")).collect();
        Ok((Options { request, format, think, is_stream }, ignored))
    }
}

fn format(format: Option<Json>) -> Result<Format, ApiError> {
    let source = match format {
        None => return Ok(None),
        Some(Json::String(word)) if word.is_empty() => return Ok(None),
        Some(Json::String(word)) if word == "json" => Source::JsonObject,
        Some(schema @ Json::Object(_)) => Source::from_schema(schema),
        Some(other) => {
            let why = format!("is {other}, expected \"json\" or a JSON schema");
            return Err(ApiError::invalid("format", why));
        }
    };
    Ok(Some(AnswerFormat::new("format", source)))
}

impl Think {
    /// The variables of the chat template that say so. Fails if the model is to reason, and cannot.
    pub(super) async fn variables(
        self,
        app: &App,
        served: &Arc<Served>,
    ) -> Result<Map<String, Json>, ApiError> {
        let (thinks, effort) = match self {
            Think::Whether(thinks) => (thinks, None),
            Think::Effort(effort) => (true, Some(effort)),
        };
        let served = served.clone();
        let can_think = move || served.file.template().is_ok_and(chat::Template::has_reasoning);
        if thinks && !app.blocking(can_think).await? {
            let message = "`think`: this model does not reason; leave it out";
            return Err(ApiError::new(Kind::Unsupported, message).at("think"));
        }
        let mut variables = chat::reasoning_switch(thinks);
        variables.extend(effort.map(|effort| ("reasoning_effort".to_owned(), json!(effort))));
        Ok(variables)
    }
}
