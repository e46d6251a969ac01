//! What the endpoints answer.

use super::ERROR;
use crate::openapi::schema::{
    Field, Schema, any, either, free, integer, integer_within, list, map, may, must, named, nullable, number,
    object, text, words,
};

/// Who answers, and when.
fn head(kind: &str) -> [Field; 5] {
    [
        must("id", text(), ""),
        must("object", words(&[kind]), ""),
        must("created", integer(), "Seconds since 1970."),
        must("system_fingerprint", text(), "As long as it stays the same, so does the answer of a seed."),
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

pub(super) fn chat() -> Schema {
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
        may("__verbose", object([must("prompt", text(), "")]), "With `verbose`."),
    ];
    object(head("chat.completion").into_iter().chain(own))
}

pub(super) fn chunk() -> Schema {
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
        may("prompt_progress", free(), "With `return_progress`."),
        may("timings", named("Timings"), "With `timings_per_token`."),
        may("__verbose", object([must("prompt", text(), "")]), "With `verbose`."),
    ];
    either([object(head("chat.completion.chunk").into_iter().chain(own)), named(ERROR)])
}

pub(super) fn completion() -> Schema {
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
    let own = [
        must("choices", list(choice), ""),
        may("usage", named("Usage"), "Of a stream, if asked for."),
        may("prompt_progress", free(), "Of a stream, with `return_progress`."),
    ];
    object(head("text_completion").into_iter().chain(own))
}

/// Tokens of a call that generates none.
fn prompt_usage() -> Schema {
    object([must("prompt_tokens", integer(), ""), must("total_tokens", integer(), "")])
}

pub(super) fn embeddings() -> Schema {
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

pub(super) fn ranking() -> Schema {
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

pub(super) fn scored_text() -> Schema {
    object([
        must("index", integer(), "Of the text in the call."),
        must("score", number(), "The model's own figure."),
        may("text", text(), ""),
    ])
}

pub(super) fn input_tokens() -> Schema {
    object([
        must("object", words(&["response.input_tokens"]), ""),
        must("input_tokens", integer(), "Tokens of the prompt."),
    ])
}

pub(super) fn described_model() -> Schema {
    let state = words(&["loaded", "unloaded"]);
    object([
        must("id", text(), ""),
        must("object", words(&["model"]), ""),
        must("created", integer(), "When the server was started, in seconds since 1970."),
        must("owned_by", text(), ""),
        must("aliases", list(text()), "Other names of the first model."),
        must("status", object([must("value", state, "")]), ""),
        may("max_model_len", integer(), "Tokens of the context."),
        may("meta", free(), "Figures of a loaded model."),
    ])
}

pub(super) fn usage() -> Schema {
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

pub(super) fn token_logprobs() -> Schema {
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

pub(super) fn timings() -> Schema {
    let figures = ["predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second"];
    let of_prompt = ["cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second"];
    let figures = figures.into_iter().map(|name| must(name, number(), ""));
    object(figures.chain(of_prompt.into_iter().map(|name| may(name, number(), ""))))
}

pub(super) fn error() -> Schema {
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
