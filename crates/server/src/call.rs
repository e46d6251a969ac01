//! From a client's fields to a request, and from a request to the model's answers, whatever the protocol.

use std::sync::Arc;
use std::time::Duration;

use engine::{Param, Params};
use rustorch::{Input, Request, Tenant};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::answer::Answers;
use crate::app::App;
use crate::constraint::Format;
use crate::error::ApiError;
use crate::fields::{Body, Fields, Group, Properties};
use crate::http::notes;
use crate::keys::Client;
use crate::models::Served;
use crate::openapi::describe_params;

/// The fields of the engine's parameters and of the queue, which all endpoints that write text have.
pub(crate) struct Sampling {
    given: Map<String, Json>,
    queue: Queue,
}

#[derive(Deserialize, JsonSchema)]
struct Queue {
    /// A client's requests with lower values start first.
    #[serde(default)]
    priority: i32,
    /// Only requests with the same salt share the prefix cache.
    cache_salt: Option<String>,
    /// Milliseconds after the first token, at most; 0 is any number.
    t_max_predict_ms: Option<i64>,
}

impl Group for Queue {}

impl Body for Sampling {
    fn take(fields: &mut Fields) -> Result<Sampling, ApiError> {
        let names = Params::TABLE.iter().flat_map(Param::names);
        let given = names.filter_map(|name| fields.map.remove_entry(name)).collect();
        Ok(Sampling { given, queue: fields.take()? })
    }

    fn describe(properties: &mut Properties) {
        describe_params(properties);
        Queue::describe(properties);
    }
}

impl Sampling {
    /// A request without an input; the parameters that are not given are as in `defaults`.
    pub(crate) fn over(mut self, defaults: &Params) -> Result<Request, ApiError> {
        let mut params = defaults.clone();
        params.take(&mut self.given)?;
        let Queue { priority, cache_salt, t_max_predict_ms } = self.queue;
        // llama-server's limit of time, which is none if it is not above 0.
        let time = t_max_predict_ms.and_then(|time| u64::try_from(time).ok()).filter(|&time| time > 0);
        params.time_limit = time.map(Duration::from_millis);
        let cache_salt = cache_salt.unwrap_or_default().into_bytes();
        let tenant = Tenant { priority, cache_salt, ..Tenant::default() };
        Ok(Request { params, tenant, is_eager: true, ..Request::new(Vec::new()) })
    }

    /// The same of a protocol in which a call has one answer.
    pub(crate) fn one_over(self, defaults: &Params) -> Result<Request, ApiError> {
        let request = self.over(defaults)?;
        match request.params.n {
            1 => Ok(request),
            n => Err(ApiError::unsupported("n", format!("is {n}, but there is one answer; leave it out"))),
        }
    }
}

/// Submits requests, each of which has [`Params::n`] answers in `format`. Errors name the field of the input `input_field`. Fails
/// if the server is at capacity, or a request is invalid.
pub(crate) async fn submit(
    app: &Arc<App>,
    served: &Arc<Served>,
    client: &Client,
    input_field: &'static str,
    mut requests: Vec<Request>,
    format: Format,
) -> Result<Answers, ApiError> {
    let n = requests.iter().map(|request| request.params.n).sum();
    let admission = app.admit(client, n)?;
    let format_field = format.as_ref().map_or("response_format", |asked| asked.field);
    let failed = |error| ApiError::from_model(error, input_field, format_field);
    for request in &mut requests {
        request.format = format.as_ref().map(|asked| asked.source.clone());
        request.relaxes_format = format.as_ref().is_some_and(|asked| !asked.is_strict);
        request.tenant.client = client.number();
        request.tenant.cache_salt = client.salt(&request.tenant.cache_salt);
    }
    let model = served.model.clone();
    let prepare =
        move || requests.into_iter().map(|request| model.prepare(request)).collect::<Result<Vec<_>, _>>();
    let prepared = app.blocking(prepare).await?.map_err(failed)?;
    let prompts: Vec<Vec<u32>> = prepared.iter().map(|request| request.prompt().to_vec()).collect();
    let tool_format = prepared.iter().find_map(|request| request.tool_format());
    let model = served.model.clone();
    let mut stream = app.compiling(move || model.submit_all(prepared)).await?.map_err(failed)?;
    stream.accepted().await.map_err(failed)?;
    if tool_format.is_some_and(|format| format.is_generic()) {
        notes::add(notes::TOOL_FORMAT, ["generic"]);
    }
    notes::add(notes::LEFT_OPEN, stream.left_open());
    admission.charge(prompts.iter().map(Vec::len).sum());
    Ok(Answers { stream, n, prompts, admission })
}

/// Number of tokens of a conversation's prompt, even if they do not fit the context. `field` is the client's for its messages.
pub(crate) async fn count_tokens(
    app: &App,
    served: &Served,
    conversation: impl Into<Input>,
    field: &str,
) -> Result<usize, ApiError> {
    let Input::Messages(conversation) = conversation.into() else { return Ok(0) };
    let model = served.model.clone();
    let counted = app.blocking(move || model.count_tokens(*conversation)).await?;
    counted.map_err(|error| ApiError::from_model(error, field, "response_format"))
}
