//! Fields that several protocols read.

use engine::{Kind, Params};

use super::schema::{
    Field, Schema, any, either, flag, free, ignored, integer, integer_between, integer_from, list,
    list_within, map, may, must, named, number_within, object, short_text, text, with_default, words,
};
use crate::config::Limits;
use crate::fields::HARMLESS;

pub(super) fn model() -> Field {
    may("model", text(), "The name of a model; without it the first one.")
}

pub(super) fn stream() -> Field {
    may("stream", flag(), "Answer as a stream.")
}

pub(super) fn harmless() -> Vec<Field> {
    ignored(HARMLESS)
}

/// The engine's parameters, each under all of its names.
fn params() -> impl Iterator<Item = Field> {
    Params::TABLE.iter().flat_map(|param| {
        let schema = with_default(param_schema(&param.kind), param.get(&Params::default()));
        let own = may(param.name, schema.clone(), &format!("{}.", param.help));
        let same = format!("The same as `{}`.", param.name);
        let others = param.aliases.iter().map(move |alias| may(alias, schema.clone(), &same));
        [own].into_iter().chain(others)
    })
}

fn param_schema(kind: &Kind) -> Schema {
    let texts = |most, bytes| either([short_text(bytes), list_within(0, most, short_text(bytes))]);
    match *kind {
        Kind::Number { min, max } => number_within(min, max),
        Kind::Integer { .. } => {
            let (min, max) = kind.bounds();
            integer_between(min.map(|bound| bound as isize), max.map(|bound| bound as isize))
        }
        Kind::Bool => flag(),
        Kind::Texts { most, bytes } | Kind::Breakers { most, bytes } => texts(most, bytes),
        Kind::Tokens { most } => list_within(0, most, integer_from(0)),
        Kind::Samplers { most } => either([text(), list_within(0, most, text())]),
        Kind::Biases { most, .. } => {
            let bias = either([number_within(-100.0, 100.0), flag()]);
            either([map(bias), list_within(0, most, list_within(2, 2, any()))])
        }
    }
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
pub(super) fn parameters() -> impl Iterator<Item = Field> {
    params().chain(queue())
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
