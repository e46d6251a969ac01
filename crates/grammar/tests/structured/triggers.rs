//! Grammars that begin later.

use grammar::{Source, Trigger};

use crate::common::{Bench, Walk};

fn id(bench: &Bench, text: &str) -> u32 {
    let mut ids = 0..bench.tokenizer.vocab_size() as u32;
    ids.find(|id| bench.tokenizer.token_text(*id) == Some(text)).expect("a token")
}

#[test]
fn a_grammar_begins_after_its_trigger_and_ends() {
    let bench = Bench::new("made-bpe-gpt-2");
    let all = bench.tokenizer.vocab_size() + 3;
    let (a, b, tool) = (id(&bench, "a"), id(&bench, "b"), id(&bench, "[tool]"));
    let triggers = [Trigger::Token(tool), Trigger::Text("[tool]".into()), Trigger::Text("tool]".into())];
    for trigger in triggers {
        let grammar = bench
            .compile(&Source::Regex("ab|b".into()))
            .expect("a grammar")
            .after(&trigger)
            .expect("a trigger");
        let mut walk = Walk::new(&grammar, &bench.tokenizer);
        for turn in 0..3 {
            for (token, allowed) in [(a, all), (tool, all), (a, 3), (b, 1)] {
                let found = walk.allowed();
                assert!(
                    found.len() == allowed && found.contains(&token),
                    "{trigger:?}: {token} of {found:?}"
                );
                walk.push(token, turn != 1);
            }
        }
        assert_eq!(walk.allowed().len(), all);
    }
}

#[test]
fn tokens_that_run_past_a_trigger_are_ruled_out() {
    let bench = Bench::new("made-bpe-gpt-2");
    let all = bench.tokenizer.vocab_size() + 3;
    let token = |text: &str| id(&bench, text);
    // The trigger is found across tokens, after a false start.
    let trigger = Trigger::Text("bcabca".into());
    let grammar =
        bench.compile(&Source::Regex("1".into())).expect("a grammar").after(&trigger).expect("a trigger");
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    let ruled_out = |walk: &mut Walk| {
        let allowed = walk.allowed();
        let missing = (0..all as u32).filter(|id| !allowed.contains(id));
        missing.map(|id| bench.tokenizer.token_text(id).expect("a token").to_owned()).collect::<Vec<_>>()
    };
    assert!(ruled_out(&mut walk).is_empty());
    for text in ["bc", "abc", "x"] {
        walk.push(token(text), true);
    }
    assert!(ruled_out(&mut walk).is_empty());
    walk.push(token("abc"), true);
    assert_eq!(ruled_out(&mut walk), ["abcabc"]);
    walk.push(token("abc"), false);
    assert_eq!(ruled_out(&mut walk), ["ab", "abc", "abcabc"]);
    walk.push(token("a"), true);
    assert_eq!(walk.allowed(), bench.vocabulary.tokenize(b"1").expect("a token"));
}

#[test]
fn broken_triggers_are_refused() {
    let bench = Bench::new("made-spm");
    let grammar = bench.compile(&Source::JsonObject).expect("a grammar");
    let error = grammar.clone().after(&Trigger::Text(String::new())).expect_err("empty").to_string();
    assert_eq!(error, "the trigger of the grammar is empty; name a text");
    let error = grammar.after(&Trigger::Token(1 << 20)).expect_err("no such token").to_string();
    assert_eq!(error, "the trigger of the grammar is a token outside the vocabulary; name one of its ids");
}
