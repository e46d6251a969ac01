//! ollama's protocol.

use serde_json::json;
use utoipa::openapi::path::{HttpMethod, ParameterIn};

use super::document::{Document, Endpoint, OF_CALLS, OF_LOOKS};
use super::fields::{parameters, tools};
use super::schema::{
    Field, Schema, any, call, either, flag, free, ignored, integer, integer_from, integer_within, list,
    list_within, may, must, named, nullable, number, object, refused, text, words,
};
use crate::config::Limits;
use crate::embedding::MAX_TEXTS;
use crate::ollama::{REFUSED_BY_GENERATE, REFUSED_BY_SHOW, WITHOUT_EFFECT};

const TAG: &str = "ollama";
const ERROR: &str = "OllamaError";

pub(super) fn add(document: Document, limits: &Limits) -> Document {
    let few = json!({ "num_predict": 4 });
    let document = schemas(document, limits)
        .endpoint(
            Endpoint::post("chat", &["/api/chat"])
                .says(TAG, "Answers a conversation")
                .reads(
                    "OllamaChatCall",
                    json!({ "messages": [{ "role": "user", "content": "Hi" }], "options": few }),
                )
                .answers_as("The answer, or its lines.", &lines_of("OllamaAnswer"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("generate", &["/api/generate"])
                .says(TAG, "Answers a prompt")
                .reads("OllamaGenerateCall", json!({ "prompt": "Hi", "options": few }))
                .answers_as("The answer, or its lines.", &lines_of("OllamaAnswer"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("embed", &["/api/embed"])
                .says(TAG, "Computes embeddings")
                .reads("OllamaEmbedCall", json!({ "input": ["a b", "c"] }))
                .answers("An embedding of each text.", named("OllamaEmbeddings"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("embed", &["/api/embeddings"])
                .says(TAG, "Computes the embedding of one text")
                .reads("OllamaEmbeddingCall", json!({ "prompt": "a b" }))
                .answers("The embedding.", object([must("embedding", list(number()), "")]))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("show", &["/api/show"])
                .says(TAG, "Describes a model")
                .reads("OllamaShowCall", json!({}))
                .answers("The model.", named("OllamaShown"))
                .fails(ERROR, OF_CALLS),
        );
    let listed = || object([must("models", list(named("OllamaModel")), "")]);
    let document = document
        .endpoint(
            Endpoint::get("tags", &["/api/tags"])
                .says(TAG, "Lists the models")
                .answers("The models.", listed())
                .fails(ERROR, OF_LOOKS),
        )
        .endpoint(
            Endpoint::get("ps", &["/api/ps"])
                .says(TAG, "Lists the models that are loaded")
                .answers("The models.", listed())
                .fails(ERROR, OF_LOOKS),
        )
        .endpoint(
            Endpoint::get("version", &["/api/version"])
                .says(TAG, "The version of ollama whose protocol this is")
                .answers("The version.", object([must("version", text(), ""), must("server", text(), "")]))
                .fails(ERROR, OF_LOOKS),
        );
    unmanaged(document)
}

/// Models are those of the command line.
fn unmanaged(document: Document) -> Document {
    let managing = |method, name, path| {
        Endpoint::new(method, name, path)
            .says(TAG, "Not here: models are those of the command line")
            .fails(ERROR, &[400, 401, 403, 501])
    };
    let of_blobs = |method, name| {
        managing(method, name, &["/api/blobs/{digest}"]).asks("digest", ParameterIn::Path, "Ignored.")
    };
    document
        .endpoint(managing(
            HttpMethod::Post,
            "manage",
            &["/api/pull", "/api/push", "/api/create", "/api/copy"],
        ))
        .endpoint(managing(HttpMethod::Delete, "manage", &["/api/delete"]))
        .endpoint(of_blobs(HttpMethod::Post, "upload"))
        .endpoint(of_blobs(HttpMethod::Head, "find"))
}

/// An answer as a whole, or as lines.
fn lines_of(name: &str) -> [(&'static str, Schema); 2] {
    [("application/json", named(name)), ("application/x-ndjson", either([named(name), named(ERROR)]))]
}

fn schemas(document: Document, limits: &Limits) -> Document {
    document
        .schema("OllamaChatCall", chat_call(limits))
        .schema("OllamaGenerateCall", generate_call())
        .schema("OllamaOptions", options())
        .schema("OllamaEmbedCall", embed_call())
        .schema(
            "OllamaEmbeddingCall",
            call(names().into_iter().chain([must("prompt", text(), "")]).chain(ignored(WITHOUT_EFFECT))),
        )
        .schema("OllamaShowCall", show_call())
        .schema("OllamaMessage", message())
        .schema("OllamaAnswer", answer())
        .schema("OllamaEmbeddings", embeddings())
        .schema("OllamaModel", described_model())
        .schema("OllamaShown", shown())
        .schema(ERROR, object([must("error", text(), "What was found, and what to do.")]))
}

/// How a call names its model.
fn names() -> [Field; 2] {
    [
        may("model", text(), "The name of a model, with or without `:latest`; without it the first one."),
        may("name", text(), "The older name of `model`."),
    ]
}

fn options() -> Schema {
    let own = may("num_predict", integer(), "Tokens of the answer, at most; zero and less are any number.");
    call([own].into_iter().chain(parameters()))
}

/// What both endpoints of text read.
fn of_text() -> impl Iterator<Item = Field> {
    let format = either([words(&["", "json"]), free()]);
    let own = [
        may("options", named("OllamaOptions"), "Under ollama's names; those of a model's load are ignored."),
        may("format", format, "`json`, or a JSON schema."),
        may(
            "think",
            either([flag(), words(&["high", "medium", "low"])]),
            "Whether the model reasons, or how much.",
        ),
        may("stream", flag(), "Lines, unless it is false."),
        may("logprobs", flag(), "Return the log-probability of each token."),
        may("top_logprobs", integer_within(0, 20), "And of so many most likely tokens."),
    ];
    names().into_iter().chain(own).chain(ignored(&["keep_alive"]))
}

fn chat_call(limits: &Limits) -> Schema {
    let messages = list_within(0, limits.messages, named("OllamaMessage"));
    let own = [may("messages", messages, "The conversation; without it, the model is loaded.")];
    call(of_text().chain(own).chain(tools(limits)))
}

fn generate_call() -> Schema {
    let own = [
        may("prompt", text(), "Without it, the model is loaded."),
        may("system", text(), "What the model is told before."),
        may("raw", flag(), "Take the prompt without the chat template."),
    ];
    call(of_text().chain(own).chain(refused(REFUSED_BY_GENERATE)))
}

fn embed_call() -> Schema {
    let own = [
        may("input", either([text(), list_within(0, MAX_TEXTS, text())]), "One text or several."),
        may("dimensions", integer_from(0), "Only the number that the model has."),
    ];
    call(names().into_iter().chain(own).chain(ignored(WITHOUT_EFFECT)))
}

fn show_call() -> Schema {
    let own = [may("verbose", flag(), "Return all arrays, however long they are.")];
    call(names().into_iter().chain(own).chain(refused(REFUSED_BY_SHOW)))
}

/// A message in ollama's shape, of a call or of an answer.
fn message() -> Schema {
    let function =
        object([must("name", text(), ""), may("arguments", any(), ""), may("index", integer(), "")]);
    let called = object([may("id", nullable(text()), ""), must("function", function, "")]);
    object([
        must("role", text(), ""),
        may("content", nullable(text()), ""),
        may("thinking", nullable(text()), "What the model thought."),
        may("tool_calls", nullable(list(called)), ""),
        may("tool_name", nullable(text()), "Whose result it is."),
    ])
}

fn answer() -> Schema {
    let duration = |name| may(name, integer(), "In nanoseconds.");
    object([
        must("model", text(), "As the call has it."),
        must("created_at", text(), ""),
        must("done", flag(), "Whether it is the last line."),
        may("message", named("OllamaMessage"), "Of chats."),
        may("response", text(), "Of `generate`."),
        may("thinking", text(), "Of `generate`."),
        may("tool_calls", list(any()), ""),
        may("logprobs", list(named("TokenLogprobs")), ""),
        may("done_reason", words(&["stop", "length", "load"]), ""),
        may("prompt_eval_count", integer(), ""),
        may("eval_count", integer(), ""),
        duration("total_duration"),
        duration("load_duration"),
        duration("prompt_eval_duration"),
        duration("eval_duration"),
    ])
}

fn embeddings() -> Schema {
    object([
        must("model", text(), ""),
        must("embeddings", list(list(number())), ""),
        must("total_duration", integer(), "In nanoseconds."),
        must("load_duration", integer(), "In nanoseconds."),
        must("prompt_eval_count", integer(), ""),
    ])
}

fn described_model() -> Schema {
    object([
        must("name", text(), ""),
        must("model", text(), ""),
        must("size", integer(), "Bytes of the file."),
        must("digest", text(), "SHA-256 of the file's header."),
        must("details", free(), ""),
        may("modified_at", text(), ""),
        may("expires_at", text(), ""),
        may("size_vram", integer(), ""),
        may("context_length", integer(), ""),
    ])
}

fn shown() -> Schema {
    object([
        must("modelfile", text(), ""),
        must("parameters", text(), ""),
        must("template", text(), ""),
        must("details", free(), ""),
        must("model_info", free(), "The file's metadata."),
        must("capabilities", list(text()), ""),
        must("modified_at", text(), ""),
        may("license", text(), ""),
    ])
}
