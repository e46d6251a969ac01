//! Anthropic's protocol.

use serde_json::json;

use super::document::{Document, Endpoint, OF_CALLS, stream_of};
use super::fields::{harmless, model, parameters, stream};
use super::schema::{
    Field, Schema, any, call, either, flag, free, ignored, integer, integer_from, list, list_within, may,
    must, named, nullable, number_within, object, refused, text, words,
};
use crate::anthropic::{OF_THE_ANSWER, REFUSED};
use crate::config::Limits;

const TAG: &str = "Anthropic";
pub(super) const ERROR: &str = "AnthropicError";

pub(super) fn add(document: Document, limits: &Limits) -> Document {
    let example = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 });
    let prompt = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    schemas(document, limits)
        .endpoint(
            Endpoint::post("message", &["/v1/messages"])
                .says(TAG, "Answers a conversation, as blocks")
                .reads("MessageCall", example)
                .answers_as("The message, or its events.", &stream_of("AnthropicMessage", "MessageEvent"))
                .fails(ERROR, OF_CALLS),
        )
        .endpoint(
            Endpoint::post("count", &["/v1/messages/count_tokens"])
                .says(TAG, "Counts the tokens of a prompt")
                .reads("CountCall", prompt)
                .answers("The count.", object([must("input_tokens", integer(), "")]))
                .fails(ERROR, OF_CALLS),
        )
}

fn schemas(document: Document, limits: &Limits) -> Document {
    let error =
        object([must("type", text(), ""), must("message", text(), "What was found, and what to do.")]);
    let own = [
        must("max_tokens", integer_from(1), "Tokens of the answer, at most."),
        may("temperature", number_within(0.0, 1.0), "0 takes the most likely token."),
        stream(),
    ];
    let message_call = [model()].into_iter().chain(own).chain(parameters()).chain(prompt(limits));
    let count_call = [model()].into_iter().chain(prompt(limits)).chain(ignored(OF_THE_ANSWER));
    document
        .schema("MessageCall", call(message_call))
        .schema("CountCall", call(count_call))
        .schema("AnthropicTurn", turn())
        .schema("AnthropicBlock", block())
        .schema("AnthropicMessage", message())
        .schema("MessageEvent", event())
        .schema("AnthropicUsage", usage())
        .schema("AnthropicModel", described_model())
        .schema("AnthropicModels", models())
        .schema(
            ERROR,
            object([
                must("type", words(&["error"]), ""),
                must("error", error, ""),
                must("request_id", text(), "Also in the header `request-id`."),
            ]),
        )
}

/// What a prompt is made of.
fn prompt(limits: &Limits) -> Vec<Field> {
    let tool = object([
        must("name", text(), ""),
        may("type", nullable(words(&["custom"])), ""),
        may("description", nullable(text()), "For the model."),
        must("input_schema", free(), "A JSON schema of the arguments."),
    ]);
    let choice = object([
        must("type", words(&["auto", "any", "tool", "none"]), ""),
        may("name", nullable(text()), "Of the type `tool`."),
        may("disable_parallel_tool_use", nullable(flag()), "Ignored with `auto`."),
    ]);
    let thinking = object([
        must("type", words(&["enabled", "adaptive", "disabled"]), ""),
        may("budget_tokens", nullable(integer_from(0)), "Ignored."),
        may("display", nullable(words(&["summarized", "omitted"])), "Whether the answer shows it."),
    ]);
    let format = || object([must("type", words(&["json_schema"]), ""), must("schema", any(), "")]);
    let config = object([
        may("effort", nullable(text()), "For the chat template."),
        may("format", nullable(format()), "What the answer must be."),
    ]);
    let content = either([text(), list(named("AnthropicBlock"))]);
    let edit = object([must("type", text(), "Begins with `clear_`.")]);
    let edits = object([may("edits", list(edit), "What is cleared to make room; ignored.")]);
    let own = [
        must("messages", list_within(1, limits.messages, named("AnthropicTurn")), "The conversation."),
        may("system", content, "What the model is told before."),
        may("tools", list_within(0, limits.tools, tool), "Functions that the model may call."),
        may("tool_choice", choice, "Whether tools are called, and which."),
        may("thinking", thinking, "Whether the model reasons."),
        may("output_config", config, "How the answer is written."),
        may("context_management", edits, "Edits of the conversation."),
        may("output_format", format(), "The older name of `output_config.format`."),
    ];
    own.into_iter().chain(refused(REFUSED)).chain(harmless()).collect()
}

fn turn() -> Schema {
    object([
        must("role", words(&["user", "assistant", "system"]), ""),
        must("content", either([text(), list(named("AnthropicBlock"))]), ""),
    ])
}

fn block() -> Schema {
    let kinds = ["text", "thinking", "redacted_thinking", "tool_use", "tool_result"];
    object([
        must("type", words(&kinds), ""),
        may("text", text(), "Of a text."),
        may("thinking", text(), "What the model thought."),
        may("signature", text(), "Of what it thought; always empty in answers."),
        may("id", text(), "Of a call."),
        may("name", text(), "Of a call."),
        may("input", free(), "Of a call."),
        may("tool_use_id", text(), "Of a result."),
        may("content", nullable(either([text(), list(free())])), "Of a result."),
        may("is_error", nullable(flag()), "Of a result."),
    ])
}

fn usage() -> Schema {
    object([
        must("input_tokens", integer(), "Tokens of the prompt that were computed."),
        must("cache_creation_input_tokens", integer(), ""),
        must("cache_read_input_tokens", integer(), "Tokens of the prompt that were cached."),
        must("output_tokens", integer(), ""),
        may("output_tokens_details", object([must("thinking_tokens", integer(), "")]), ""),
    ])
}

fn ends() -> [Field; 2] {
    let reasons = ["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"];
    [must("stop_reason", nullable(words(&reasons)), ""), must("stop_sequence", nullable(text()), "")]
}

fn message() -> Schema {
    let own = [
        must("id", text(), ""),
        must("type", words(&["message"]), ""),
        must("role", words(&["assistant"]), ""),
        must("model", text(), ""),
        must("content", list(named("AnthropicBlock")), ""),
        must("usage", named("AnthropicUsage"), ""),
    ];
    object(own.into_iter().chain(ends()))
}

fn event() -> Schema {
    let delta = object([
        may("type", words(&["text_delta", "input_json_delta", "thinking_delta", "signature_delta"]), ""),
        may("text", text(), ""),
        may("partial_json", text(), ""),
        may("thinking", text(), ""),
        may("signature", text(), ""),
        may("stop_reason", nullable(text()), ""),
        may("stop_sequence", nullable(text()), ""),
    ]);
    let event = object([
        must("type", text(), "`message_start`, `content_block_delta` and so on."),
        may("message", named("AnthropicMessage"), ""),
        may("index", integer(), "Of the block."),
        may("content_block", named("AnthropicBlock"), ""),
        may("delta", delta, ""),
        may("usage", named("AnthropicUsage"), ""),
    ]);
    either([event, named(ERROR)])
}

fn described_model() -> Schema {
    object([
        must("type", words(&["model"]), ""),
        must("id", text(), ""),
        must("display_name", text(), ""),
        must("created_at", text(), ""),
        must("lifecycle", text(), ""),
        must("max_input_tokens", nullable(integer()), ""),
        must("max_tokens", nullable(integer()), ""),
    ])
}

fn models() -> Schema {
    object([
        must("data", list(named("AnthropicModel")), ""),
        must("has_more", flag(), ""),
        must("first_id", nullable(text()), ""),
        must("last_id", nullable(text()), ""),
    ])
}
