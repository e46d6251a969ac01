//! What `/api/chat` and `/api/generate` have in common.

use std::sync::Arc;

use grammar::Source;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::app::App;
use crate::call::Parameters;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::models::Served;
use crate::openai::conversation::Format;

/// What both endpoints read from a call.
pub(super) struct Common {
    pub(super) parameters: Parameters,
    pub(super) format: Format,
    pub(super) think: Option<Think>,
    pub(super) is_stream: bool,
    /// Names of the options that nobody has read.
    options: Vec<String>,
}

/// Whether to reason, or how much.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, false, \"high\", \"medium\" or \"low\"")]
pub(super) enum Think {
    Whether(bool),
    Effort(Effort),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effort {
    High,
    Medium,
    Low,
}

impl Common {
    pub(super) fn read(fields: &mut Fields, app: &App) -> Result<Common, ApiError> {
        let mut options = fields.inner("options")?;
        // Zero and less are any number of tokens.
        if let Some(n) = options.map().get_mut("num_predict")
            && n.as_i64().is_some_and(|n| n <= 0)
        {
            *n = (-1).into();
        }
        let mut parameters = Parameters::read_one(&mut options, &app.config.defaults.params)?;
        let wants_logprobs = fields.take("logprobs")?.unwrap_or(false);
        let top: Option<usize> = fields.within("top_logprobs", 0..=20)?;
        parameters.params.logprobs = wants_logprobs.then(|| top.unwrap_or(0));
        fields.ignore(&["keep_alive"]);
        Ok(Common {
            parameters,
            format: format(fields)?,
            think: fields.take("think")?,
            is_stream: fields.take("stream")?.unwrap_or(true),
            options: options.unknown(),
        })
    }

    /// Names of the fields and options that nobody has read.
    pub(super) fn ignored(&self, fields: Fields) -> Vec<String> {
        let options = self.options.iter().map(|name| format!("options.{name}"));
        fields.unknown().into_iter().chain(options).collect()
    }
}

fn format(fields: &mut Fields) -> Result<Format, ApiError> {
    let source = match fields.take::<Json>("format")? {
        None => return Ok(None),
        Some(Json::String(word)) if word.is_empty() => return Ok(None),
        Some(Json::String(word)) if word == "json" => Source::JsonObject,
        Some(schema @ Json::Object(_)) => Source::of_schema(schema),
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
