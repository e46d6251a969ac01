//! Valid files with an invalid tokenizer.

use super::llama::{Llama, VOCABULARY};
use super::raw::Value;
use super::{Malformed, Stage, refused};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";

/// The base model with one key changed.
fn with(key: &str, value: impl Into<Value>) -> Llama {
    Llama::new().set(key, value)
}

/// The base model with a byte-level BPE tokenizer: the same tokens, with these merges.
fn bpe(merges: &[&str]) -> Llama {
    let model = Llama::new().without(SCORES).set(MODEL, "gpt2").set(PRE, "llama-bpe");
    model.set(MERGES, merges.to_vec())
}

pub(super) fn cases() -> Vec<Malformed> {
    let f32s = |count: u64, value: f32| vec![value; count as usize];
    let i32s = |count: u64, value: i32| vec![value; count as usize];
    let pre = |value: &str| bpe(&["a b"]).set(PRE, value);
    let cases = [
        ("no tokenizer model", Llama::new().without(MODEL), &[MODEL][..]),
        ("unknown tokenizer model", with(MODEL, "abacus"), &[MODEL, "abacus"]),
        ("tokenizer model as number", with(MODEL, 1u32), &[MODEL, "u32 1"]),
        ("no tokens", Llama::new().without(TOKENS), &[TOKENS]),
        ("empty list of tokens", with(TOKENS, Vec::<&str>::new()), &[TOKENS]),
        ("tokens as numbers", with(TOKENS, i32s(VOCABULARY, 1)), &[TOKENS, "array of 264 i32"]),
        ("tokens as one string", with(TOKENS, "a b"), &[TOKENS, "string"]),
        ("one score too few", with(SCORES, f32s(VOCABULARY - 1, 0.0)), &[SCORES, "263", "264"]),
        ("one score too many", with(SCORES, f32s(VOCABULARY + 1, 0.0)), &[SCORES, "265", "264"]),
        ("scores as integers", with(SCORES, i32s(VOCABULARY, 0)), &[SCORES, "i32"]),
        ("scores not numbers", with(SCORES, f32s(VOCABULARY, f32::NAN)), &[SCORES]),
        ("one token type too few", with(TYPES, i32s(VOCABULARY - 1, 1)), &[TYPES, "263", "264"]),
        ("one token type too many", with(TYPES, i32s(VOCABULARY + 1, 1)), &[TYPES, "265", "264"]),
        ("token types as strings", with(TYPES, vec!["a"; 264]), &[TYPES, "string"]),
        ("EOS negative", with(EOS, -2i32), &[EOS, "-2"]),
        ("add_bos_token as string", with(ADD_BOS, "yes"), &[ADD_BOS, "string \"yes\""]),
        ("add_space_prefix as number", with(ADD_SPACE, 1u32), &[ADD_SPACE, "u32 1"]),
        ("BPE without merges", bpe(&[]).without(MERGES), &[MERGES]),
        ("merges as numbers", bpe(&[]).set(MERGES, i32s(3, 1)), &[MERGES, "i32"]),
        ("merge of one part", bpe(&["a b", "ab"]), &[MERGES, "\"ab\""]),
        ("unknown pre-tokenizer", pre("nonsense"), &[PRE, "nonsense"]),
        ("pre-tokenizer as number", bpe(&["a b"]).set(PRE, 3u32), &[PRE, "u32 3"]),
    ];
    // Files that would cost time or memory, or reach a terminal.
    let escapes = &*"\u{1b}[2J".repeat(250_000);
    // The counter comes first: no two texts share a beginning.
    let different = |i| format!("{i:05}").chars().rev().collect::<String>().repeat(20);
    let user = |texts: Vec<String>| Llama::new().user_defined(&texts);
    let hostile = [
        (
            "20,000 equal bytes in a token",
            user(vec!["x".repeat(20_000)]),
            &[TOKENS, "token 259", "20000"][..],
        ),
        ("user-defined token of 1 MB", user(vec!["x".repeat(1_000_000)]), &[TOKENS, "token 259", "1000000"]),
        ("50,000 tokens of 100 bytes", user((0..50_000).map(different).collect()), &[TOKENS, "user-defined"]),
        ("tokens of 17 MiB", user(vec!["x".repeat(1 << 20); 17]), &[TOKENS, "17827340 bytes"]),
        ("tokenizer model of 1 MB", with(MODEL, escapes), &[r"\u{1b}[2J"]),
        ("pre-tokenizer of 1 MB", pre(escapes), &[PRE, r"\u{1b}[2J"]),
        ("merge of 1 MB", bpe(&[escapes]), &[MERGES, r"\u{1b}[2J"]),
    ];
    [refused(Stage::Tokenizer, "", cases), refused(Stage::Tokenizer, "", hostile)].concat()
}
