//! OpenAI's protocol but for [responses](super::responses).

mod answers;
mod calls;

pub(super) use calls::prompts;

use serde_json::json;
use utoipa::openapi::path::ParameterIn;

use super::document::{Document, Endpoint, OF_CALLS, OF_LOOKS, stream_of};
use super::fields::message;
use super::schema::{any, either, list, may, must, named, nullable, object, text, words};
use crate::config::Limits;

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
            Endpoint::post("count", &["/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"])
                .says(TAG, "Counts the tokens of a conversation")
                .reads("ChatCall", json!({ "messages": [{ "role": "user", "content": "Hi" }] }))
                .answers("Their number.", named("InputTokens"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("complete", &["/v1/completions", "/completions"])
                .says(TAG, "Continues texts")
                .reads("CompletionCall", json!({ "prompt": "The capital of Italy is", "max_tokens": 4 }))
                .answers_as(
                    "The texts, or their pieces; a stream ends with `[DONE]`.",
                    &stream_of("Completion", "CompletionChunk"),
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
            Endpoint::post("rank", &["/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"])
                .says(TAG, "Scores documents for a query")
                .reads("RankCall", json!({ "query": "a", "documents": ["a b", "c"] }))
                .answers("The documents, best first.", either([named("Ranking"), list(named("ScoredText"))]))
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
        .schema("ChatCall", calls::chat_call(limits))
        .schema("CompletionCall", calls::completion_call())
        .schema("EmbeddingCall", calls::embedding_call())
        .schema("RankCall", calls::rank_call())
        .schema("Chat", answers::chat())
        .schema("ChatChunk", answers::chunk())
        .schema("Completion", answers::completion())
        .schema("CompletionChunk", either([named("Completion"), named(ERROR)]))
        .schema("Embeddings", answers::embeddings())
        .schema("Ranking", answers::ranking())
        .schema("ScoredText", answers::scored_text())
        .schema("InputTokens", answers::input_tokens())
        .schema("Model", answers::described_model())
        .schema(
            "Models",
            object([must("object", words(&["list"]), ""), must("data", list(named("Model")), "")]),
        )
        .schema("Usage", answers::usage())
        .schema("TokenLogprobs", answers::token_logprobs())
        .schema("Timings", answers::timings())
        .schema(ERROR, answers::error())
        .schema("AnyError", either([named(ERROR), named(super::anthropic::ERROR)]))
}
