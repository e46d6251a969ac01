//! `/api/generate`.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use chat::Message;

use super::Call;
use super::options::Common;
use super::writer::{Endpoint, Writer};
use crate::app::App;
use crate::call::Call as Asks;
use crate::conversation::conversation;
use crate::error::ApiError;
use crate::http::{Client, with_ignored};
use crate::prompts::Prompts;

/// Fields that this server does not do; `context` is deprecated, since `/api/chat` continues a conversation.
pub(crate) const REFUSED: &[&str] = &["images", "suffix", "template", "context"];

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served, name) = Call::of_text(&app, request).await?;
    let common = Common::read(&mut fields, &app)?;
    let prompt: String = fields.take("prompt")?.unwrap_or_default();
    let system: String = fields.take("system")?.unwrap_or_default();
    let is_raw = fields.take("raw")?.unwrap_or(false);
    fields.refuse(REFUSED)?;
    if is_raw && !system.is_empty() {
        return Err(ApiError::invalid("system", "`system` is given with `raw`, which uses no chat template"));
    }
    let ignored = common.ignored(fields);
    let writer = Writer::new(Endpoint::Generate, name, served.clone());
    if prompt.is_empty() {
        return Ok(with_ignored(writer.loaded(), &ignored));
    }
    let Common { parameters, format, think, is_stream, .. } = common;
    let call = if is_raw {
        let inputs = Prompts::text(prompt).inputs();
        Asks { inputs, input_field: "prompt", parameters, format, prompt_logprobs: None }
    } else {
        let system = Some(system).filter(|text| !text.is_empty());
        let system = system.map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([Message::new("user", prompt)]);
        let mut conversation = conversation(messages.collect(), &app.config.defaults)?;
        if let Some(think) = think {
            conversation.variables.extend(think.variables(&app, &served).await?);
        }
        Asks::chat(conversation, parameters, format)
    };
    let started = call.start(&app, &served, &client).await?;
    Ok(with_ignored(writer.respond(started, is_stream).await?, &ignored))
}
