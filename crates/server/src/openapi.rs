//! The OpenAPI document. It derives from the [routes](crate::http::Routes): each has an [`Endpoint`], and its body's type has the
//! fields.

use axum::http::StatusCode;
use engine::{Kind, Params};
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value as Json, json};

use crate::fields::{Body, HARMLESS, Model, Properties};

/// Statuses of errors of calls that have a body and name a model.
const CALLS: &[u16] = &[400, 401, 403, 404, 408, 413, 415, 429, 500, 503];

/// Statuses of errors of endpoints that read nothing.
const LOOKS: &[u16] = &[400, 401, 403, 500];

/// A protocol in the document.
pub(crate) struct Protocol {
    pub(crate) tag: &'static str,
    /// The schema of its errors.
    pub(crate) error: &'static str,
}

/// Endpoints that tell of the server.
pub(crate) const SERVER: Protocol = Protocol { tag: "server", error: "OpenAiError" };

type SchemaOf = Box<dyn Fn(&mut SchemaGenerator) -> Json>;

/// An endpoint in the document: a method at some paths.
#[derive(Default)]
pub(crate) struct Endpoint {
    tag: &'static str,
    name: &'static str,
    pub(crate) paths: &'static [&'static str],
    summary: &'static str,
    is_open: bool,
    /// Texts in its path, its query or its headers.
    parameters: Vec<Json>,
    reads: Option<(&'static str, Json)>,
    body: Option<fn() -> Json>,
    /// The media types and schemas of its answers.
    answers: Vec<(&'static str, SchemaOf)>,
    errors: Vec<(&'static [u16], &'static str)>,
    error: &'static str,
}

impl Protocol {
    /// `name` is what the endpoint does in a word.
    pub(crate) fn endpoint(
        &self,
        name: &'static str,
        paths: &'static [&'static str],
        summary: &'static str,
    ) -> Endpoint {
        Endpoint { tag: self.tag, name, paths, summary, error: self.error, ..Endpoint::default() }
    }
}

impl Endpoint {
    /// It needs no key.
    pub(crate) fn open(self) -> Endpoint {
        Endpoint { is_open: true, ..self }
    }

    /// Names the schema of its body, and gives an example.
    pub(crate) fn reads(self, name: &'static str, example: Json) -> Endpoint {
        Endpoint { reads: Some((name, example)), ..self }
    }

    pub(crate) fn body<B: Body>(self) -> Endpoint {
        Endpoint { body: Some(body_schema::<B>), ..self }
    }

    /// It reads the text `name` in its `path`, `query` or `header`.
    pub(crate) fn asks(mut self, name: &str, place: &str, help: &str) -> Endpoint {
        let schema = json!({ "type": "string" });
        self.parameters.push(json!({
            "name": name, "in": place, "required": place == "path", "description": help, "schema": schema,
        }));
        self
    }

    /// It answers with JSON of this [shape].
    pub(crate) fn answers(self, shape: impl Into<Json>) -> Endpoint {
        self.answers_as("application/json", shape)
    }

    /// It answers with `T`.
    pub(crate) fn answers_with<T: JsonSchema>(mut self) -> Endpoint {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<T>().to_value();
        self.answers.push(("application/json", Box::new(schema)));
        self
    }

    /// It answers in another media type. The shape of a stream is that of an event's data, or of a line.
    pub(crate) fn answers_as(mut self, kind: &'static str, shape: impl Into<Json>) -> Endpoint {
        let schema = self::shape(&shape.into());
        self.answers.push((kind, Box::new(move |_| schema.clone())));
        self
    }

    /// Its errors, if they are not those of all calls and looks.
    pub(crate) fn fails(self, statuses: &'static [u16]) -> Endpoint {
        let error = self.error;
        self.fails_as(error, statuses)
    }

    pub(crate) fn fails_as(mut self, error: &'static str, statuses: &'static [u16]) -> Endpoint {
        self.errors.push((statuses, error));
        self
    }

    /// The operation, without its id.
    fn operation(
        &self,
        method: &str,
        generator: &mut SchemaGenerator,
        schemas: &mut Map<String, Json>,
    ) -> Json {
        let mut responses = Map::new();
        if !self.answers.is_empty() {
            let content = self
                .answers
                .iter()
                .map(|(kind, schema)| ((*kind).to_owned(), json!({ "schema": schema(generator) })));
            let mut success =
                json!({ "description": "The answer.", "content": content.collect::<Map<_, _>>() });
            if method == "post" {
                let help = "Names of the fields that were ignored: the server does not know them.";
                success["headers"] =
                    json!({ "x-ignored-fields": { "description": help, "schema": { "type": "string" } } });
            }
            responses.insert("200".into(), success);
        }
        let usual = [(if self.reads.is_some() { CALLS } else { LOOKS }, self.error)];
        let errors = if self.errors.is_empty() { &usual[..] } else { &self.errors };
        for &(statuses, error) in errors {
            responses.extend(statuses.iter().map(|&status| (status.to_string(), failure(status, error))));
        }
        let mut operation = json!({ "tags": [self.tag], "summary": self.summary, "responses": responses });
        if self.is_open {
            operation["security"] = json!([{}]);
        }
        if !self.parameters.is_empty() {
            operation["parameters"] = self.parameters.clone().into();
        }
        if let (Some((name, example)), Some(body)) = (&self.reads, self.body) {
            let content = json!({ "schema": reference(name), "example": example });
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": content } });
            schemas.insert((*name).to_owned(), body());
        }
        operation
    }
}

fn failure(status: u16, error: &str) -> Json {
    let why = match status {
        400 => {
            "The request body is not valid JSON, a field has a wrong value or is not supported, the prompt is too long, or the host is not one of the server's."
        }
        401 => "The server needs an API key.",
        403 => "Pages of another origin may not use the server.",
        404 => "There is no such model or path.",
        408 => "The body did not arrive in time.",
        413 => "The body is too large.",
        415 => "The body has another type than JSON, or is compressed.",
        429 => "The quota of the key is used up.",
        501 => "This server does not do it, or was not told to.",
        503 => "The server is at capacity, or shutting down.",
        _ => {
            StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
        }
    };
    let mut response =
        json!({ "description": why, "content": { "application/json": { "schema": reference(error) } } });
    if matches!(status, 429 | 503) {
        let seconds = json!({ "type": "integer", "minimum": 1 });
        response["headers"] = json!({ "retry-after": { "description": "Seconds after which to try again.", "schema": seconds } });
    }
    response
}

/// The document of these endpoints, with the named shapes.
pub(crate) fn document(endpoints: &[(&'static str, Endpoint)], shapes: Vec<(&'static str, Json)>) -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut schemas: Map<String, Json> =
        shapes.iter().map(|(name, shape)| ((*name).to_owned(), self::shape(shape))).collect();
    let mut paths: Map<String, Json> = Map::new();
    for (method, endpoint) in endpoints {
        let method = method.to_lowercase();
        let operation = endpoint.operation(&method, &mut generator, &mut schemas);
        for path in endpoint.paths {
            let mut operation = operation.clone();
            operation["operationId"] = operation_id(endpoint.name, path).into();
            // A path of several parts has a mark that OpenAPI does not know.
            paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}))[&method] = operation;
        }
    }
    schemas.extend(generator.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "rustorch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Language models by the protocols of OpenAI, Anthropic, ollama and llama-server. In bodies, `null` \
                means absent; fields that are not known are ignored and named in the header `x-ignored-fields`. Of streams, the \
                schema is that of one event's data, or of one line.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "x-api-key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
            },
        },
        // Either of them, or none on a server without keys.
        "security": [{ "bearer": [] }, { "x-api-key": [] }, {}],
    })
}

/// The endpoint's name and its path: `chat_v1_chat_completions`.
fn operation_id(name: &str, path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    [name].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schema of a body: an object in which `null` is the same as absent.
fn body_schema<B: Body>() -> Json {
    let mut properties = Properties::default();
    Model::describe(&mut properties);
    B::describe(&mut properties);
    object(properties)
}

/// An object with these fields, and those that are refused or ignored.
pub(crate) fn object(mut properties: Properties) -> Json {
    for name in std::mem::take(&mut properties.refused) {
        let help = "Not supported: a value that asks for something is an error.";
        properties.add(name, json!({ "enum": [null, false, 0, "", []], "description": help }));
    }
    for name in properties.ignored.drain(..).chain(HARMLESS.iter().copied()).collect::<Vec<_>>() {
        properties.add(name, json!({ "description": "Ignored: it changes nothing here." }));
    }
    let Properties { mut all, required, .. } = properties;
    for (name, schema) in &mut all {
        if !required.contains(name) {
            make_nullable(schema);
        }
    }
    json!({ "type": "object", "properties": all, "required": required })
}

fn make_nullable(schema: &mut Json) {
    let null = json!({ "type": "null" });
    let Some(map) = schema.as_object_mut() else { return };
    if map.contains_key("$ref") {
        *schema = json!({ "anyOf": [schema.take(), null] });
        return;
    }
    for (list, null) in [("enum", &Json::Null), ("anyOf", &null), ("oneOf", &null)] {
        if let Some(values) = map.get_mut(list).and_then(Json::as_array_mut)
            && !values.contains(null)
        {
            values.push(null.clone());
        }
    }
    if let Some(kind @ Json::String(_)) = map.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
}

/// The engine's parameters, each under all of its names.
pub(crate) fn describe_params(properties: &mut Properties) {
    for param in Params::TABLE {
        let mut schema = param_schema(&param.kind);
        schema["default"] = param.get(&Params::default());
        for name in param.names() {
            let mut schema = schema.clone();
            if name == param.name {
                schema["description"] = format!("{}.", param.help).into();
                // By which the page knows what can be set like a number of its own.
                schema["x-heading"] = param.flag.as_ref().map(|flag| flag.heading).into();
            } else {
                schema["description"] = format!("The same as `{}`.", param.name).into();
            }
            properties.add(name, schema);
        }
    }
}

fn param_schema(kind: &Kind) -> Json {
    let text = json!({ "type": "string" });
    let list = |most: usize, item: Json| json!({ "type": "array", "items": item, "maxItems": most });
    match *kind {
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Integer { .. } => {
            let (min, max) = kind.bounds();
            let mut schema = json!({ "type": "integer" });
            for (name, bound) in [("minimum", min), ("maximum", max)] {
                if let Some(bound) = bound {
                    schema[name] = (bound as i64).into();
                }
            }
            schema
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Texts { most, bytes } | Kind::Breakers { most, bytes } => {
            let text = json!({ "type": "string", "maxLength": bytes });
            json!({ "anyOf": [text, list(most, text.clone())] })
        }
        Kind::Tokens { most } => list(most, json!({ "type": "integer", "minimum": 0 })),
        Kind::Samplers { most } => json!({ "anyOf": [text, list(most, text.clone())] }),
        Kind::Biases { most, .. } => {
            let bias = json!({ "type": ["number", "boolean"], "minimum": -100, "maximum": 100 });
            let pairs = list(most, json!({ "type": "array", "minItems": 2, "maxItems": 2 }));
            json!({ "anyOf": [{ "type": "object", "additionalProperties": bias }, pairs] })
        }
    }
}

/// The schema of an answer from a sketch of it. An object has fields, whose names end with `?` if they may be absent, or `*` for any
/// name. An array of one is a list; one of several says that it is one of them. A text names types: `integer|null`, `#Usage` for a
/// schema of the document, `=stop|=length` for one of these words.
pub(crate) fn shape(sketch: &Json) -> Json {
    match sketch {
        Json::Object(fields) if fields.contains_key("*") => {
            json!({ "type": "object", "additionalProperties": shape(&fields["*"]) })
        }
        Json::Object(fields) => {
            let required: Vec<&String> = fields.keys().filter(|name| !name.ends_with('?')).collect();
            let properties =
                fields.iter().map(|(name, field)| (name.trim_end_matches('?').to_owned(), shape(field)));
            json!({ "type": "object", "properties": properties.collect::<Map<_, _>>(), "required": required })
        }
        Json::Array(items) => match &items[..] {
            [item] => json!({ "type": "array", "items": shape(item) }),
            any => json!({ "anyOf": any.iter().map(shape).collect::<Vec<_>>() }),
        },
        Json::String(names) if names.contains('|') && !names.contains('=') => {
            json!({ "anyOf": names.split('|').map(|name| shape(&name.into())).collect::<Vec<_>>() })
        }
        Json::String(names) if names.contains('=') => {
            json!({ "enum": names.split('|').map(|word| word.strip_prefix('=')).collect::<Vec<_>>() })
        }
        Json::String(name) if name == "any" => json!({}),
        Json::String(name) => match name.strip_prefix('#') {
            Some(name) => reference(name),
            None => json!({ "type": name }),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
