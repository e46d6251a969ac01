//! `/v1/responses`: calls of one turn each. Nothing is stored, so that a client sends the whole conversation again.

mod input;
mod items;
mod object;
mod request;
mod stream;
mod tools;
mod whole;

pub(crate) use request::{REFUSED, WITHOUT_EFFECT};

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};

use self::object::Object;
use self::request::Call;
use crate::app::App;
use crate::call::{self, Started};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::{Client, call, with_ignored};
use crate::sse;

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let Call { call, repeated, is_stream, mut ignored } =
        request::read(&mut fields, &app).map_err(of_input)?;
    ignored.extend(fields.unknown());
    let Started { answers, place, .. } = call.start(&app, &served, &client).await.map_err(of_input)?;
    let object = Object::new(served, repeated);
    let response = match is_stream {
        true => sse::stream(move |events| stream::write(object, answers, events, place)),
        false => Json(whole::write(object, answers).await?).into_response(),
    };
    Ok(with_ignored(response, &ignored))
}

/// The call, and the names of the tools that are ignored.
pub(super) fn read(fields: &mut Fields, app: &App) -> Result<(call::Call, Vec<String>), ApiError> {
    request::read(fields, app).map(|call| (call.call, call.ignored)).map_err(of_input)
}

/// The messages of other protocols are `input` here.
fn of_input(error: ApiError) -> ApiError {
    match error.param.as_deref() {
        Some("messages") => ApiError { param: Some("input".into()), ..error },
        _ => error,
    }
}
