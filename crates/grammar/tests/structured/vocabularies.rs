//! Vocabularies of every kind.

use std::collections::BTreeSet;

use gguf::{Array, Metadata, Value};
use grammar::{Source, Vocabulary, VocabularyError};
use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use tokenizer::Tokenizer;

use crate::common::{Bench, KINDS, Walk};

#[test]
fn every_kind_of_vocabulary_writes_json() {
    // WordPiece has tokens for "{" after a space only.
    for name in KINDS.into_iter().filter(|name| !name.contains("bert")) {
        let bench = Bench::new(name);
        let texts =
            ["{\"a\":[1,2]}", "{\"a\":[]}", "{\"a\":[1,]}", "{\"b\":[]}", "{\"a\":[", "[]", " {\"a\":[]}"];
        let schema = r#"{"properties": {"a": {"items": {"type": "integer"}}}, "required": ["a"], "type": "object",
            "additionalProperties": false}"#;
        let accepted = bench.accepted(&Source::JsonSchema(schema.into()), &texts);
        assert_eq!(accepted, texts[..2], "{name}");
        let object = bench.accepted(&Source::JsonObject, &["{\"a\":[1,null]}", "[]", "{}", "{\"a\"}"]);
        assert_eq!(object, ["{\"a\":[1,null]}", "{}"], "{name}");
    }
}

/// Each token is allowed exactly where its bytes are: judged by all tokens, at every place of a text.
#[test]
fn the_allowed_tokens_are_those_whose_bytes_fit() {
    for name in KINDS {
        let bench = Bench::new(name);
        let grammar = bench.compile(&Source::Regex("(ab|a[a-c ]*é?b)1*".into())).expect("a good grammar");
        let all = dense::Config::new().match_kind(MatchKind::All);
        let full = dense::Builder::new().configure(all).build("(ab|a[a-c ]*é?b)1*").expect("the same");
        let text = "aab ca bb1";
        let mut walk = Walk::new(&grammar, &bench.tokenizer);
        let mut at = 0;
        for id in bench.vocabulary.tokenize(text.as_bytes()).expect("tokens") {
            let allowed = walk.allowed();
            for token in 0..bench.tokenizer.vocab_size() as u32 {
                if bench.tokenizer.ends_generation(token) {
                    continue;
                }
                let bytes = bench.tokenizer.token_bytes(token).expect("a token");
                let is_text =
                    bench.tokenizer.kind(token).is_some_and(|kind| !kind.is_special()) && !bytes.is_empty();
                let read = [&text.as_bytes()[..at], bytes].concat();
                let fits = is_text && may_go_on(&full, &read);
                assert_eq!(allowed.contains(&token), fits, "{name}: {:?}", String::from_utf8_lossy(&read));
            }
            at += bench.tokenizer.token_bytes(id).expect("a token").len();
            walk.push(id, true);
        }
    }
}

/// Whether some text that matches begins with `read`.
fn may_go_on(automaton: &dense::DFA<Vec<u32>>, read: &[u8]) -> bool {
    let anchored = start::Config::new().anchored(Anchored::Yes);
    let state = automaton.start_state(&anchored).expect("a state");
    let state = read.iter().fold(state, |state, byte| automaton.next_state(state, *byte));
    let (mut seen, mut next) = (BTreeSet::from([state]), vec![state]);
    while let Some(state) = next.pop() {
        // Matches are found one byte late.
        if automaton.is_match_state(automaton.next_eoi_state(state)) {
            return true;
        }
        let states = (0..=u8::MAX).map(|byte| automaton.next_state(state, byte));
        next.extend(states.filter(|state| !automaton.is_dead_state(*state) && seen.insert(*state)));
    }
    false
}

#[test]
fn a_vocabulary_that_ends_no_text_is_refused() {
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String("gpt2".into()));
    metadata.insert("tokenizer.ggml.pre", Value::String("gpt-2".into()));
    metadata.insert(
        "tokenizer.ggml.tokens",
        Value::Array(Array::String(vec!["a".into(), "b".into(), "ab".into()])),
    );
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(vec!["a b".into()])));
    let tokenizer = Tokenizer::from_metadata(&metadata).expect("a good tokenizer");
    assert_eq!(Vocabulary::new(&tokenizer).map(drop), Err(VocabularyError::NoEnd));
}
