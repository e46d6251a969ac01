//! Whatever text is compiled: an error at worst, and masks that end.

use grammar::Source;
use proptest::prelude::*;

use crate::common::{Bench, Walk};

/// Pieces of all languages of grammars.
fn texts() -> impl Strategy<Value = String> {
    let pieces = [
        "root",
        "start",
        "a",
        "B",
        "::=",
        ":",
        "|",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "*",
        "+",
        "?",
        "\"",
        "\\",
        "/",
        "#",
        "\n",
        " ",
        "^",
        "-",
        ",",
        ".",
        "!",
        "<",
        ">",
        "$",
        "&",
        "~",
        "{2,3}",
        "[a-z]",
        "\"x\"",
        "/y/",
        "<[3]>",
        "%json",
        "%ignore",
        "{\"a\":1}",
        "\\u00e4",
        "é",
        "\u{0}",
        "\u{ff}",
        "0",
        "1e9",
        "(?i)",
        "\\d",
        "root ::= ",
        "start: ",
        "\\x{41}",
        "@b",
        "..",
        "~1..2",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..24).prop_map(|pieces| pieces.concat())
}

/// Schemas of known keywords with values that often do not suit them.
fn schemas() -> impl Strategy<Value = String> {
    let keywords = [
        "type",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "minProperties",
        "maxProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "allOf",
        "anyOf",
        "oneOf",
        "$ref",
        "$defs",
        "$id",
        "title",
    ];
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-1",
            "3",
            "0.1",
            "1e308",
            "-0.0",
            "1e-9",
            "\"string\"",
            "\"object\"",
            "\"integer\"",
            "\"a\"",
            "\"^a+$\"",
            "\"#\"",
            "\"#/$defs/a\"",
            "\"date\"",
            "\"(a|b){2}\"",
            "[]",
            "{}",
            "[\"a\"]",
            "[\"number\",\"null\"]",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let keyword = prop_oneof![8 => prop::sample::select(keywords.to_vec()), 1 => Just("a"), 1 => Just("b")];
        prop_oneof![
            3 => prop::collection::btree_map(keyword, inner.clone(), 0..5).prop_map(|map| {
                let entries: Vec<String> = map.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", entries.join(","))
            }),
            1 => prop::collection::vec(inner, 0..3).prop_map(|list| format!("[{}]", list.join(","))),
        ]
    })
}

thread_local! {
    static BENCH: Bench = Bench::new("made-spm");
}

/// Compiles `source` and draws a few tokens.
fn survives(source: &Source, mut number: usize) {
    BENCH.with(|bench| match bench.compile(source) {
        Err(error) => {
            let error = error.to_string();
            assert!(!error.contains("panic"), "{source:?}: {error}");
        }
        Ok(grammar) => {
            let mut walk = Walk::new(&grammar, &bench.tokenizer);
            for _ in 0..12 {
                let allowed = walk.allowed();
                let Some(&id) = allowed.get(number % allowed.len().max(1)) else {
                    let why = walk.failure().unwrap_or_default();
                    assert!(!why.contains("panic"), "{source:?}: {why}");
                    break;
                };
                if bench.tokenizer.ends_generation(id) {
                    break;
                }
                walk.push(id, number.is_multiple_of(3));
                number = number / 2 + 7;
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_grammar_panic(text in texts(), number in any::<usize>()) {
        survives(&Source::Gbnf(text.clone()), number);
        survives(&Source::Gbnf(format!("root ::= {text}")), number);
        survives(&Source::Lark(format!("start: {text}")), number);
        survives(&Source::Lark(text.clone()), number);
        survives(&Source::Regex(text), number);
    }

    #[test]
    fn no_schema_makes_a_grammar_panic(schema in schemas(), number in any::<usize>()) {
        survives(&Source::JsonSchema(schema), number);
    }
}
