//! Valid files with an invalid tokenizer.

use super::llama::{Llama, VOCABULARY};
use super::raw::{array, id, le, string};
use super::{Malformed, Stage};

const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";

fn case(name: &'static str, model: Llama, expect: &'static [&'static str]) -> Malformed {
    Malformed { name, bytes: model.bytes(), stage: Stage::Tokenizer, expect }
}

/// The base model with one key changed.
fn with(key: &str, id: u32, value: Vec<u8>) -> Llama {
    Llama::new().set(key, id, value)
}

/// The base model with a byte-level BPE tokenizer: the same tokens, with these merges.
fn bpe(merges: &[&str]) -> Llama {
    Llama::new()
        .without(SCORES)
        .set("tokenizer.ggml.model", id::STRING, string("gpt2"))
        .set("tokenizer.ggml.pre", id::STRING, string("llama-bpe"))
        .set(MERGES, id::ARRAY, strings(merges))
}

fn strings(texts: &[&str]) -> Vec<u8> {
    array(id::STRING, &texts.iter().map(string).collect::<Vec<_>>())
}

fn f32s(count: u64, value: f32) -> Vec<u8> {
    array(id::F32, &vec![le(value); count as usize])
}

fn i32s(count: u64, value: i32) -> Vec<u8> {
    array(id::I32, &vec![le(value); count as usize])
}

pub(super) fn cases() -> Vec<Malformed> {
    vec![
        case("no tokenizer model", Llama::new().without("tokenizer.ggml.model"), &["tokenizer.ggml.model"]),
        case(
            "unknown tokenizer model",
            with("tokenizer.ggml.model", id::STRING, string("abacus")),
            &["tokenizer.ggml.model", "abacus"],
        ),
        case(
            "tokenizer model as number",
            with("tokenizer.ggml.model", id::U32, le(1u32)),
            &["tokenizer.ggml.model", "u32 1"],
        ),
        case("no tokens", Llama::new().without(TOKENS), &[TOKENS]),
        case("empty list of tokens", with(TOKENS, id::ARRAY, strings(&[])), &[TOKENS]),
        case(
            "tokens as numbers",
            with(TOKENS, id::ARRAY, i32s(VOCABULARY, 1)),
            &[TOKENS, "array of 264 i32"],
        ),
        case("tokens as one string", with(TOKENS, id::STRING, string("a b")), &[TOKENS, "string"]),
        case(
            "one score too few",
            with(SCORES, id::ARRAY, f32s(VOCABULARY - 1, 0.0)),
            &[SCORES, "263", "264"],
        ),
        case(
            "one score too many",
            with(SCORES, id::ARRAY, f32s(VOCABULARY + 1, 0.0)),
            &[SCORES, "265", "264"],
        ),
        case("scores as integers", with(SCORES, id::ARRAY, i32s(VOCABULARY, 0)), &[SCORES, "i32"]),
        case("scores not numbers", with(SCORES, id::ARRAY, f32s(VOCABULARY, f32::NAN)), &[SCORES]),
        case(
            "one token type too few",
            with(TYPES, id::ARRAY, i32s(VOCABULARY - 1, 1)),
            &[TYPES, "263", "264"],
        ),
        case(
            "one token type too many",
            with(TYPES, id::ARRAY, i32s(VOCABULARY + 1, 1)),
            &[TYPES, "265", "264"],
        ),
        case("token types as strings", with(TYPES, id::ARRAY, strings(&["a"; 264])), &[TYPES, "string"]),
        case(
            "EOS negative",
            with("tokenizer.ggml.eos_token_id", id::I32, le(-2i32)),
            &["tokenizer.ggml.eos_token_id", "-2"],
        ),
        case(
            "add_bos_token as string",
            with("tokenizer.ggml.add_bos_token", id::STRING, string("yes")),
            &["tokenizer.ggml.add_bos_token", "string \"yes\""],
        ),
        case(
            "add_space_prefix as number",
            with("tokenizer.ggml.add_space_prefix", id::U32, le(1u32)),
            &["tokenizer.ggml.add_space_prefix", "u32 1"],
        ),
        case("BPE without merges", bpe(&[]).without(MERGES), &[MERGES]),
        case("merges as numbers", bpe(&[]).set(MERGES, id::ARRAY, i32s(3, 1)), &[MERGES, "i32"]),
        case("merge of one part", bpe(&["a b", "ab"]), &[MERGES, "\"ab\""]),
        case(
            "unknown pre-tokenizer",
            bpe(&["a b"]).set("tokenizer.ggml.pre", id::STRING, string("nonsense")),
            &["tokenizer.ggml.pre", "nonsense"],
        ),
        case(
            "pre-tokenizer as number",
            bpe(&["a b"]).set("tokenizer.ggml.pre", id::U32, le(3u32)),
            &["tokenizer.ggml.pre", "u32 3"],
        ),
    ]
    .into_iter()
    .chain(hostile())
    .collect()
}

/// What would take time, memory or a terminal.
fn hostile() -> Vec<Malformed> {
    let long = || string("\u{1b}[2J".repeat(250_000));
    // The counter comes first: the texts share no beginnings.
    let different = (0..50_000).map(|i| format!("{i:05}").chars().rev().collect::<String>());
    vec![
        case(
            "user-defined token of 20,000 equal bytes",
            Llama::new().user_defined(["x".repeat(20_000)]),
            &[TOKENS, "token 259", "20000"],
        ),
        case(
            "user-defined token of 1 MB",
            Llama::new().user_defined(["x".repeat(1_000_000)]),
            &[TOKENS, "token 259", "1000000"],
        ),
        case(
            "50,000 user-defined tokens of 100 bytes",
            Llama::new().user_defined(different.map(|text| text.repeat(20))),
            &[TOKENS, "user-defined"],
        ),
        case(
            "tokens of 17 MiB",
            Llama::new().user_defined((0..17).map(|_| "x".repeat(1 << 20))),
            &[TOKENS, "17827340 bytes"],
        ),
        case("tokenizer model of 1 MB", with("tokenizer.ggml.model", id::STRING, long()), &[r"\u{1b}[2J"]),
        case(
            "pre-tokenizer of 1 MB",
            bpe(&["a b"]).set("tokenizer.ggml.pre", id::STRING, long()),
            &["tokenizer.ggml.pre", r"\u{1b}[2J"],
        ),
        case("merge of 1 MB", bpe(&[&"\u{1b}[2J".repeat(250_000)]), &[MERGES, r"\u{1b}[2J"]),
    ]
}
