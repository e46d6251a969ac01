//! Grammars of a part of an answer: what follows reasoning, and tool calls.

use engine::Processor;
use engine::template::{Enclosed, OpeningPlace, Preamble, Segment, Trigger};
use grammar::{Grammar, Source};

use crate::common::{Bench, Walk};

/// Reasoning is between a special token and a text of several tokens.
fn preamble() -> Preamble {
    let reasoning = Some(Enclosed { open: "[tool]", close: "bca" });
    Preamble { reasoning, headers: vec!["x1x"], ends: vec!["xx"], ..Preamble::default() }
}

fn id(bench: &Bench, text: &str) -> u32 {
    let mut ids = 0..bench.tokenizer.vocab_size() as u32;
    ids.find(|id| bench.tokenizer.token_text(*id) == Some(text)).expect("a token")
}

/// Whether each of the tokens may follow those before it.
fn follow(walk: &mut Walk, bench: &Bench, texts: &[&str]) -> Vec<bool> {
    let follow = |(number, text): (usize, &&str)| {
        let id = id(bench, text);
        let is_allowed = walk.allowed().contains(&id);
        walk.push(id, number % 2 == 0);
        is_allowed
    };
    texts.iter().enumerate().map(follow).collect()
}

fn of_content(bench: &Bench, prompt: &[&str]) -> Walk {
    let grammar = bench.compile(&Source::Regex("1a|b".into())).expect("a grammar");
    let mut constraint = grammar.constraint();
    constraint.expect(&preamble());
    Walk::of(constraint, prompt.iter().map(|text| id(bench, text)).collect(), &bench.tokenizer)
}

#[test]
fn a_grammar_of_the_content_begins_after_reasoning() {
    let bench = Bench::new("made-bpe-gpt-2");
    let (all, a) = (bench.tokenizer.vocab_size() + 3, id(&bench, "a"));
    // Not in the prompt, in the prompt, and over in the prompt.
    for prompt in [&["a"][..], &["a", "[tool]"], &["a", "[tool]", "bc", "a"]] {
        let mut walk = of_content(&bench, prompt);
        let mut part: Vec<&str> = vec!["[tool]", "b", "1", "bc", "a"];
        part.drain(..prompt.len() - 1);
        if prompt.len() == 4 {
            part.clear();
        }
        assert!(follow(&mut walk, &bench, &part).into_iter().all(|allowed| allowed), "{prompt:?}");
        assert!(!walk.allowed().contains(&a) && !walk.may_end(), "{prompt:?}: the content must begin");
        assert_eq!(follow(&mut walk, &bench, &["1", "a"]), [true, true], "{prompt:?}");
        let is_end = |id: &u32| bench.tokenizer.ends_generation(*id);
        assert!(walk.allowed().iter().all(is_end), "{prompt:?}: nothing follows");
    }
    // Without reasoning, at once.
    let mut walk = of_content(&bench, &["a"]);
    assert!(walk.allowed().len() < all / 2);
    assert_eq!(follow(&mut walk, &bench, &["b"]), [true]);
    assert!(walk.may_end());
    // It may not begin again.
    let mut walk = of_content(&bench, &["[tool]"]);
    assert_eq!(follow(&mut walk, &bench, &["bc", "a", "[tool]"]), [true, true, false]);
}

#[test]
fn an_answer_does_not_end_within_reasoning() {
    let bench = Bench::new("made-bpe-gpt-2");
    let mut walk = of_content(&bench, &["[tool]"]);
    assert!(!walk.may_end());
    // What would run past the end of reasoning into content is ruled out.
    let abc = id(&bench, "abc");
    assert!(walk.allowed().contains(&abc));
    assert_eq!(follow(&mut walk, &bench, &["bc"]), [true]);
    assert!(!walk.allowed().contains(&abc));
}

#[test]
fn headers_and_white_space_may_precede_content_but_not_for_ever() {
    let bench = Bench::new("made-bpe-gpt-2");
    let mut walk = of_content(&bench, &["[tool]", "bc", "a"]);
    assert_eq!(follow(&mut walk, &bench, &["x", "1", "x", "b"]), [true; 4]);
    assert!(walk.may_end());
    let mut walk = of_content(&bench, &["[tool]", "bc", "a"]);
    let found = follow(&mut walk, &bench, &["x", "1", "x"].repeat(9));
    assert_eq!(found.iter().position(|allowed| !allowed), Some(3 * 8 + 2));
}

/// Calls `[tool]ab`, which end where `c`s may follow.
fn calls(bench: &Bench, once: bool) -> Grammar {
    let tool = id(bench, "[tool]");
    let lark = Source::Lark(format!("start: <[{tool}]> \"ab\" \"c\"*"));
    let segments = vec![Segment::Token { id: tool, text: "[tool]".into() }];
    let reasoning = Some(Enclosed { open: "1", close: "2" });
    let preamble = Preamble { reasoning, ..Preamble::default() };
    let trigger = Trigger { segments, place: OpeningPlace::Content };
    bench.compile(&lark).expect("a grammar").at_triggers(&[trigger], &preamble, once).expect("it begins so")
}

#[test]
fn calls_are_constrained_and_other_text_is_free() {
    let bench = Bench::new("made-bpe-gpt-2");
    let all = bench.tokenizer.vocab_size() + 3;
    let grammar = calls(&bench, false);
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    assert_eq!(follow(&mut walk, &bench, &["x", "a", "[tool]"]), [true; 3]);
    assert!(walk.allowed().len() <= 3, "the call has begun");
    assert_eq!(follow(&mut walk, &bench, &["a", "x"]), [true, false]);

    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    assert_eq!(follow(&mut walk, &bench, &["[tool]", "a", "b"]), [true; 3]);
    assert_eq!(walk.allowed().len(), all, "it may end or go on");
    assert_eq!(follow(&mut walk, &bench, &["c", "x", "[tool]", "b"]), [true, true, true, false]);
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    assert_eq!(follow(&mut walk, &bench, &["[tool]", "ab", "[tool]", "b"]), [true, true, true, false]);
}

#[test]
fn triggers_within_reasoning_do_not_count() {
    let bench = Bench::new("made-bpe-gpt-2");
    let all = bench.tokenizer.vocab_size() + 3;
    let mut walk = Walk::new(&calls(&bench, false), &bench.tokenizer);
    assert_eq!(follow(&mut walk, &bench, &["1", "[tool]", "x"]), [true; 3]);
    assert_eq!(walk.allowed().len(), all);
    assert_eq!(follow(&mut walk, &bench, &["2", "x", "[tool]", "x"]), [true, true, true, false]);
    // The same mark within content begins no reasoning.
    let mut walk = Walk::new(&calls(&bench, false), &bench.tokenizer);
    assert_eq!(follow(&mut walk, &bench, &["x", "1", "[tool]", "x"]), [true, true, true, false]);
}

#[test]
fn one_call_is_not_followed_by_another() {
    let bench = Bench::new("made-bpe-gpt-2");
    let mut walk = Walk::new(&calls(&bench, true), &bench.tokenizer);
    assert_eq!(
        follow(&mut walk, &bench, &["[tool]", "a", "b", "x", "a", "[tool]"]),
        [true, true, true, true, true, false]
    );
}

#[test]
fn a_trigger_must_begin_the_grammar() {
    let bench = Bench::new("made-bpe-gpt-2");
    let trigger = Trigger { segments: vec![Segment::Text("b".into())], place: OpeningPlace::Content };
    let grammar = bench.compile(&Source::Regex("a".into())).expect("a grammar");
    let error = grammar.at_triggers(&[trigger], &Preamble::default(), false).expect_err("it begins with a");
    assert_eq!(
        error.to_string(),
        "the trigger of the grammar does not begin the grammar; let the grammar begin with it"
    );
}
