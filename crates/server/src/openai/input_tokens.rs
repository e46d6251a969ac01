//! The number of tokens that a prompt would have: `/v1/responses/input_tokens`, and the same for chat completions.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{chat, responses};
use crate::app::App;
use crate::call::{Call, count_tokens};
use crate::error::ApiError;
use crate::http::{Client, call, with_ignored};
use crate::models::Served;

pub(super) async fn of_chat(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let (call, _) = chat::read(&mut fields, &app)?;
    count(&app, &client, served, call, &fields.unknown()).await
}

pub(super) async fn of_responses(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let (call, mut ignored) = responses::read(&mut fields, &app)?;
    ignored.extend(fields.unknown());
    count(&app, &client, served, call, &ignored).await
}

async fn count(
    app: &Arc<App>,
    client: &Client,
    served: Arc<Served>,
    call: Call,
    ignored: &[String],
) -> Result<Response, ApiError> {
    let _place = app.place(client, 1)?;
    let mut n = 0;
    for input in call.inputs {
        n += count_tokens(app, &served, input, call.input_field).await?;
    }
    let shape = json!({ "object": "response.input_tokens", "input_tokens": n });
    Ok(with_ignored(Json(shape).into_response(), ignored))
}
