//! `/api/chat`.

use axum::response::Response;
use chat::{Calls, Message};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::options::Text;
use super::writer::{Endpoint, Writer};
use super::{Named, OLLAMA, model};
use crate::call;
use crate::constraint::Constraint;
use crate::conversation::{Said, conversation, without_begun_reasoning};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Read, asks, at_most};
use crate::http::{Routes, with_ignored};
use crate::openai::conversation::Tools;
use crate::sse;

#[derive(Deserialize, JsonSchema)]
struct Chat {
    /// The conversation; without it, the model is loaded.
    #[serde(default)]
    #[schemars(extend("items" = { "$ref": "#/components/schemas/OllamaMessage" }), with = "Vec<Json>")]
    messages: Vec<Said>,
}

impl Group for Chat {}

pub(super) fn routes() -> Routes {
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    let chat = OLLAMA
        .endpoint("chat", &["/api/chat"], "Answers a conversation")
        .reads("OllamaChatCall", json!({ "messages": hi, "options": { "num_predict": 4 } }))
        .answers("#OllamaAnswer")
        .answers_as("application/x-ndjson", "#OllamaAnswer|#OllamaError");
    Routes::default().post(chat, handle)
}

async fn handle(read: Read<(Named, (Text, Constraint), Chat, Tools)>) -> Result<Response, ApiError> {
    let (model, name) = model(&read).await?;
    let served = model.generator()?;
    let Read { app, client, body: (_, (text, constraint), chat, tools), .. } = read;
    let (mut options, mut ignored) = text.read(constraint, &app)?;
    let messages = messages(Said::messages(chat.messages), app.config.limits.messages)?;
    let writer = Writer::new(Endpoint::Chat, name, served.clone());
    if messages.is_empty() {
        return Ok(with_ignored(writer.loaded(), ignored));
    }
    let conversation = conversation(messages, &app.config.defaults, &mut ignored)?;
    let mut conversation = tools.give(conversation, &app.config.limits, &mut ignored)?;
    without_begun_reasoning(&mut conversation, "thinking", &mut ignored);
    // Arguments are objects in this protocol.
    conversation.calls = Calls::Whole;
    if let Some(think) = options.think.take() {
        conversation.variables.extend(think.variables(&app, &served).await?);
    }
    options.request.input = conversation.into();
    let requests = vec![options.request];
    let answers = call::submit(&app, &served, &client, "messages", requests, options.format).await?;
    Ok(with_ignored(sse::respond(writer, answers, options.is_stream).await?, ignored))
}

/// The messages, whose fields have other names than OpenAI's. None load the model.
fn messages(mut messages: Vec<Message>, most: usize) -> Result<Vec<Message>, ApiError> {
    at_most("messages", &messages, most)?;
    for (index, message) in messages.iter_mut().enumerate() {
        if message.others.remove("images").is_some_and(|images| asks(&images)) {
            let param = format!("messages[{index}].images");
            let message = format!("`{param}`: this server takes text only");
            return Err(ApiError::new(Kind::Unsupported, message).at(param));
        }
        if let Some(Json::String(name)) = message.others.remove("tool_name") {
            message.name.get_or_insert(name);
        }
    }
    Ok(messages)
}
