//! GBNF: the verdicts of llama.cpp from `tools/goldens/gbnf.py`, tokens, and errors.

use grammar::{Error, Source};

use crate::common::{Bench, Verdict, Walk};

fn goldens() -> Vec<(String, Vec<(String, bool)>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/gbnf.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("committed goldens")).expect("JSON")
}

#[test]
fn texts_are_accepted_iff_llama_cpp_accepts_them() {
    let bench = Bench::new("made-spm");
    let mut wrong = Vec::new();
    for (source, texts) in goldens() {
        let grammar =
            bench.compile(&Source::Gbnf(source.clone())).unwrap_or_else(|error| panic!("{source}{error}"));
        for (text, is_accepted) in texts {
            let verdict = bench.judge(&grammar, &text);
            if (verdict == Verdict::Accepted) != is_accepted {
                wrong.push(format!("{source}  {text:?}: {verdict:?}, llama.cpp: {is_accepted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn tokens_are_matched_by_id_and_by_text() {
    let bench = Bench::new("made-bpe-gpt-2");
    let id = |text: &str| {
        let ids = 0..bench.tokenizer.vocab_size() as u32;
        ids.into_iter().find(|id| bench.tokenizer.token_text(*id) == Some(text)).expect("a token")
    };
    let (pad, a, b) = (id("<|fim_pad|>"), id("a"), id("b"));
    for source in [format!("root ::= \"a\" <[{pad}]> \"b\""), "root ::= \"a\" <|fim_pad|> \"b\"".to_owned()] {
        let grammar = bench.compile(&Source::Gbnf(source)).expect("a good grammar");
        let mut walk = Walk::new(&grammar, &bench.tokenizer);
        for token in [a, pad, b] {
            let allowed = walk.allowed();
            assert!(allowed.contains(&token), "{token} of {allowed:?}");
            assert!(allowed.contains(&b) == (token == b), "{token} of {allowed:?}");
            walk.push(token, true);
        }
        assert!(walk.may_end());
    }
    let grammar = bench.compile(&Source::Gbnf(format!("root ::= !<[{a}]>{{2}}"))).expect("a good grammar");
    let mut walk = Walk::new(&grammar, &bench.tokenizer);
    let allowed = walk.allowed();
    assert!(!allowed.contains(&a) && allowed.contains(&b) && !walk.may_end(), "{allowed:?}");
    walk.push(b, true);
    walk.push(b, false);
    assert!(walk.allowed().iter().all(|id| bench.tokenizer.ends_generation(*id)));
}

#[test]
fn errors_name_line_and_column_and_what_was_expected() {
    let bench = Bench::new("made-spm");
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(300), ")".repeat(300));
    let many: String = (0..5000).map(|number| format!("a{number} ::= \"x\"\n")).collect();
    let cases = [
        ("", "line 1, column 1: found no rule `root`"),
        (
            "root ::= \"a",
            "line 1, column 12: found the end of the grammar, expected a closing quotation mark",
        ),
        (
            "root ::= \"a\n\"",
            "line 1, column 12: found the end of the line, expected a closing quotation mark",
        ),
        ("root = \"a\"", "line 1, column 6: found '=', expected ::= after the rule's name `root`"),
        ("root ::= a\n\nb ::= \"x\"", "line 1, column 10: found no rule `a`"),
        (
            "root ::= \"a\"\nroot ::= \"b\"",
            "line 2, column 1: the rule `root` is already defined at line 1, column 1",
        ),
        (
            "root ::= (\"a\"\n\"b\"",
            "line 2, column 4: found the end of the grammar, expected a symbol, | or )",
        ),
        ("root ::= * \"a\"", "line 1, column 10: found '*', expected a symbol before it"),
        ("root ::= \"a\"{3,2}", "found {3,2}, expected the smaller number first"),
        ("root ::= \"a\"{3000}", "line 1, column 14: found '3', expected a number up to 2000"),
        ("root ::= [z-a]", "line 1, column 11: the range 'z' to 'a' is empty"),
        ("root ::= [a", "line 1, column 12: found the end of the grammar, expected a closing bracket"),
        ("root ::= \"\\q\"", "line 1, column 12: found 'q', expected an escape"),
        (
            "root ::= \"\\ud800\"",
            "line 1, column 11: found \"d800\", expected 4 hexadecimal digits of a Unicode",
        ),
        ("root ::= <nothing>", "line 1, column 10: the vocabulary has no token <nothing>"),
        ("root ::= <[99999]>", "line 1, column 10: found the token <[99999]>, expected an id from 0 to 282"),
        (
            "root ::= root \"a\" | \"b\"",
            "line 1, column 1: the rule `root` begins with itself (left recursion)",
        ),
        ("root ::= a\na ::= \"\" b? \"x\"\nb ::= a", "line 2, column 1: the rule `a` begins with itself"),
        (many.as_str(), "found more than 4096 rules"),
        (deep.as_str(), "groups are nested deeper than 128"),
    ];
    for (source, expected) in cases {
        match bench.compile(&Source::Gbnf(source.to_owned())) {
            Err(error @ Error::Gbnf(_)) => {
                let error = error.to_string();
                assert!(error.contains(expected), "{source}\n  {error}\n  expected: {expected}");
            }
            other => panic!("{source}: {other:?}"),
        }
    }
}

/// Rules that double at each level, empty or not.
#[test]
fn grammars_that_grow_fast_are_compiled_fast() {
    let bench = Bench::new("made-spm");
    for (first, text) in [("\"\"", ""), ("\"a\"?", "aaaa")] {
        let doubled = |number: usize| format!("r{number} ::= r{} r{}\n", number - 1, number - 1);
        let rules: String = (1..60).map(doubled).collect();
        let source = Source::Gbnf(format!("root ::= r59 \"x\"\nr0 ::= {first}\n{rules}"));
        assert_eq!(bench.accepted(&source, &[&format!("{text}x"), "y"]), [format!("{text}x")]);
    }
}
