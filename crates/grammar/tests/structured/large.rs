//! Sources near the limits of size and depth: compiled or refused in a moment. The deadline is ten times too long.

use std::time::Duration;

use grammar::{Compiler, CompilerOptions, Error, Grammar, Source};

use crate::common::{Bench, Verdict};

fn compile(bench: &Bench, source: Source) -> Result<Grammar, Error> {
    let options = CompilerOptions { deadline: Duration::from_secs(60), ..CompilerOptions::default() };
    Compiler::with(bench.vocabulary.clone(), options).compile(&source)
}

fn accepted<'a>(bench: &Bench, source: &str, texts: &[&'a str]) -> Vec<&'a str> {
    let begin: String = source.chars().take(100).collect();
    let grammar =
        compile(bench, Source::Gbnf(source.to_owned())).unwrap_or_else(|error| panic!("{begin}: {error}"));
    texts.iter().copied().filter(|text| bench.judge(&grammar, text) == Verdict::Accepted).collect()
}

#[test]
fn references_are_followed_once() {
    let bench = Bench::new("made-spm");
    let references = vec!["{\"$ref\":\"#/$defs/a1\"}"; 4000].join(",");
    let schema = |last: &str| {
        let link = |number: usize| format!("\"a{number}\":{{\"$ref\":\"#/$defs/a{}\"}}", number + 1);
        let links: Vec<String> = (1..4500).map(link).collect();
        let links = links.join(",");
        Source::JsonSchema(format!("{{\"anyOf\":[{references}],\"$defs\":{{{links},\"a4500\":{last}}}}}"))
    };
    let error = compile(&bench, schema("true")).expect_err("too many").to_string();
    assert!(error.contains("`$ref`s to more than 1000 places"), "{error}");
    let error = compile(&bench, schema("{\"$ref\":\"#/$defs/a1\"}")).expect_err("a circle").to_string();
    assert!(error.contains("which leads back to itself"), "{error}");
}

#[test]
fn messages_name_a_few_places() {
    let bench = Bench::new("made-spm");
    let choices = vec!["{\"oneOf\":[{},{}]}"; 2000].join(",");
    let error = compile(&bench, Source::JsonSchema(format!("{{\"anyOf\":[{choices}]}}"))).expect_err("oneOf");
    let error = error.to_string();
    assert!(error.contains("/anyOf/0/oneOf") && error.len() < 1000, "{} bytes: {error:.1000}", error.len());
}

#[test]
fn repetitions_of_repetitions_are_one_where_that_is_exact() {
    let bench = Bench::new("made-spm");
    let texts = ["", "a", "aa", "aaa", "aaaa"];
    assert_eq!(accepted(&bench, &format!("root ::= \"a\"{}", "*".repeat(250_000)), &texts), texts);
    for (repetition, expected) in [
        ("+*", &texts[..]),
        ("?+", &texts[..]),
        ("+?", &texts[..]),
        ("++", &texts[1..]),
        ("{2}*", &["", "aa", "aaaa"]),
        ("{2}?", &["", "aa"]),
        ("{2,3}?", &["", "aa", "aaa"]),
        ("{2,}{0,1}", &["", "aa", "aaa", "aaaa"]),
        ("{2}{1,2}", &["aa", "aaaa"]),
        ("{1,2}{2}", &["aa", "aaa", "aaaa"]),
        ("{2}{0}", &[""]),
        ("{0}{2}", &[""]),
    ] {
        assert_eq!(
            accepted(&bench, &format!("root ::= \"a\"{repetition}"), &texts),
            expected,
            "{repetition}"
        );
    }
    let source = format!("root ::= \"a\"{}", "{2,3}{0,2}".repeat(20_000));
    let error = compile(&bench, Source::Gbnf(source)).expect_err("too deep").to_string();
    assert!(error.contains("line 1, column"), "{error}");
    assert!(error.contains("repetitions are nested deeper than 128; give the inner ones a rule"), "{error}");
}

/// Each pair of rules has an automaton of thousands of states.
#[test]
fn lexemes_that_are_hard_to_compare_are_read_by_character() {
    let bench = Bench::new("made-spm");
    let rule = |number: usize| format!("r{number} ::= [ab]* \"a\" [ab]{{12}} \"x{number}\"\n");
    let rules: String = (0..100).map(rule).collect();
    let names: Vec<String> = (0..100).map(|number| format!("r{number}")).collect();
    let source = format!("root ::= ({}) root?\n{rules}", names.join(" | "));
    let texts = ["aabbbbbbbbbbbbx7", "babbbbbbbbbbbbx99abbbbbbbbbbbbx0", "abbbbbbbbbbbx7"];
    assert_eq!(accepted(&bench, &source, &texts), texts[..2]);
}

/// Each is the beginning of others. Read by character, they are too many for llguidance, which says so.
#[test]
fn many_literals_are_cut_at_once() {
    let bench = Bench::new("made-spm");
    let literals: Vec<String> = (0..30_000).map(|number| format!("\"{number}\"")).collect();
    let source = format!("root ::= \"(\" root \")\"|{}\n", literals.join("|"));
    let error = compile(&bench, Source::Gbnf(source)).expect_err("too many").to_string();
    assert!(error.contains("it has more than 65,000 symbols; make it smaller"), "{error}");
}

#[test]
fn groups_may_be_nested_as_deep_as_is_documented() {
    let bench = Bench::new("made-spm");
    for first in ["\"a\" root? | ", ""] {
        for (open, close) in [("( \"<\" ", "\">\" )* "), ("( \"z\" | \"<\" ", "\">\" | \"w\" )+ ")] {
            let source = format!("root ::= {first}{}\"y\"{}", open.repeat(127), close.repeat(127));
            let [deep, short] = [127, 126].map(|depth| format!("{}y{}", "<".repeat(127), ">".repeat(depth)));
            assert_eq!(accepted(&bench, &source, &[&deep, &short, "q"]), [deep.as_str()], "{source}");
        }
    }
    let rule = |number: usize| format!("r{number} ::= (\"x\" r{} | \"z\")?\n", number + 1);
    let rules: String = (0..400).map(rule).collect();
    let deep = format!("{}q", "x".repeat(400));
    let source = format!("root ::= r0\n{rules}r400 ::= \"q\"\n");
    assert_eq!(accepted(&bench, &source, &[&deep, "q"]), [deep.as_str()]);
}

/// Numbers and lengths by which llguidance would compile for minutes, and which no schema that is meant well has.
#[test]
fn what_would_take_minutes_is_refused() {
    let bench = Bench::new("made-spm");
    let members =
        |n: usize, member: &dyn Fn(usize) -> String| (0..n).map(member).collect::<Vec<_>>().join(",");
    let schema =
        |keyword: &str, members: &str| Source::JsonSchema(format!("{{\"{keyword}\":{{{members}}}}}"));
    let properties = |n: usize| schema("properties", &members(n, &|i| format!("\"p{i}\":{{}}")));
    let patterns = |n: usize| {
        let one = |i: usize| format!("\"^a{i}[a-z]{{3}}(foo|bar){{2}}[0-9]+xxxxxxxxxxxxxxxxxxxxx$\":{{}}");
        schema("patternProperties", &members(n, &one))
    };
    let pattern = |n: usize| Source::JsonSchema(format!("{{\"pattern\":\"^{}$\"}}", "a?".repeat(n)));
    for (most, beyond, why) in [
        (properties(4096), properties(4097), "`properties` have more than 4096 members"),
        (patterns(128), patterns(129), "`patternProperties` have more than 128 members"),
        (pattern(8191), pattern(8192), "it has 16386 bytes, at most 16384 are supported"),
        (Source::Regex("[ab]".repeat(4096)), Source::Regex("[ab]".repeat(4097)), "it has 16388 bytes"),
    ] {
        compile(&bench, most).expect("it may be as large");
        let error = compile(&bench, beyond).expect_err("too many").to_string();
        assert!(error.contains(why), "{error}");
    }
    // In all, wherever they are.
    let half = members(2100, &|i| format!("\"p{i}\":{{}}"));
    let halves =
        Source::JsonSchema(format!("{{\"properties\":{{{half}}},\"items\":{{\"properties\":{{{half}}}}}}}"));
    let error = compile(&bench, halves).expect_err("too many").to_string();
    assert!(error.starts_with("the JSON schema at /items: `properties` have"), "{error}");
}

/// Numbers that hold together are multiplied; a schema that has them apart is not concerned.
#[test]
fn multiples_hold_together_or_apart() {
    let bench = Bench::new("made-spm");
    let schema = |text: &str| Source::JsonSchema(text.to_owned());
    let both = schema("{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}]}");
    assert_eq!(bench.accepted(&both, &["4", "6", "12", "24", "30"]), ["12", "24"]);
    let large = schema("{\"type\":\"integer\",\"multipleOf\":100000}");
    assert_eq!(bench.accepted(&large, &["100000", "300000", "100001"]), ["100000", "300000"]);
}
