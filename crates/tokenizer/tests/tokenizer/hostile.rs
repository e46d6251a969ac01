//! Vocabularies made to take time or memory, and values made to flood a terminal.

use std::time::{Duration, Instant};

use gguf::{Array, Metadata, Value};
use tokenizer::{Encode, Error, Tokenizer};

use crate::made::{CONTROL, NORMAL, USER_DEFINED, bpe, pieces, spm};

const PARSE: Encode = Encode { add_special: false, parse_special: true };

/// Loads the tokenizer. This must take less than 10 s, ten times what it takes on a busy machine.
fn load(metadata: &Metadata) -> Result<Tokenizer, Error> {
    let started = Instant::now();
    let loaded = Tokenizer::from_metadata(metadata);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    loaded
}

fn with_tokens(texts: &[String], kind: i32) -> Metadata {
    spm(&texts.iter().map(|text| (text.as_str(), 0.0, kind)).collect::<Vec<_>>())
}

fn numbered(count: usize, length: usize) -> Vec<String> {
    (0..count).map(|i| format!("{i:0length$}").chars().rev().collect()).collect()
}

#[test]
fn tokens_too_long_or_too_many_to_search_for_are_refused() {
    for kind in [CONTROL, USER_DEFINED] {
        let error = load(&with_tokens(&["x".repeat(1025)], kind)).expect_err("too long").to_string();
        for part in ["token 259", "`tokenizer.ggml.tokens`", "1025 bytes", "1024"] {
            assert!(error.contains(part), "{error}");
        }
        let error = load(&with_tokens(&numbered(6_000, 100), kind)).expect_err("too many").to_string();
        assert!(error.contains("`tokenizer.ggml.tokens`") && error.contains("524288"), "{error}");
    }
    // Tokens that only merging makes are not searched for.
    assert!(load(&with_tokens(&["x".repeat(1025)], NORMAL)).is_ok());
    assert!(load(&with_tokens(&numbered(6_000, 100), NORMAL)).is_ok());
}

#[test]
fn what_is_not_refused_is_searched_for_in_linear_time() {
    // Every suffix of a text like these begins a token, and every failure leads to the next.
    let nested: Vec<String> = (1..=1024).map(|length| "x".repeat(length)).collect();
    let apart: Vec<String> = ('a'..='w').map(|first| format!("{first}{}", "x".repeat(1023))).collect();
    let many: Vec<String> = (0..65_536).map(|i| format!("<|s_{i}|>")).collect();
    for tokens in [nested, apart, many, vec!["<|same|>".to_owned(); 300_000]] {
        let tokenizer = load(&with_tokens(&tokens, USER_DEFINED)).expect("a good tokenizer");
        let last = tokens.last().expect("a token");
        let id = u32::try_from(tokenizer.vocab_size() - 1).expect("an id");
        assert_eq!(tokenizer.encode(last, PARSE), [id]);
        let started = Instant::now();
        tokenizer.encode(&format!("{}y", "x".repeat(1000)).repeat(200), PARSE);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
}

#[test]
fn special_tokens_are_listed_once_each() {
    let texts = ["<|a|>", "<|b|>", "<|a|>"].map(str::to_owned);
    let tokenizer = load(&with_tokens(&texts, CONTROL)).expect("a good tokenizer");
    let listed: Vec<_> = tokenizer.special_tokens().skip_while(|&(id, _)| id < 259).collect();
    assert_eq!(listed, [(260, "<|b|>"), (261, "<|a|>")]);
}

#[test]
fn arrays_beyond_any_real_tokenizer_are_refused() {
    let strings = |count, text: &str| Value::Array(Array::String(vec![text.to_owned(); count]));
    for (mut metadata, key, value, found) in [
        (spm(&[]), "tokenizer.ggml.tokens", strings(1 << 21, ""), "2097152 strings"),
        (spm(&[]), "tokenizer.ggml.tokens", strings(17, &"x".repeat(1 << 20)), "17825792 bytes"),
        (bpe("gpt-2", &[], &[]), "tokenizer.ggml.merges", strings(1 << 21, "a b"), "2097152 strings"),
    ] {
        metadata.insert(key, value);
        let error = load(&metadata).expect_err("too large").to_string();
        assert!(error.contains(&format!("`{key}` has {found}")), "{error}");
    }
}

#[test]
fn a_message_holds_no_more_of_the_file_than_a_line_can() {
    let long = format!("\u{1b}[31m{}", "B".repeat(1 << 20));
    let text = || Value::String(long.clone());
    let merges = Value::Array(Array::String(vec![long.clone()]));
    for (mut metadata, key, value, most) in [
        (spm(&[]), "tokenizer.ggml.model", text(), 400),
        // All names that are known.
        (bpe("gpt-2", &[], &[]), "tokenizer.ggml.pre", text(), 1500),
        (bpe("gpt-2", &[], &[]), "tokenizer.ggml.merges", merges, 400),
    ] {
        metadata.insert(key, value);
        let error = load(&metadata).expect_err("it is wrong").to_string();
        assert!(error.contains(key) && error.contains("[31mBBB"), "{error}");
        assert!(error.len() < most && !error.contains(char::is_control), "{} bytes", error.len());
    }
}

/// Text that keeps every token possible until its last byte.
#[test]
fn long_tokens_take_no_time_to_speak_of() {
    let texts: Vec<String> = (1..=1024).map(|length| "x".repeat(length)).collect();
    let tokens: Vec<_> = texts.iter().map(|text| (text.as_str(), -1.0, NORMAL)).collect();
    for model in ["bert", "t5"] {
        let tokenizer = load(&pieces(model, &tokens)).expect("a good tokenizer");
        let started = Instant::now();
        tokenizer.encode(&format!("{}y", "x".repeat(1000)).repeat(50), PARSE);
        tokenizer.encode(&"y".repeat(1 << 20), PARSE);
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let long = "x".repeat(1025);
        let error = load(&pieces(model, &[(&long, 0.0, NORMAL)])).expect_err("too long").to_string();
        assert!(error.contains("token 3") && error.contains("1025 bytes"), "{error}");
    }
}
