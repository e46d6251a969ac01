//! `/api/chat`.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use chat::{Calls, Message};
use serde_json::Value as Json;

use super::Call;
use super::options::Common;
use super::writer::{Endpoint, Writer};
use crate::app::App;
use crate::call::Call as Asks;
use crate::conversation::conversation;
use crate::error::ApiError;
use crate::fields::{Fields, asks};
use crate::http::{Client, with_ignored};
use crate::openai::conversation::tools;

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served, name) = Call::of_text(&app, request).await?;
    let mut common = Common::read(&mut fields, &app)?;
    let messages = messages(&mut fields, app.config.limits.messages)?;
    let tools = tools(&mut fields, &app.config.limits)?;
    let ignored = common.ignored(fields);
    let writer = Writer::new(Endpoint::Chat, name, served.clone());
    if messages.is_empty() {
        return Ok(with_ignored(writer.loaded(), &ignored));
    }
    let mut conversation = tools.apply(conversation(messages, &app.config.defaults)?);
    // Arguments are objects in this protocol.
    conversation.calls = Calls::Whole;
    if let Some(think) = common.think.take() {
        conversation.variables.extend(think.variables(&app, &served).await?);
    }
    let call = Asks::chat(conversation, common.parameters, common.format);
    let started = call.start(&app, &served, &client).await?;
    Ok(with_ignored(writer.respond(started, common.is_stream).await?, &ignored))
}

/// The messages, whose fields have other names than OpenAI's. None load the model.
fn messages(fields: &mut Fields, most: usize) -> Result<Vec<Message>, ApiError> {
    let mut messages: Vec<Message> = fields.list("messages", most)?.unwrap_or_default();
    for (index, message) in messages.iter_mut().enumerate() {
        if message.others.remove("images").is_some_and(|images| asks(&images)) {
            let param = format!("messages[{index}].images");
            let why = format!("`{param}`: this server takes text only");
            return Err(ApiError::unsupported(param, why));
        }
        if let Some(Json::String(name)) = message.others.remove("tool_name") {
            message.name.get_or_insert(name);
        }
    }
    Ok(messages)
}
