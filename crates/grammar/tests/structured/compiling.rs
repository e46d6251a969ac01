//! The compiler: its cache, its deadline and its threads.

use std::time::Duration;

use grammar::{Compiler, CompilerOptions, Error, Source};

use crate::common::{Bench, Verdict};

/// Takes seconds, many times the deadlines here. Those of two numbers are different grammars.
fn slow(number: usize) -> Source {
    let property =
        |name: usize| format!("\"{number}.{name}\":{{\"type\":\"string\",\"maxLength\":{}}}", name + 1000);
    let all: Vec<String> = (0..4000).map(property).collect();
    Source::JsonSchema(format!("{{\"type\":\"object\",\"properties\":{{{}}}}}", all.join(",")))
}

#[test]
fn grammars_are_compiled_once_and_the_last_ones_kept() {
    let bench = Bench::new("made-spm");
    let options = CompilerOptions { kept: 2, ..CompilerOptions::default() };
    let compiler = Compiler::with(bench.vocabulary.clone(), options);
    let source = |number: usize| Source::Regex(format!("a{{{number}}}"));
    for number in [1, 2, 1, 3, 2, 1] {
        let grammar = compiler.compile(&source(number)).expect("a good grammar");
        assert_eq!(bench.judge(&grammar, &"a".repeat(number)), Verdict::Accepted);
        assert_ne!(bench.judge(&grammar, &"a".repeat(number + 1)), Verdict::Accepted);
    }
    // The same text is another grammar in another language.
    let text = "root ::= \"a\"\n".to_owned();
    assert!(compiler.compile(&Source::Gbnf(text.clone())).is_ok());
    assert!(compiler.compile(&Source::Lark(text)).is_err());
}

#[test]
fn more_grammars_than_threads_wait_for_each_other() {
    let bench = Bench::new("made-spm");
    let options = CompilerOptions { threads: 1, ..CompilerOptions::default() };
    let compiler = Compiler::with(bench.vocabulary.clone(), options);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let source = Source::Regex(format!("a{{{number}}}"));
            let compiler = &compiler;
            scope.spawn(move || compiler.compile(&source).expect("a good grammar"));
        }
    });
}

#[test]
fn what_takes_too_long_is_refused_and_so_are_too_many() {
    let bench = Bench::new("made-spm");
    // Long enough for a thread to begin: one that has not is not busy.
    let options = CompilerOptions { deadline: Duration::from_millis(20), threads: 2, kept: 2 };
    let compiler = Compiler::with(bench.vocabulary.clone(), options);
    let errors = [1, 2, 3].map(|number| compiler.compile(&slow(number)).expect_err("too slow"));
    for error in &errors[..2] {
        assert_eq!(error.to_string(), "the JSON schema was not compiled within 20 ms; make it simpler");
    }
    assert_eq!(errors[2], Error::Busy { threads: 2 });
}

/// A chain of definitions, each of which is read within the one before.
fn chain(length: usize) -> Source {
    let link = |number: usize| {
        let next = format!("{{\"$ref\":\"#/$defs/{}\"}}", number + 1);
        let all =
            format!("{{\"allOf\":[{{\"properties\":{{\"a\":{{\"items\":{next}}}}}}},{{\"maxLength\":9}}]}}");
        format!("\"{number}\":{{\"anyOf\":[{all},{{\"type\":\"null\"}}]}}")
    };
    let links: Vec<String> = (0..length - 1).map(link).collect();
    let last = length - 1;
    Source::JsonSchema(format!(
        "{{\"$ref\":\"#/$defs/0\",\"$defs\":{{{},\"{last}\":true}}}}",
        links.join(",")
    ))
}

#[test]
fn long_chains_of_definitions_fit_on_the_stack_or_are_refused() {
    let bench = Bench::new("made-spm");
    let compiler = Compiler::new(bench.vocabulary.clone());
    let long = compiler.compile(&chain(1000));
    assert!(!matches!(long, Err(Error::Busy { .. } | Error::Schema(_))), "{long:?}");
    let error = compiler.compile(&chain(1200)).expect_err("too long").to_string();
    assert!(error.contains("`$ref`s to more than 1000 places"), "{error}");
}
