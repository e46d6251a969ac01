//! OpenAI's protocol but for [responses](super::responses).

use serde_json::json;

use super::document::{Document, Endpoint, OF_CALLS, OF_LOOKS};
use super::fields::{constraints, conversation, harmless, message, model, parameters, stream};
use super::schema::{
    Field, Schema, any, call, either, flag, free, integer, integer_from, integer_within, list, list_within,
    map, may, must, named, nullable, number, object, refused, text, words,
};
use crate::config::Limits;
use crate::embedding::MAX_TEXTS;
use crate::openai::{MAX_DOCUMENTS, REFUSED_BY_CHATS, REFUSED_BY_COMPLETIONS};
use crate::prompts::MAX_PROMPTS;
use utoipa::openapi::path::ParameterIn;

const TAG: &str = "OpenAI";
pub(super) const ERROR: &str = "OpenAiError";

pub(super) fn add(document: Document, limits: &Limits) -> Document {
    let document = schemas(document, limits);
    document
        .endpoint(
            Endpoint::post("chat", &["/v1/chat/completions", "/chat/completions"])
                .says(TAG, "Answers a conversation")
                .reads(
                    "ChatCall",
                    json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 }),
                )
                .answers_as(
                    "The answer, or its pieces; a stream ends with `[DONE]`.",
                    &stream_of("Chat", "ChatChunk"),
                )
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("complete", &["/v1/completions", "/completions"])
                .says(TAG, "Continues texts")
                .reads("CompletionCall", json!({ "prompt": "The capital of Italy is", "max_tokens": 4 }))
                .answers_as(
                    "The texts, or their pieces; a stream ends with `[DONE]`.",
                    &stream_of("Completion", "Completion"),
                )
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("embed", &["/v1/embeddings", "/embeddings"])
                .says(TAG, "Computes embeddings, of Euclidean length 1")
                .reads("EmbeddingCall", json!({ "input": ["a b", "c"] }))
                .answers("An embedding of each text, in their order.", named("Embeddings"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("rank", &["/v1/rerank", "/rerank"])
                .says(TAG, "Scores documents for a query")
                .reads("RankCall", json!({ "query": "a", "documents": ["a b", "c"] }))
                .answers("The documents, best first.", named("Ranking"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::get("models", &["/v1/models", "/models"])
                .says(TAG, "Lists the models")
                .asks(
                    "anthropic-version",
                    ParameterIn::Header,
                    "Below /v1, has the answer in Anthropic's shape.",
                )
                .answers("The models.", either([named("Models"), named("AnthropicModels")]))
                .fails("AnyError", OF_LOOKS),
        )
        .endpoint(
            Endpoint::get("model", &["/v1/models/{id}"])
                .says(TAG, "Describes a model")
                .asks("id", ParameterIn::Path, "The model's name, which may have slashes.")
                .asks("anthropic-version", ParameterIn::Header, "Has the answer in Anthropic's shape.")
                .answers("The model.", either([named("Model"), named("AnthropicModel")]))
                .fails("AnyError", &[400, 401, 403, 404]),
        )
}

/// An answer as a whole, or as events.
pub(super) fn stream_of(whole: &str, event: &str) -> [(&'static str, Schema); 2] {
    [("application/json", named(whole)), ("text/event-stream", named(event))]
}

/// `stream`, and whether it ends with counts of tokens.
fn streams() -> [Field; 2] {
    let options = object([may("include_usage", flag(), "End with the counts of tokens.")]);
    [stream(), may("stream_options", options, "How the stream is written.")]
}

fn schemas(document: Document, limits: &Limits) -> Document {
    let function = object([
        must("name", text(), ""),
        may("description", nullable(text()), "For the model."),
        may("parameters", any(), "A JSON schema of the arguments."),
    ]);
    let called =
        object([must("name", text(), ""), may("arguments", any(), "An object, or its JSON as a text.")]);
    document
        .schema("Message", object(message()))
        .schema(
            "Tool",
            object([
                must("type", words(&["function"]), ""),
                must("function", function, "What may be called."),
            ]),
        )
        .schema(
            "ToolCall",
            object([
                may("id", nullable(text()), "Names the call for its result."),
                may("type", words(&["function"]), ""),
                must("function", called, "What is called."),
            ]),
        )
        .schema("ChatCall", chat_call(limits))
        .schema("CompletionCall", completion_call(limits))
        .schema("EmbeddingCall", embedding_call())
        .schema("RankCall", rank_call())
        .schema("Chat", chat())
        .schema("ChatChunk", chunk())
        .schema("Completion", completion())
        .schema("Embeddings", embeddings())
        .schema("Ranking", ranking())
        .schema("Model", described_model())
        .schema(
            "Models",
            object([must("object", words(&["list"]), ""), must("data", list(named("Model")), "")]),
        )
        .schema("Usage", usage())
        .schema("TokenLogprobs", token_logprobs())
        .schema("Timings", timings())
        .schema(ERROR, error())
        .schema("AnyError", either([named(ERROR), named(super::anthropic::ERROR)]))
}

fn chat_call(limits: &Limits) -> Schema {
    let own = [
        may("logprobs", flag(), "Return the log-probability of each token."),
        may("top_logprobs", integer_within(0, 20), "And of so many most likely tokens; needs `logprobs`."),
        may("timings_per_token", flag(), "Return times, as llama-server does."),
        may("modalities", list(words(&["text"])), "This server writes text only."),
    ];
    let fields = [model()].into_iter().chain(conversation(limits)).chain(streams()).chain(own);
    call(fields.chain(parameters(limits)).chain(refused(REFUSED_BY_CHATS)).chain(harmless()))
}

fn completion_call(limits: &Limits) -> Schema {
    let own = [
        must("prompt", prompts(), "One prompt or several."),
        may("echo", flag(), "Texts begin with their prompts."),
        may(
            "logprobs",
            integer_within(0, 5),
            "Return log-probabilities, and those of so many most likely tokens.",
        ),
        may("best_of", integer_within(1, limits.choices), "Only the number that `n` is."),
    ];
    let fields = [model()].into_iter().chain(own).chain(streams()).chain(parameters(limits));
    call(fields.chain(constraints()).chain(refused(REFUSED_BY_COMPLETIONS)).chain(harmless()))
}

/// Prompts: texts, token ids, and mixtures.
pub(super) fn prompts() -> Schema {
    let piece = || either([text(), integer_from(0)]);
    let several = list_within(1, MAX_PROMPTS, either([text(), list(piece())]));
    either([text(), several, list_within(1, usize::MAX >> 1, piece())])
}

fn embedding_call() -> Schema {
    let ids = || list(integer_from(0));
    let input = either([text(), ids(), list_within(0, MAX_TEXTS, text()), list_within(0, MAX_TEXTS, ids())]);
    let own = [
        must("input", input, "Texts, or their token ids."),
        may("encoding_format", words(&["float", "base64"]), "`base64` is of float32, little-endian."),
        may("dimensions", integer_from(0), "Only the number that the model has."),
    ];
    call([model()].into_iter().chain(own).chain(harmless()))
}

fn rank_call() -> Schema {
    let document = either([text(), object([must("text", text(), "")])]);
    let own = [
        must("query", text(), "What is looked for."),
        must("documents", list_within(1, MAX_DOCUMENTS, document), "What is scored."),
        may("top_n", integer_from(1), "Return so many of them."),
        may("return_documents", flag(), "Return their texts."),
    ];
    call([model()].into_iter().chain(own).chain(harmless()))
}

/// Who answers, and when.
fn head(kind: &str) -> [Field; 4] {
    [
        must("id", text(), ""),
        must("object", words(&[kind]), ""),
        must("created", integer(), "Seconds since 1970."),
        must("model", text(), ""),
    ]
}

fn finish(words_: &[&str]) -> Field {
    must("finish_reason", nullable(words(words_)), "Why the answer has ended; `null` while it goes on.")
}

const FINISHES: &[&str] = &["stop", "length", "tool_calls"];

fn choice(what: Field) -> Schema {
    let logprobs = object([must("content", list(named("TokenLogprobs")), ""), must("refusal", any(), "")]);
    object([must("index", integer(), ""), what, must("logprobs", nullable(logprobs), ""), finish(FINISHES)])
}

fn chat() -> Schema {
    let message = object([
        must("role", words(&["assistant"]), ""),
        must("content", nullable(text()), ""),
        must("refusal", any(), "Always `null`."),
        may("reasoning_content", text(), "What the model thought before."),
        may("tool_calls", list(named("ToolCall")), ""),
    ]);
    let own = [
        must("choices", list(choice(must("message", message, ""))), ""),
        must("usage", named("Usage"), ""),
        may("timings", named("Timings"), "With `timings_per_token`."),
    ];
    object(head("chat.completion").into_iter().chain(own))
}

fn chunk() -> Schema {
    let function = object([may("name", text(), ""), may("arguments", text(), "A piece of the JSON.")]);
    let call = object([
        must("index", integer(), "Pieces of a call have the same."),
        may("id", text(), ""),
        may("type", words(&["function"]), ""),
        must("function", function, ""),
    ]);
    let delta = object([
        may("role", words(&["assistant"]), ""),
        may("content", nullable(text()), ""),
        may("reasoning_content", text(), ""),
        may("tool_calls", list(call), ""),
    ]);
    let own = [
        must("choices", list(choice(must("delta", delta, ""))), ""),
        may("usage", named("Usage"), "Of the last chunk, if asked for."),
        may("timings", named("Timings"), "With `timings_per_token`."),
    ];
    either([object(head("chat.completion.chunk").into_iter().chain(own)), named(ERROR)])
}

fn completion() -> Schema {
    let logprobs = object([
        must("tokens", list(text()), ""),
        must("token_logprobs", list(nullable(number())), ""),
        must("top_logprobs", list(nullable(map(number()))), ""),
        must("text_offset", list(integer()), "In characters."),
    ]);
    let choice = object([
        must("index", integer(), ""),
        must("text", text(), ""),
        must("logprobs", nullable(logprobs), ""),
        finish(&FINISHES[..2]),
    ]);
    let own = [must("choices", list(choice), ""), may("usage", named("Usage"), "Of a stream, if asked for.")];
    object(head("text_completion").into_iter().chain(own))
}

/// Tokens of a call that generates none.
fn prompt_usage() -> Schema {
    object([must("prompt_tokens", integer(), ""), must("total_tokens", integer(), "")])
}

fn embeddings() -> Schema {
    let datum = object([
        must("object", words(&["embedding"]), ""),
        must("index", integer(), ""),
        must("embedding", either([list(number()), text()]), "A text is base64."),
    ]);
    object([
        must("object", words(&["list"]), ""),
        must("model", text(), ""),
        must("data", list(datum), ""),
        must("usage", prompt_usage(), ""),
    ])
}

fn ranking() -> Schema {
    let result = object([
        must("index", integer(), "Of the document in the call."),
        must("relevance_score", number(), "The model's own figure."),
        may("document", object([must("text", text(), "")]), ""),
    ]);
    object([
        must("id", text(), ""),
        must("object", words(&["list"]), ""),
        must("model", text(), ""),
        must("results", list(result), ""),
        must("usage", prompt_usage(), ""),
    ])
}

fn described_model() -> Schema {
    let state = words(&["loaded", "unloaded"]);
    object([
        must("id", text(), ""),
        must("object", words(&["model"]), ""),
        must("created", integer(), "When the server was started, in seconds since 1970."),
        must("owned_by", text(), ""),
        must("status", object([must("value", state, "")]), ""),
        may("max_model_len", integer(), "Tokens of the context."),
        may("meta", free(), "Figures of a loaded model."),
    ])
}

fn usage() -> Schema {
    let cached = object([must("cached_tokens", integer(), "")]);
    let reasoning = object([must("reasoning_tokens", integer(), "")]);
    object([
        must("prompt_tokens", integer(), ""),
        must("completion_tokens", integer(), ""),
        must("total_tokens", integer(), ""),
        must("prompt_tokens_details", cached, ""),
        must("completion_tokens_details", reasoning, ""),
    ])
}

fn token_logprobs() -> Schema {
    let one = || {
        [
            must("token", text(), ""),
            must("logprob", number(), ""),
            must("bytes", list(integer_within(0, 255)), ""),
            must("id", integer(), ""),
        ]
    };
    let top = must("top_logprobs", list(object(one())), "The most likely tokens.");
    object(one().into_iter().chain([top]))
}

fn timings() -> Schema {
    let figures = ["predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"];
    let of_prompt = ["cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"];
    let figures = figures.into_iter().map(|name| must(name, number(), ""));
    object(figures.chain(of_prompt.into_iter().map(|name| may(name, number(), ""))))
}

fn error() -> Schema {
    let error = object([
        must("message", text(), "What was found, and what to do."),
        must("type", text(), ""),
        must("param", nullable(text()), "The field of the call."),
        must("code", nullable(text()), ""),
        may("n_prompt_tokens", integer(), "Of a prompt that is too long."),
        may("n_ctx", integer(), "Tokens that fit."),
    ]);
    object([must("error", error, "")])
}
