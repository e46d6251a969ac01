//! Fields that several protocols read.

use super::schema::{
    Field, any, either, flag, free, ignored, integer, integer_from, integer_within, list, list_within, map,
    may, must, named, number, number_within, object, short_text, text, words,
};
use crate::config::Limits;
use crate::fields::HARMLESS;
use crate::samplers::MAX_SAMPLERS;

pub(super) fn model() -> Field {
    may("model", text(), "The name of a model; without it the first one.")
}

pub(super) fn stream() -> Field {
    may("stream", flag(), "Answer as a stream.")
}

pub(super) fn harmless() -> Vec<Field> {
    ignored(HARMLESS)
}

/// How tokens are chosen.
pub(super) fn sampling(limits: &Limits) -> Vec<Field> {
    let share = || number_within(0.0, 1.0);
    let penalty = || number_within(-2.0, 2.0);
    let factor = || number_within(0.01, 100.0);
    let many = || number_within(0.0, 100.0);
    let biases = either([
        map(either([number_within(-100.0, 100.0), flag()])),
        list_within(0, limits.biases, list_within(2, 2, any())),
    ]);
    vec![
        may("temperature", many(), "0 takes the most likely token."),
        may("dynatemp_range", many(), "The temperature varies by so much with the entropy."),
        may("dynatemp_exponent", number(), "How the temperature follows the entropy."),
        may("top_k", integer_from(-1), "Only the `top_k` most likely tokens; 0 and -1 are all."),
        may("top_p", share(), "Only the most likely tokens that have this probability together."),
        may("min_p", share(), "Only tokens at least this probable, as a share of the most likely one."),
        may("typical_p", share(), "Locally typical sampling."),
        may("top_n_sigma", number(), "Only tokens within so many standard deviations of the largest logit."),
        may("xtc_probability", share(), "How often XTC removes the most likely tokens."),
        may("xtc_threshold", share(), "The probability above which XTC removes tokens."),
        may(
            "frequency_penalty",
            penalty(),
            "Subtracted from a token's logit each time that it has occurred.",
        ),
        may("presence_penalty", penalty(), "Subtracted from the logit of a token that has occurred."),
        may("repeat_penalty", factor(), "Divides the logit of a token that has occurred."),
        may("repetition_penalty", factor(), "The same as `repeat_penalty`."),
        may("repeat_last_n", integer_from(-1), "The tokens in which penalties look; -1 is the context."),
        may("dry_multiplier", many(), "The strength of DRY, a penalty of repeated sequences."),
        may("dry_base", number_within(1.0, 100.0), "The base of DRY's exponent."),
        may("dry_allowed_length", integer_from(0), "Longer repetitions are penalised."),
        may("dry_penalty_last_n", integer_from(-1), "The tokens in which DRY looks; -1 is the context."),
        may(
            "dry_sequence_breakers",
            list_within(0, limits.stops, short_text(limits.stop_bytes)),
            "Sequences do not continue across these texts.",
        ),
        may("mirostat", integer_within(0, 2), "The version of Mirostat; 0 is none."),
        may("mirostat_tau", many(), "Mirostat's target of surprise."),
        may("mirostat_eta", many(), "Mirostat's learning rate."),
        may(
            "samplers",
            either([short_text(MAX_SAMPLERS), list_within(0, MAX_SAMPLERS, text())]),
            "The order of samplers: names, or a text of letters.",
        ),
        may("seed", integer(), "Makes the draws repeatable; -1 is a random one."),
        may(
            "logit_bias",
            biases,
            "Added to the logits of tokens, by their ids; -100 or `false` rules a token out.",
        ),
    ]
}

/// When an answer ends; its stop strings are in the field `name`.
pub(super) fn stop(name: &str, limits: &Limits) -> Vec<Field> {
    let string = || short_text(limits.stop_bytes);
    let strings = either([string(), list_within(0, limits.stops, string())]);
    vec![
        may(name, strings, "Texts before which an answer ends."),
        may(
            "stop_token_ids",
            list_within(0, limits.stops, integer_from(0)),
            "Tokens before which an answer ends.",
        ),
        may("ignore_eos", flag(), "The model's end of an answer does not end it."),
        may(
            "min_tokens",
            integer_from(0),
            "Tokens before any end, unless a grammar leaves nothing else; stop strings count after them.",
        ),
    ]
}

/// What concerns the request among others.
pub(super) fn queue() -> Vec<Field> {
    vec![
        may("priority", integer(), "Of a client's requests, lower ones start first."),
        may("cache_salt", text(), "Only requests with the same salt share the prefix cache."),
        may("t_max_predict_ms", integer(), "Milliseconds after the first token, at most; 0 is any number."),
    ]
}

/// The fields that all protocols of text read.
pub(super) fn common(name: &str, limits: &Limits) -> Vec<Field> {
    [sampling(limits), stop(name, limits), queue()].into_iter().flatten().collect()
}

/// The same with the number of tokens and of answers, as OpenAI's protocols have them.
pub(super) fn parameters(limits: &Limits) -> Vec<Field> {
    let own = [
        may("max_tokens", integer_from(0), "Tokens of an answer, at most."),
        may("max_completion_tokens", integer_from(0), "The newer name of `max_tokens`."),
        may("n", integer_within(1, limits.choices), "The number of answers."),
    ];
    own.into_iter().chain(common("stop", limits)).collect()
}

pub(super) fn progress() -> Field {
    may("return_progress", flag(), "Events of a stream tell how far the prompt is.")
}

/// What an answer must be; one of them.
pub(super) fn constraints() -> Vec<Field> {
    vec![
        may("json_schema", any(), "The answer is JSON with this schema."),
        may("grammar", text(), "The answer follows this grammar (GBNF)."),
        may("guided_regex", text(), "The answer matches this regular expression."),
    ]
}

/// Tools, in the shape of chat completions.
pub(super) fn tools(limits: &Limits) -> Vec<Field> {
    let function = object([must("name", text(), "")]);
    let named_choice =
        object([may("type", words(&["function"]), ""), must("function", function, "The function to call.")]);
    vec![
        may("tools", list_within(0, limits.tools, named("Tool")), "Functions that the model may call."),
        may(
            "tool_choice",
            either([words(&["none", "auto", "required"]), named_choice]),
            "Whether tools are called, and which.",
        ),
        may("parallel_tool_calls", flag(), "Whether an answer may have several calls."),
    ]
}

/// A conversation in OpenAI's shape.
pub(super) fn conversation(limits: &Limits) -> Vec<Field> {
    let schema = object([may("name", text(), ""), must("schema", any(), "A JSON schema.")]);
    let format = either([
        object([must("type", words(&["text"]), "")]),
        object([must("type", words(&["json_object"]), ""), may("schema", any(), "A JSON schema.")]),
        object([must("type", words(&["json_schema"]), ""), must("json_schema", schema, "")]),
    ]);
    let messages = list_within(1, limits.messages, named("Message"));
    let own = [
        must("messages", messages, "The conversation; a last message of the assistant is continued."),
        may("reasoning_effort", text(), "For the chat template; `none` turns reasoning off."),
        may("chat_template_kwargs", free(), "More variables of the chat template."),
        may("add_generation_prompt", flag(), "Whether the prompt ends with the beginning of an answer."),
        may("continue_final_message", flag(), "Whether the last message is continued."),
        may("response_format", format, "What the answer must be."),
    ];
    own.into_iter().chain(tools(limits)).chain(constraints()).collect()
}

/// A message in OpenAI's shape, and what it is made of.
pub(super) fn message() -> Vec<Field> {
    let part =
        object([must("type", words(&["text"]), "This server takes text only."), must("text", text(), "")]);
    vec![
        must(
            "role",
            text(),
            "`system`, `developer`, `user`, `assistant`, `tool`, or another that the template knows.",
        ),
        may("content", super::schema::nullable(either([text(), list(part)])), "What is said."),
        may(
            "reasoning_content",
            super::schema::nullable(text()),
            "What the model thought before it answered.",
        ),
        may(
            "tool_calls",
            super::schema::nullable(list(named("ToolCall"))),
            "The calls that an answer makes.",
        ),
        may("tool_call_id", super::schema::nullable(text()), "The call whose result this is."),
        may("name", super::schema::nullable(text()), "Who speaks, or the tool."),
    ]
}
