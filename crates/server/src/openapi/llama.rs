//! llama-server's endpoints.

use serde_json::json;
use utoipa::openapi::path::ParameterIn;

use super::document::{Document, Endpoint, OF_CALLS, stream_of};
use super::fields::{constraints, conversation, harmless, model, parameters, progress, stream};
use super::openai::{ERROR, prompts};
use super::schema::{
    Field, Schema, call, either, flag, free, ignored, integer, integer_from, integer_within, list,
    list_within, may, must, named, nullable, number, object, refused, text, words,
};
use crate::config::Limits;
use crate::llama::{HARMLESS, MAX_FIELDS, MAX_FILES, MAX_PROBS, REFUSED};

const TAG: &str = "llama-server";
const OWN_ERROR: &str = "LlamaError";

/// An answer, or the parts of it that `response_fields` names, by their paths.
fn one() -> Schema {
    either([named("LlamaCompletion"), named("LlamaParts")])
}

pub(super) fn add(document: Document, limits: &Limits) -> Document {
    let document = document
        .schema("LlamaCall", completion_call([must("prompt", prompts(), "One prompt or several.")]))
        .schema("InfillCall", completion_call(infill_fields()))
        .schema("LlamaEmbeddingCall", embedding_call())
        .schema("LlamaCompletion", completion())
        .schema("LlamaParts", free())
        .schema("LlamaCompletions", either([one(), list(one())]))
        .schema("LlamaPiece", either([named("LlamaCompletion"), named("LlamaParts"), named(OWN_ERROR)]))
        .schema("TokenizeCall", tokenize_call())
        .schema("DetokenizeCall", call([model(), may("tokens", list(integer_from(0)), "Ids.")]))
        .schema("TemplateCall", call([model()].into_iter().chain(conversation(limits))))
        .schema("Slot", slot())
        .schema(OWN_ERROR, error());
    endpoints(document)
}

fn endpoints(document: Document) -> Document {
    let piece = object([
        must("id", integer(), ""),
        must("piece", either([text(), list(integer())]), "A text, or bytes."),
    ]);
    document
        .endpoint(
            Endpoint::post("complete", &["/completion"])
                .says(TAG, "Continues texts")
                .reads("LlamaCall", json!({ "prompt": "The capital of Italy is", "n_predict": 4 }))
                .answers_as("The texts, or their pieces.", &stream_of("LlamaCompletions", "LlamaPiece"))
                .fails(OWN_ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("fill", &["/infill"])
                .says(TAG, "Writes what stands between two texts, by a model that was trained for it")
                .reads("InfillCall", json!({ "input_prefix": "a", "input_suffix": "b", "n_predict": 4 }))
                .answers_as("The texts, or their pieces.", &stream_of("LlamaCompletions", "LlamaPiece"))
                .fails(OWN_ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("embed", &["/embedding"])
                .says(TAG, "Computes embeddings, of Euclidean length 1")
                .reads("LlamaEmbeddingCall", json!({ "content": ["a b", "c"] }))
                .answers("An embedding of each text.", list(embedding()))
                .fails(OWN_ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("tokenize", &["/tokenize"])
                .says(TAG, "Splits a text into tokens")
                .reads("TokenizeCall", json!({ "content": "Hi" }))
                .answers("Ids, or objects.", object([must("tokens", list(either([integer(), piece])), "")]))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("detokenize", &["/detokenize"])
                .says(TAG, "Joins tokens to a text")
                .reads("DetokenizeCall", json!({ "tokens": [1, 2] }))
                .answers("The text.", object([must("content", text(), "")]))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("render", &["/apply-template"])
                .says(TAG, "Renders a conversation with the chat template")
                .reads("TemplateCall", json!({ "messages": [{ "role": "user", "content": "Hi" }] }))
                .answers("The prompt.", object([must("prompt", text(), "")]))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::get("props", &["/props"])
                .says(TAG, "Tells of the first model")
                .answers("Its properties.", props())
                .fails(ERROR, &[400, 401, 403, 503]),
        )
        .endpoint(
            Endpoint::get("slots", &["/slots"])
                .says(TAG, "Tells how many requests run, with `--slots`")
                .asks("fail_on_no_slot", ParameterIn::Query, "Answer 503 if no place is free.")
                .answers("Places of requests.", list(named("Slot")))
                .fails(OWN_ERROR, &[400, 401, 403, 501, 503]),
        )
}

/// `prompt` are the fields that the prompt is made of.
fn completion_call(prompt: impl IntoIterator<Item = Field>) -> Schema {
    let own = [
        model(),
        stream(),
        may(
            "n_probs",
            integer_within(0, MAX_PROBS),
            "Return probabilities, and those of so many most likely tokens.",
        ),
        may("return_tokens", flag(), "Return the ids of the tokens."),
        may("post_sampling_probs", flag(), "Probabilities are those of the draws, after all samplers."),
        may(
            "response_fields",
            list_within(0, MAX_FIELDS, text()),
            "Only these parts, such as `timings/predicted_ms`.",
        ),
        may("timings_per_token", flag(), "Pieces have times."),
        progress(),
    ];
    let fields = prompt.into_iter().chain(own).chain(parameters()).chain(constraints());
    call(fields.chain(refused(REFUSED)).chain(ignored(HARMLESS)).chain(harmless()))
}

fn infill_fields() -> [Field; 4] {
    let file = object([may("filename", text(), ""), must("text", text(), "")]);
    [
        must("input_prefix", text(), "What stands before the gap."),
        must("input_suffix", text(), "What stands after it."),
        may("prompt", text(), "What the gap begins with."),
        may("input_extra", list_within(0, MAX_FILES, file), "Other files."),
    ]
}

fn embedding_call() -> Schema {
    let input = || either([text(), list(integer_from(0)), list(text()), list(list(integer_from(0)))]);
    call([
        model(),
        may("content", input(), "Texts, or their token ids."),
        may("input", input(), "The same as `content`."),
        may("embd_normalize", integer_within(2, 2), "Embeddings have the Euclidean length 1."),
    ])
}

fn embedding() -> Schema {
    object([
        must("index", integer(), "Of the text."),
        must("embedding", list(list(number())), "One, in a list."),
    ])
}

fn tokenize_call() -> Schema {
    call([
        model(),
        may("content", text(), "The text."),
        may("add_special", flag(), "Begin and end it as a prompt."),
        may("parse_special", flag(), "Read special tokens in the text."),
        may("with_pieces", flag(), "Return the text of each token."),
    ])
}

fn completion() -> Schema {
    object([
        must("index", integer(), "Of the answer."),
        must("content", text(), ""),
        must("tokens", list(integer()), ""),
        must("stop", flag(), "Whether it is the last piece."),
        may("completion_probabilities", list(named("TokenLogprobs")), ""),
        may("stop_type", words(&["eos", "limit", "word"]), ""),
        may("stopping_word", text(), ""),
        may("model", text(), ""),
        may("prompt", nullable(text()), "As the model read it."),
        may("has_new_line", flag(), ""),
        may("truncated", flag(), "Whether the context was full; a prompt is never cut."),
        may("tokens_predicted", integer(), ""),
        may("tokens_evaluated", integer(), ""),
        may("tokens_cached", integer(), ""),
        may("generation_settings", free(), ""),
        may("prompt_progress", free(), "Of a stream, with `return_progress`."),
        may("timings", named("Timings"), ""),
    ])
}

fn props() -> Schema {
    object([
        must("model_alias", text(), ""),
        must("is_sleeping", flag(), "Whether it is not loaded; then the rest is not known."),
        may("default_generation_settings", free(), ""),
        may("total_slots", integer(), "Requests that are computed together."),
        may("n_ctx", integer(), ""),
        may("model_path", nullable(text()), "The name of the file."),
        may("chat_template", nullable(text()), ""),
        may("bos_token", text(), ""),
        may("eos_token", text(), ""),
        must("modalities", free(), ""),
        must("build_info", text(), ""),
    ])
}

fn slot() -> Schema {
    object([
        must("id", integer(), ""),
        must("n_ctx", integer(), ""),
        must("speculative", flag(), ""),
        must("is_processing", flag(), ""),
    ])
}

fn error() -> Schema {
    let error = object([
        must("code", integer(), "The status."),
        must("message", text(), "What was found, and what to do."),
        must("type", text(), ""),
        must("param", nullable(text()), "The field of the call."),
        may("n_prompt_tokens", integer(), "Of a prompt that is too long."),
        may("n_ctx", integer(), "Tokens that fit."),
    ]);
    object([must("error", error, "")])
}
