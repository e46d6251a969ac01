//! `/api/generate`.

use axum::response::Response;
use chat::Message;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::options::{Options, Text};
use super::writer::{Endpoint, Writer};
use super::{Named, OLLAMA, model};
use crate::call;
use crate::constraint::Constraint;
use crate::conversation::conversation;
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::{Routes, with_ignored};
use crate::infill::Marks;
use crate::prompts::Prompts;
use crate::sse;

#[derive(Deserialize, JsonSchema)]
struct Generate {
    /// Without it, the model is loaded.
    #[serde(default)]
    prompt: String,
    /// The answer is the text between the prompt and this one, by a model that was trained for it.
    #[serde(default)]
    suffix: String,
    /// A message of the system before it.
    #[serde(default)]
    system: String,
    /// Take the prompt without the chat template.
    #[serde(default)]
    raw: bool,
}

impl Group for Generate {
    /// `context` is deprecated, since `/api/chat` continues a conversation.
    const REFUSED: &'static [&'static str] = &["images", "template", "context"];
}

pub(super) fn routes() -> Routes {
    let generate = OLLAMA
        .endpoint("generate", &["/api/generate"], "Answers a prompt")
        .reads("OllamaGenerateCall", json!({ "prompt": "Hi", "options": { "num_predict": 4 } }))
        .answers("#OllamaAnswer")
        .answers_as("application/x-ndjson", "#OllamaAnswer|#OllamaError");
    Routes::default().post(generate, handle)
}

async fn handle(read: Read<(Named, Text, Constraint, Generate)>) -> Result<Response, ApiError> {
    let (model, name) = model(&read).await?;
    let served = model.generator()?;
    let Read { app, client, body: (_, text, constraint, generate), .. } = read;
    let Generate { prompt, suffix, system, raw } = generate;
    let (options, mut ignored) = text.read(constraint, &app)?;
    if raw && !system.is_empty() {
        return Err(ApiError::invalid("system", "is given with `raw`, which uses no chat template"));
    }
    let writer = Writer::new(Endpoint::Generate, name, served.clone());
    if prompt.is_empty() && suffix.is_empty() {
        return Ok(with_ignored(writer.loaded(), ignored));
    }
    let Options { mut request, format, think, is_stream } = options;
    let (field, requests) = if !suffix.is_empty() {
        // No template has a place for it.
        ignored.extend((!system.is_empty()).then(|| "system".to_owned()));
        let marks = Marks::new(&served, "suffix")?;
        ("prompt", Prompts::text(prompt).before(&suffix, &marks).requests(&request))
    } else if raw {
        ("prompt", Prompts::text(prompt).requests(&request))
    } else {
        let system = Some(system).filter(|text| !text.is_empty());
        let system = system.map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([Message::new("user", prompt)]);
        let mut conversation = conversation(messages.collect(), &app.config.defaults, &mut ignored)?;
        if let Some(think) = think {
            conversation.variables.extend(think.variables(&app, &served).await?);
        }
        request.input = conversation.into();
        ("messages", vec![request])
    };
    let answers = call::submit(&app, &served, &client, field, requests, format).await?;
    Ok(with_ignored(sse::respond(writer, answers, is_stream).await?, ignored))
}
