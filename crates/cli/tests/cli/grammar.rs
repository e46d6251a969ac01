//! Structured output of `run` and `chat`.

use serde_json::Value as Json;

use crate::common::{Home, write};

const SCHEMA: &str = r#"{"type": "array", "items": {"enum": ["ab", 7]}, "minItems": 2, "maxItems": 3}"#;

fn is_of_the_schema(text: &str) -> bool {
    let list: Vec<Json> = serde_json::from_str(text).unwrap_or_default();
    (2..=3).contains(&list.len()) && list.iter().all(|item| *item == "ab" || *item == 7)
}

#[test]
fn answers_satisfy_a_schema() {
    let home = Home::new();
    write(&home.path("schema.json"), SCHEMA);
    let file = home.path("schema.json").display().to_string();
    for (flag, schema) in
        [("-j", SCHEMA), ("--json-schema", &*file), ("-jf", &*file), ("--json-schema-file", &*file)]
    {
        for seed in 0..3 {
            let args = format!("run -m MODEL --raw --temp 1 --seed {seed} -n 400 -p x {flag}");
            let text = home.run_with(&args, &[schema]).quiet();
            assert!(is_of_the_schema(&text), "{text}");
        }
    }
    // Each answer of a chat, and after a change of its settings.
    let answers = home.pipe("chat -m MODEL --seed 1 -n 400 -j schema.json", "a\n/set temp 1\nb\n").ok();
    let lists: Vec<Json> = serde_json::Deserializer::from_str(&answers).into_iter().flatten().collect();
    assert_eq!(lists.len(), 2, "{answers}");
    assert!(lists.iter().all(|list| is_of_the_schema(&list.to_string())), "{answers}");
}

#[test]
fn answers_are_of_a_grammar() {
    let home = Home::new();
    write(&home.path("a.gbnf"), "root ::= \"a\"{2} [x-z]\n");
    write(&home.path("a.lark"), "start: \"aa\" /[x-z]/\n");
    let file = |name: &str| home.path(name).display().to_string();
    let sources = [
        ("--grammar", "root ::= \"aa\" [x-z]".to_owned()),
        ("--grammar-file", file("a.gbnf")),
        ("--grammar-file", file("a.lark")),
    ];
    for (flag, source) in sources {
        let answer =
            home.run_with(&format!("run -m MODEL --raw --temp 1 --json -p x {flag}"), &[&source]).json();
        let text = answer["text"].as_str().expect("a text");
        assert!(["aax", "aay", "aaz"].contains(&text), "{text}");
        assert_eq!(answer["stop_reason"], "end_of_generation");
    }
}

#[test]
fn broken_grammars_are_errors_that_say_where() {
    let home = Home::new();
    for (flag, source, expected) in [
        (
            "-j",
            r#"{"properties": {"a": {"not": {}}}}"#,
            "the JSON schema at /properties/a: `not` is not supported",
        ),
        ("-j", "none.json", "\"none.json\" is not a JSON object"),
        ("--grammar", "root ::= x", "the GBNF grammar, line 1, column 10: found no rule `x`"),
        ("--grammar-file", "none.gbnf", "cannot read the grammar none.gbnf"),
    ] {
        let error = home.run_with(&format!("run -m MODEL --raw -p x {flag}"), &[source]).failed(1);
        assert!(error.contains(expected), "{error}");
    }
    let both = home.run_with("run -m MODEL --raw -p x --grammar a -j", &["{}"]).failed(2);
    assert!(both.contains("cannot be used with"), "{both}");
}
