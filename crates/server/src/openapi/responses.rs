//! `/v1/responses`.

use serde_json::json;

use super::document::{Document, Endpoint, OF_CALLS, stream_of};
use super::fields::{constraints, harmless, model, parameters, stream};
use super::openai::ERROR;
use super::schema::{
    Field, Schema, any, call, either, flag, free, ignored, integer, integer_within, list, list_within, map,
    may, must, named, nullable, number, object, refused, text, words,
};
use crate::config::Limits;
use crate::openai::responses::{REFUSED, WITHOUT_EFFECT};

pub(super) fn add(document: Document, limits: &Limits) -> Document {
    document
        .schema("ResponseCall", response_call(limits))
        .schema("Response", response())
        .schema("ResponseEvent", event())
        .schema("ResponseItem", item())
        .endpoint(
            Endpoint::post("respond", &["/v1/responses", "/responses"])
                .says("OpenAI", "Answers a conversation, as items")
                .reads("ResponseCall", json!({ "input": "Hi", "max_output_tokens": 4 }))
                .answers_as("The response, or its events.", &stream_of("Response", "ResponseEvent"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("count", &["/v1/responses/input_tokens", "/responses/input_tokens"])
                .says("OpenAI", "Counts the tokens of what would be answered")
                .reads("ResponseCall", json!({ "input": "Hi" }))
                .answers("Their number.", named("InputTokens"))
                .fails(ERROR, OF_CALLS),
        )
}

fn response_call(limits: &Limits) -> Schema {
    let input = either([text(), list_within(1, limits.messages, free())]);
    let formats = either([
        object([must("type", words(&["text", "json_object"]), "")]),
        object([
            must("type", words(&["json_schema"]), ""),
            may("name", text(), ""),
            must("schema", any(), ""),
        ]),
    ]);
    let answer = object([
        may("format", formats, "What the answer must be."),
        may("verbosity", nullable(text()), "Repeated, and otherwise ignored."),
    ]);
    let reasoning = object([
        may("effort", nullable(text()), "For the chat template; `none` turns reasoning off."),
        may("summary", nullable(text()), "Repeated: the model's own text is returned."),
    ]);
    let included = words(&["message.output_text.logprobs", "reasoning.encrypted_content"]);
    let own = [
        must("input", input, "A text, or items: messages, calls, their results, reasoning."),
        may("instructions", text(), "A message of the system before them."),
        may("text", answer, "How the answer is written."),
        may("reasoning", reasoning, "How much the model reasons."),
        may("include", list(included), "What else is returned."),
        may("top_logprobs", integer_within(0, 20), "So many most likely tokens; needs `include`."),
        may("truncation", words(&["disabled"]), "A prompt is never cut."),
        may("n", integer_within(1, 1), "A response has one answer."),
        may("chat_template_kwargs", free(), "More variables of the chat template."),
    ];
    let repeated = [
        may("metadata", map(text()), "Repeated."),
        may("prompt_cache_key", text(), "Repeated."),
        may("safety_identifier", text(), "Repeated."),
        may("user", text(), "Repeated."),
    ];
    let fields = [model(), stream()].into_iter().chain(own).chain(tools(limits)).chain(repeated);
    let fields = fields.chain(constraints()).chain(parameters()).chain(refused(REFUSED));
    call(fields.chain(ignored(WITHOUT_EFFECT)).chain(harmless()))
}

fn tool() -> Schema {
    object([
        must("type", words(&["function"]), ""),
        must("name", text(), ""),
        may("description", nullable(text()), "For the model."),
        may("parameters", any(), "A JSON schema of the arguments."),
        may("strict", nullable(flag()), "Repeated."),
    ])
}

fn tools(limits: &Limits) -> [Field; 3] {
    let modes = || words(&["none", "auto", "required"]);
    let one = object([must("type", words(&["function"]), ""), must("name", text(), "")]);
    let some = object([
        must("type", words(&["allowed_tools"]), ""),
        must("mode", modes(), ""),
        must("tools", list(free()), "Those that the model sees."),
    ]);
    [
        may("tools", list_within(0, limits.tools, tool()), "Functions that the model may call."),
        may("tool_choice", either([modes(), one, some]), "Whether tools are called, and which."),
        may("parallel_tool_calls", flag(), "Whether an answer may have several calls."),
    ]
}

fn item() -> Schema {
    let part = object([
        must("type", words(&["output_text", "reasoning_text"]), ""),
        must("text", text(), ""),
        may("annotations", list(any()), "Always empty."),
        may("logprobs", list(named("TokenLogprobs")), ""),
    ]);
    object([
        must("type", words(&["message", "reasoning", "function_call"]), ""),
        must("id", text(), ""),
        must("status", words(&["in_progress", "completed", "incomplete"]), ""),
        may("role", words(&["assistant"]), "Of a message."),
        may("content", list(part), "Of a message, or of reasoning."),
        may("summary", list(any()), "Of reasoning; always empty."),
        may("call_id", text(), "Of a call."),
        may("name", text(), "Of a call."),
        may("arguments", text(), "Of a call: JSON."),
    ])
}

fn response() -> Schema {
    let nothing = || any();
    let details = |name: &str| object([must(name, integer(), "")]);
    let input_details =
        object([must("cached_tokens", integer(), ""), must("cache_write_tokens", integer(), "")]);
    let usage = object([
        must("input_tokens", integer(), ""),
        must("input_tokens_details", input_details, ""),
        must("output_tokens", integer(), ""),
        must("output_tokens_details", details("reasoning_tokens"), ""),
        must("total_tokens", integer(), ""),
    ]);
    let error = object([must("code", text(), ""), must("message", text(), "")]);
    object([
        must("id", text(), ""),
        must("object", words(&["response"]), ""),
        must("created_at", integer(), "Seconds since 1970."),
        must("completed_at", nullable(integer()), ""),
        must("status", words(&["in_progress", "completed", "incomplete", "failed"]), ""),
        must("incomplete_details", nullable(object([must("reason", text(), "")])), ""),
        must("error", nullable(error), ""),
        must("model", text(), ""),
        must("output", list(named("ResponseItem")), ""),
        must("usage", nullable(usage), ""),
        must("background", flag(), ""),
        must("instructions", nullable(text()), ""),
        must("max_output_tokens", nullable(integer()), ""),
        must("max_tool_calls", nothing(), ""),
        must("metadata", map(text()), ""),
        must("parallel_tool_calls", flag(), ""),
        must("previous_response_id", nothing(), ""),
        must("prompt_cache_key", nullable(text()), ""),
        must("reasoning", free(), ""),
        must("safety_identifier", nullable(text()), ""),
        must("service_tier", text(), ""),
        must("store", flag(), ""),
        must("temperature", number(), ""),
        must("text", free(), ""),
        must("tool_choice", either([text(), free()]), ""),
        must("tools", list(tool()), ""),
        must("top_logprobs", integer(), ""),
        must("top_p", number(), ""),
        must("truncation", text(), ""),
        must("user", nullable(text()), ""),
    ])
}

fn event() -> Schema {
    object([
        must("type", text(), "Such as `response.output_text.delta`."),
        must("sequence_number", integer(), ""),
        may("response", named("Response"), ""),
        may("output_index", integer(), ""),
        may("content_index", integer(), ""),
        may("item_id", text(), ""),
        may("item", named("ResponseItem"), ""),
        may("part", free(), ""),
        may("delta", text(), ""),
        may("text", text(), ""),
        may("name", text(), ""),
        may("arguments", text(), ""),
        may("logprobs", list(named("TokenLogprobs")), ""),
    ])
}
