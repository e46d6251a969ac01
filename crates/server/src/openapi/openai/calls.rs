//! What the endpoints read.

use crate::config::Limits;
use crate::embedding::MAX_TEXTS;
use crate::openai::{MAX_DOCUMENTS, REFUSED_BY_CHATS, REFUSED_BY_COMPLETIONS};
use crate::openapi::fields::{constraints, conversation, harmless, model, parameters, progress, stream};
use crate::openapi::schema::{
    Field, Schema, call, either, flag, integer_from, integer_within, list, list_within, may, must, object,
    refused, text, words,
};
use crate::prompts::MAX_PROMPTS;

/// `stream`, and whether it ends with counts of tokens.
fn streams() -> [Field; 2] {
    let options = object([may("include_usage", flag(), "End with the counts of tokens.")]);
    [stream(), may("stream_options", options, "How the stream is written.")]
}

pub(super) fn chat_call(limits: &Limits) -> Schema {
    let own = [
        may("logprobs", flag(), "Return the log-probability of each token."),
        may("top_logprobs", integer_within(0, 20), "And of so many most likely tokens; needs `logprobs`."),
        may("timings_per_token", flag(), "Return times, as llama-server does."),
        may("modalities", list(words(&["text"])), "This server writes text only."),
        may("verbose", flag(), "Show the prompt in `__verbose`, as llama-server does."),
        progress(),
    ];
    let fields = [model()].into_iter().chain(conversation(limits)).chain(streams()).chain(own);
    call(fields.chain(parameters()).chain(refused(REFUSED_BY_CHATS)).chain(harmless()))
}

pub(super) fn completion_call() -> Schema {
    let own = [
        must("prompt", prompts(), "One prompt or several."),
        may("echo", flag(), "Texts begin with their prompts."),
        may(
            "logprobs",
            integer_within(0, 5),
            "Return log-probabilities, and those of so many most likely tokens.",
        ),
        may("best_of", integer_from(1), "Only the number that `n` is."),
        progress(),
    ];
    let fields = [model()].into_iter().chain(own).chain(streams()).chain(parameters());
    call(fields.chain(constraints()).chain(refused(REFUSED_BY_COMPLETIONS)).chain(harmless()))
}

/// Prompts: texts, token ids, and mixtures.
pub(in crate::openapi) fn prompts() -> Schema {
    let piece = || either([text(), integer_from(0)]);
    let several = list_within(1, MAX_PROMPTS, either([text(), list(piece())]));
    either([text(), several, list_within(1, usize::MAX >> 1, piece())])
}

pub(super) fn embedding_call() -> Schema {
    let ids = || list(integer_from(0));
    let input = either([text(), ids(), list_within(0, MAX_TEXTS, text()), list_within(0, MAX_TEXTS, ids())]);
    let own = [
        must("input", input, "Texts, or their token ids."),
        may("encoding_format", words(&["float", "base64"]), "`base64` is of float32, little-endian."),
        may("dimensions", integer_from(0), "Only the number that the model has."),
    ];
    call([model()].into_iter().chain(own).chain(harmless()))
}

pub(super) fn rank_call() -> Schema {
    let document = || either([text(), object([must("text", text(), "")])]);
    let own = [
        must("query", text(), "What is looked for."),
        may("documents", list_within(1, MAX_DOCUMENTS, document()), "What is scored."),
        may(
            "texts",
            list_within(1, MAX_DOCUMENTS, document()),
            "The same; answers are in Hugging Face's shape.",
        ),
        may("top_n", integer_from(1), "Return so many of them."),
        may("return_documents", flag(), "Return their texts."),
        may("return_text", flag(), "The same of `texts`."),
    ];
    call([model()].into_iter().chain(own).chain(harmless()))
}
