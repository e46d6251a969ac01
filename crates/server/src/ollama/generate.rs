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
use crate::conversation::conversation;
use crate::error::ApiError;
use crate::fields::{Group, Read};
use crate::http::{Routes, with_ignored};
use crate::prompts::Prompts;
use crate::sse;

#[derive(Deserialize, JsonSchema)]
struct Generate {
    /// Without it, the model is loaded.
    #[serde(default)]
    prompt: String,
    /// A message of the system before it.
    #[serde(default)]
    system: String,
    /// Take the prompt without the chat template.
    #[serde(default)]
    raw: bool,
}

impl Group for Generate {
    /// `context` is deprecated, since `/api/chat` continues a conversation.
    const REFUSED: &'static [&'static str] = &["images", "suffix", "template", "context"];
}

pub(super) fn routes() -> Routes {
    let generate = OLLAMA
        .endpoint("generate", &["/api/generate"], "Answers a prompt")
        .reads("OllamaGenerateCall", json!({ "prompt": "Hi", "options": { "num_predict": 4 } }))
        .answers("#OllamaAnswer")
        .answers_as("application/x-ndjson", "#OllamaAnswer|#OllamaError");
    Routes::default().post(generate, handle)
}

async fn handle(mut read: Read<(Named, Text, Generate)>) -> Result<Response, ApiError> {
    let old = read.body.0.name.take();
    let (model, name) = model(&read, old).await?;
    let served = model.generator()?;
    let Read { app, client, body: (_, text, Generate { prompt, system, raw }), .. } = read;
    let (options, ignored) = text.read(&app)?;
    if raw && !system.is_empty() {
        return Err(ApiError::invalid("system", "is given with `raw`, which uses no chat template"));
    }
    let writer = Writer::new(Endpoint::Generate, name, served.clone());
    if prompt.is_empty() {
        return Ok(with_ignored(writer.loaded(), ignored));
    }
    let Options { mut request, format, think, is_stream } = options;
    let (field, requests) = if raw {
        ("prompt", Prompts::text(prompt).requests(&request))
    } else {
        let system = Some(system).filter(|text| !text.is_empty());
        let system = system.map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([Message::new("user", prompt)]);
        let mut conversation = conversation(messages.collect(), &app.config.defaults)?;
        if let Some(think) = think {
            conversation.variables.extend(think.variables(&app, &served).await?);
        }
        request.input = conversation.into();
        ("messages", vec![request])
    };
    let answers = call::submit(&app, &served, &client, field, requests, format).await?;
    Ok(with_ignored(sse::respond(writer, answers, is_stream).await?, ignored))
}
