//! The document is what the code does: its fields and bounds are read, its answers are given.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use backend_cpu::Cpu;
use engine::gguf::Gguf;
use engine::{Embedder, EmbedderOptions, Engine, Model, Options, Param, Params};
use serde_json::{Map, Value as Json, json};
use testkit::fixtures;
use tower::ServiceExt as _;

use crate::app::App;
use crate::config::Config;
use crate::models::{ModelSource, Models};
use crate::server::router;

/// The document, as the server gives it.
async fn document(router: &Router) -> Json {
    let request = Request::get("/openapi.json").header(header::HOST, "localhost").body(Body::empty());
    let answer = router.clone().oneshot(request.expect("a request")).await.expect("an answer");
    let body = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// The operations: method, path and description.
fn operations(document: &Json) -> Vec<(String, String, Json)> {
    let paths = document["paths"].as_object().expect("paths");
    let listed = |(path, item): (&String, &Json)| {
        let item = item.as_object().cloned().unwrap_or_default();
        let path = path.clone();
        item.into_iter().map(move |(method, operation)| (method.to_uppercase(), path.clone(), operation))
    };
    paths.iter().flat_map(listed).collect()
}

fn encoder(name: &str) -> ModelSource {
    let (_, spec) =
        fixtures::encoders().into_iter().find(|(own, _)| own == name).expect("a model of this name");
    let file = Gguf::from_bytes(fixtures::Spec::file(&spec).into()).expect("a good file");
    let model = Arc::new(Model::embedding(file, None).expect("a good model"));
    let options = EmbedderOptions { n_ctx: None, n_batch: 64 };
    Embedder::new(model, Box::new(Cpu::new(NonZero::new(1))), options).expect("it fits").into()
}

fn app() -> Arc<App> {
    let file = Gguf::from_bytes(bytes::Bytes::from_static(demo_model::EMBEDDED)).expect("a good file");
    let model = Arc::new(Model::new(file).expect("a good model"));
    let options = Options { n_ctx: Some(512), blocks: Some(96), n_batch: 64, ..Options::default() };
    let engine = Engine::new(model, Box::new(Cpu::new(NonZero::new(1))), options).expect("it fits");
    let models = vec![
        ("writes".to_owned(), engine.into()),
        ("embeds".to_owned(), encoder("F32-bert")),
        ("ranks".to_owned(), encoder("F32-bert-reranker")),
    ];
    let config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    Arc::new(App::new(config, Models::new(models, Vec::new(), false, 4).expect("threads")))
}

/// The schema that a reference names.
fn resolved<'a>(document: &'a Json, schema: &'a Json) -> &'a Json {
    let schema = schema["anyOf"].as_array().and_then(|any| any.first()).unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).expect("a schema of this name"),
        None => schema,
    }
}

/// Whether it needs a model that has tokens for gaps, which the embedded one has not.
fn is_for_code(path: &str) -> bool {
    path == "/infill"
}

/// The model of [`app`] that does what the path asks for.
fn model_for(path: &str) -> &'static str {
    if path.contains("embed") {
        "embeds"
    } else if path.contains("rerank") {
        "ranks"
    } else {
        "writes"
    }
}

fn properties(schema: &Json) -> Map<String, Json> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

#[tokio::test]
async fn names_lead_somewhere_and_operations_have_their_own() {
    fn check(document: &Json, json: &Json) {
        match json {
            Json::Object(map) => {
                if let Some(name) = map.get("$ref").and_then(Json::as_str) {
                    assert!(document.pointer(name.trim_start_matches('#')).is_some(), "{name}");
                }
                map.values().for_each(|value| check(document, value));
            }
            Json::Array(items) => items.iter().for_each(|item| check(document, item)),
            _ => {}
        }
    }
    let document = document(&router(app())).await;
    assert_eq!(document["openapi"], "3.1.0");
    check(&document, &document);
    let mut ids = BTreeSet::new();
    for (_, path, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].to_string()), "{path}");
    }
}

/// Every field of the document is read.
#[tokio::test]
async fn the_fields_are_read() {
    let router = router(app());
    let document = document(&router).await;
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() || is_for_code(&path) {
            continue;
        }
        let properties = properties(resolved(&document, &content["schema"]));
        let inner = properties.get("options").map(|options| self::properties(resolved(&document, options)));
        let inner = inner.unwrap_or_default();
        // A good call in which all other fields are there, and say nothing.
        let mut body = properties.keys().map(|name| (name.clone(), Json::Null)).collect::<Map<_, _>>();
        body.extend(content["example"].as_object().cloned().expect("an example"));
        if !inner.is_empty() {
            let mut options: Map<String, Json> =
                inner.keys().map(|name| (name.clone(), Json::Null)).collect();
            options.insert("num_predict".into(), 2.into());
            body.insert("options".into(), options.into());
        }
        body.insert("model".into(), model_for(&path).into());
        let request = Request::builder()
            .method(&*method)
            .uri(&path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(Json::from(body).to_string()));
        let answer = router.clone().oneshot(request.expect("a request")).await.expect("an answer");
        let (status, ignored) = (answer.status(), answer.headers().get("x-ignored-fields").cloned());
        let body = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
        assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&body));
        assert_eq!(ignored, None, "{path} does not read what the document says");
    }
}

/// Bounds of the document are the code's: what lies just outside of them is refused by name.
#[tokio::test]
async fn values_outside_of_the_bounds_are_refused() {
    let router = router(app());
    let document = document(&router).await;
    let mut tried = 0;
    for (_, path, operation) in operations(&document) {
        if is_for_code(&path) {
            continue;
        }
        let content = &operation["requestBody"]["content"]["application/json"];
        let example = content["example"].as_object().cloned().unwrap_or_default();
        for (name, schema) in properties(resolved(&document, &content["schema"])) {
            let below = schema["minimum"].as_f64().map(|least| least - 1.0);
            let above = schema["maximum"].as_f64().map(|most| most + 1.0);
            for value in [below, above].into_iter().flatten() {
                let is_integer = schema["type"]
                    .as_array()
                    .map_or(schema["type"] == "integer", |types| types.contains(&json!("integer")));
                let mut body = example.clone();
                body.insert("model".into(), model_for(&path).into());
                body.insert(name.clone(), if is_integer { (value as i64).into() } else { value.into() });
                let request = Request::post(&path).header(header::HOST, "localhost");
                let request = request.body(Body::from(Json::from(body).to_string())).expect("a request");
                let answer = router.clone().oneshot(request).await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{path}: {name} is {value}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Each protocol takes the parameters of the engine's table, in its ranges, and the document says so.
#[tokio::test]
async fn parameters_are_those_of_the_table() {
    let router = router(app());
    let document = document(&router).await;
    let paths = [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/completion",
        "/api/generate",
        "/api/chat",
    ];
    for path in paths {
        let content = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let mut fields = properties(resolved(&document, &content["schema"]));
        let is_inner = path.starts_with("/api/");
        if is_inner {
            fields = properties(resolved(&document, &fields["options"]));
        }
        for (param, name) in
            Params::TABLE.iter().flat_map(|param| param.names().map(move |name| (param, name)))
        {
            // These mean something else there.
            if matches!(
                (path, name),
                ("/v1/messages", "temperature")
                    | ("/v1/responses", "n")
                    | ("/api/generate" | "/api/chat", "num_predict")
            ) || (path, param.name) == ("/v1/messages", "max_tokens")
            {
                continue;
            }
            let (min, max) = param.kind.bounds();
            let field = &fields[name];
            assert_eq!((field["minimum"].as_f64(), field["maximum"].as_f64()), (min, max), "{path}: {name}");
            assert_eq!(field["default"], param.get(&Params::default()), "{path}: {name}");
            let ask = async |value: Json| {
                let mut body = content["example"].as_object().cloned().expect("an example");
                if is_inner {
                    body.insert("options".into(), json!({ "num_predict": 1, name: value }));
                } else {
                    body.retain(|name, _| Param::find(name).is_none());
                    body.insert("max_tokens".into(), 1.into());
                    body.retain(|name, _| name != param.name);
                    body.insert(name.into(), value);
                }
                body.insert("stream".into(), false.into());
                let request = Request::post(path).header(header::HOST, "localhost");
                let request = request.body(Body::from(Json::from(body).to_string())).expect("a request");
                let answer = router.clone().oneshot(request).await.expect("an answer");
                let status = answer.status();
                let body = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
                (status, String::from_utf8_lossy(&body).into_owned())
            };
            let below = min.map(|min| json!(min - 1.0));
            let above = max.map(|max| json!(max + 1.0));
            for value in [below, above, Some(json!({ "a": {} }))].into_iter().flatten() {
                let (status, body) = ask(value).await;
                assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {name}");
                assert!(body.contains(&format!("`{name}` is ")), "{path}: {body}");
            }
            if path != "/completion" {
                continue;
            }
            for bound in [min, max].into_iter().flatten() {
                let mut expected = Params { max_tokens: Some(1), ..Params::default() };
                expected.set(name, &json!(bound)).expect("in its range");
                let (status, body) = ask(json!(bound)).await;
                assert_eq!(status, StatusCode::OK, "{name}: {body}");
                let body: Json = serde_json::from_str(&body).expect("JSON");
                let told =
                    if body.is_array() { &body[0] } else { &body }["generation_settings"][param.name].clone();
                assert!(told == param.get(&expected) || name == "seed", "{name}: {told}");
            }
        }
    }
}

/// The same document without leave for fields that it does not have. Parts of answers may have any, and no example asks for them.
fn closed(mut json: Json) -> Json {
    match &mut json {
        Json::Object(map) => {
            map.values_mut().for_each(|value| *value = closed(value.take()));
            if map.get("properties").is_some_and(Json::is_object) {
                map.entry("additionalProperties").or_insert(false.into());
            }
        }
        Json::Array(items) => {
            items.retain(|item| item["$ref"] != "#/components/schemas/LlamaParts");
            items.iter_mut().for_each(|item| *item = closed(item.take()));
        }
        _ => {}
    }
    json
}

/// Answers to the examples, and to calls without any field, have a documented status and no field that the document lacks.
#[tokio::test]
async fn answers_are_those_of_the_document() {
    let router = router(app());
    let document = closed(document(&router).await);
    let (mut checked, mut mistakes) = (0, Vec::new());
    for (method, path, operation) in operations(&document) {
        if method == "HEAD" {
            continue;
        }
        let example = operation["requestBody"]["content"]["application/json"]["example"].as_object();
        let uri = path.split('/').map(|part| if part.starts_with('{') { "writes" } else { part });
        let uri = uri.collect::<Vec<_>>().join("/");
        let mut bodies = vec![json!({})];
        bodies.extend(example.map(|example| {
            let mut body = example.clone();
            body.insert("model".into(), model_for(&path).into());
            body.into()
        }));
        for body in bodies {
            let request = Request::builder().method(&*method).uri(&uri).header(header::HOST, "localhost");
            let request = request.header(header::CONTENT_TYPE, "application/json");
            let request = request.body(Body::from(body.to_string())).expect("a request");
            let answer = router.clone().oneshot(request).await.expect("an answer");
            let status = answer.status();
            let response = resolved(&document, &operation["responses"][status.as_str()]);
            if !response.is_object() {
                mistakes.push(format!("{method} {path} answers {status}"));
                continue;
            }
            let schema = &response["content"]["application/json"]["schema"];
            if answer.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
                continue;
            }
            let answer = axum::body::to_bytes(answer.into_body(), 1 << 24).await.expect("a body");
            let answer: Json = serde_json::from_slice(&answer).expect("JSON");
            let schema = json!({ "allOf": [schema], "components": document["components"] });
            let schema = jsonschema::validator_for(&schema).expect("a good schema");
            let errors = schema.iter_errors(&answer);
            mistakes
                .extend(errors.map(|error| format!("{method} {path} answers {status} {answer}: {error}")));
            checked += 1;
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
    assert!(checked > 60, "{checked}");
}
