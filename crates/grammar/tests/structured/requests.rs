//! Constraints as processors: copies, tokens that do not fit, and an engine.

use engine::{Params, Processor, Sampler, SamplingError};
use grammar::Source;

use crate::common::{Bench, Verdict, Walk};

#[test]
fn a_copy_goes_on_from_where_the_original_is() {
    let bench = Bench::new("made-spm");
    let grammar = bench.compile(&Source::Regex("(abc|xyz)1".into())).expect("a grammar");
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    walk.read(&bench.vocabulary, "ab");
    let id = |text: &str| bench.vocabulary.tokenize(text.as_bytes()).expect("tokens")[0];
    let mut copies = vec![walk.copy()];
    // Of one whose mask is being computed, too.
    walk.push(id("c"), true);
    copies.push(walk.copy());
    for (copy, expected) in copies.iter_mut().zip(["c", "1"]) {
        let known = if expected == "1" { walk.tokens.len() } else { walk.tokens.len() - 1 };
        let mut logits = vec![0.0; bench.tokenizer.vocab_size()];
        copy.apply(&walk.tokens[..known], &mut logits);
        assert_eq!(logits[id(expected) as usize], 0.0);
        assert_eq!(logits[id("x") as usize], f32::NEG_INFINITY);
    }
    assert_eq!(walk.read(&bench.vocabulary, "1"), Verdict::Accepted);
}

#[test]
fn requests_of_a_grammar_do_not_reach_each_other() {
    let bench = Bench::new("made-spm");
    let grammar = bench.compile(&Source::JsonObject).expect("a grammar");
    let mut bad = Walk::new(&grammar, &bench.tokenizer);
    let mut good = Walk::new(&grammar, &bench.tokenizer);
    assert!(!bad.may_end() && !good.may_end());
    let wrong = bench.vocabulary.tokenize(b"x").expect("a token")[0];
    bad.push(wrong, true);
    assert!(bad.allowed().is_empty());
    assert!(
        bad.failure().is_some_and(|why| why.starts_with("the grammar cannot go on: ")),
        "{:?}",
        bad.failure()
    );
    assert_eq!(good.read(&bench.vocabulary, "{\"a\":1}"), Verdict::Accepted);
}

#[test]
fn a_token_that_does_not_fit_ends_in_an_error_that_says_so() {
    let bench = Bench::new("made-spm");
    let grammar = bench.compile(&Source::Regex("ab".into())).expect("a grammar");
    let processors: Vec<Box<dyn Processor>> = vec![Box::new(grammar.constraint())];
    let mut sampler = Sampler::new(Params::greedy(), processors, &bench.tokenizer).expect("a sampler");
    let logits = vec![0.0; bench.tokenizer.vocab_size()];
    let mut tokens = vec![1];
    let a = sampler.sample(&logits, &tokens).expect("a token");
    assert_eq!(bench.tokenizer.token_bytes(a), Some(&b"a"[..]));
    // The caller goes on with another token than the sampled one.
    tokens.push(bench.vocabulary.tokenize(b"x").expect("a token")[0]);
    match sampler.sample(&logits, &tokens) {
        Err(SamplingError::Failed(why)) => assert!(why.starts_with("the grammar cannot go on"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(sampler.sample(&logits, &tokens), Err(SamplingError::Failed(_))));
}

#[test]
fn only_the_end_follows_a_complete_grammar() {
    let bench = Bench::new("made-bpe-gpt-2");
    let grammar = bench.compile(&Source::Regex("ab?".into())).expect("a grammar");
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    assert!(!walk.may_end());
    walk.read(&bench.vocabulary, "a");
    let ends = bench.tokenizer.special_ids().end_of_generation.len();
    assert!(ends > 1, "several tokens end generation");
    let b = bench.vocabulary.tokenize(b"b").expect("a token")[0];
    // All that end generation, and `b`.
    let allowed = walk.allowed();
    assert!(walk.may_end() && allowed.contains(&b) && allowed.len() == ends + 1, "{allowed:?}");
    walk.push(b, true);
    assert!(walk.allowed().len() == ends && walk.may_end());
}
