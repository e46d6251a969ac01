//! The document as far as it has been written: endpoints and the schemas that they name.

use axum::http::StatusCode;
use serde_json::Value as Json;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, Header, PathItem, PathsBuilder, Required, Response, ResponseBuilder,
};

use super::schema::{Schema, integer_from, named, text};

/// Endpoints and schemas.
#[derive(Default)]
pub(super) struct Document {
    pub(super) paths: PathsBuilder,
    pub(super) components: ComponentsBuilder,
}

impl Document {
    /// Adds a schema that others name.
    pub(super) fn schema(self, name: &str, schema: Schema) -> Document {
        Document { components: self.components.schema(name, schema), ..self }
    }

    /// Adds an endpoint, which has several paths.
    pub(super) fn endpoint(self, endpoint: Endpoint) -> Document {
        let Endpoint { method, name, paths, operation } = endpoint;
        let operation = operation.build();
        let path = |all: PathsBuilder, path: &&'static str| {
            let mut operation = operation.clone();
            operation.operation_id = Some(operation_id(name, path));
            all.path(*path, PathItem::new(method.clone(), operation))
        };
        Document { paths: paths.iter().fold(self.paths, path), ..self }
    }
}

/// What is done, and below which path: `chat_v1_chat_completions`.
fn operation_id(name: &str, path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    [name].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

/// A method at some paths.
pub(super) struct Endpoint {
    method: HttpMethod,
    name: &'static str,
    paths: &'static [&'static str],
    operation: OperationBuilder,
}

/// Statuses of errors of calls that have a body and name a model.
pub(super) const OF_CALLS: &[u16] = &[400, 401, 403, 404, 408, 413, 415, 429, 500, 503];

/// Statuses of errors of what is only looked at.
pub(super) const OF_LOOKS: &[u16] = &[400, 401, 403, 500];

impl Endpoint {
    pub(super) fn get(name: &'static str, paths: &'static [&'static str]) -> Endpoint {
        Endpoint::new(HttpMethod::Get, name, paths)
    }

    pub(super) fn post(name: &'static str, paths: &'static [&'static str]) -> Endpoint {
        Endpoint::new(HttpMethod::Post, name, paths)
    }

    /// `name` is what it does in a word.
    pub(super) fn new(method: HttpMethod, name: &'static str, paths: &'static [&'static str]) -> Endpoint {
        Endpoint { method, name, paths, operation: OperationBuilder::new() }
    }

    fn with(self, change: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Endpoint {
        Endpoint { operation: change(self.operation), ..self }
    }

    /// Whose protocol it is, and what it does.
    pub(super) fn says(self, tag: &str, summary: &str) -> Endpoint {
        self.with(|operation| operation.tag(tag).summary(Some(summary)))
    }

    /// It needs no key.
    pub(super) fn for_everybody(self) -> Endpoint {
        self.with(|operation| operation.security(SecurityRequirement::default()))
    }

    /// It has a body with the schema `name`.
    pub(super) fn reads(self, name: &str, example: Json) -> Endpoint {
        let content = ContentBuilder::new().schema(Some(named(name))).example(Some(example)).build();
        let body =
            RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
        self.with(|operation| operation.request_body(Some(body.build())))
    }

    /// It has a text in its path, in its query or among its headers.
    pub(super) fn asks(self, name: &str, place: ParameterIn, help: &str) -> Endpoint {
        let required = if place == ParameterIn::Path { Required::True } else { Required::False };
        let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
        self.with(|operation| operation.parameter(parameter.description(Some(help)).schema(Some(text()))))
    }

    /// It answers with JSON.
    pub(super) fn answers(self, what: &str, schema: Schema) -> Endpoint {
        self.answers_as(what, &[("application/json", schema)])
    }

    /// It answers in one of these types. Of streams, the schema is that of an event's data or of a line.
    pub(super) fn answers_as(self, what: &str, types: &[(&str, Schema)]) -> Endpoint {
        let content = |response: ResponseBuilder, (kind, schema): &(&str, Schema)| {
            response.content(*kind, ContentBuilder::new().schema(Some(schema.clone())).build())
        };
        let mut response = types.iter().fold(ResponseBuilder::new().description(what), content);
        if matches!(self.method, HttpMethod::Post) {
            let ignored = Header::builder().schema(Some(text()));
            let ignored =
                ignored.description(Some("Names of the fields that were ignored: nobody here knows them."));
            response = response.header("x-ignored-fields", ignored.build());
        }
        self.with(|operation| operation.response("200", response.build()))
    }

    /// It may fail with these statuses, in the shape of the schema `error`.
    pub(super) fn fails(self, error: &str, statuses: &[u16]) -> Endpoint {
        let add = |operation: OperationBuilder, status: &u16| {
            operation.response(status.to_string(), failure(*status, error))
        };
        self.with(|operation| statuses.iter().fold(operation, add))
    }
}

/// An answer as a whole, or as events.
pub(super) fn stream_of(whole: &str, event: &str) -> [(&'static str, Schema); 2] {
    [("application/json", named(whole)), ("text/event-stream", named(event))]
}

fn failure(status: u16, error: &str) -> Response {
    let why = match status {
        400 => {
            "The body is no JSON, a field has a wrong value or is not supported, the prompt is too long, or the host is none of the server's."
        }
        401 => "The server needs an API key.",
        403 => "Pages of another origin may not use the server.",
        404 => "There is no such model or path.",
        408 => "The body did not arrive in time.",
        413 => "The body is too large.",
        415 => "The body has another type than JSON, or is compressed.",
        429 => "The quota of the key is used up.",
        501 => "This server does not do it, or was not told to.",
        503 => "Too many requests wait, or the server is about to stop.",
        _ => {
            StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
        }
    };
    let content = ContentBuilder::new().schema(Some(named(error))).build();
    let response = ResponseBuilder::new().description(why).content("application/json", content);
    match status {
        429 | 503 => {
            let seconds = Header::builder().schema(Some(integer_from(1)));
            let seconds = seconds.description(Some("Seconds after which to try again."));
            response.header("retry-after", seconds.build()).build()
        }
        _ => response.build(),
    }
}
