//! What cannot be enforced is an error that says where and why.

use grammar::{Error, Source};
use serde_json::{Value as Json, json};

use crate::common::Bench;

fn refused(bench: &Bench, schema: &Json) -> String {
    match bench.compile(&Source::JsonSchema(schema.to_string())) {
        Err(Error::Schema(error)) => error.to_string(),
        other => panic!("{schema}: {other:?}"),
    }
}

/// Every keyword of draft 2020-12 (core, applicator, unevaluated, validation, format, content, meta-data) that is not enforced and
/// no annotation.
#[test]
fn keywords_that_are_not_enforced_are_refused_by_name_and_place() {
    let bench = Bench::new("made-spm");
    let keywords = [
        ("$dynamicRef", json!("#a")),
        ("contains", json!({"type": "null"})),
        ("minContains", json!(1)),
        ("maxContains", json!(1)),
        ("uniqueItems", json!(true)),
        ("unevaluatedItems", json!(false)),
        ("unevaluatedProperties", json!({"type": "null"})),
        ("propertyNames", json!({"format": "email"})),
        ("dependentRequired", json!({"a": ["b"]})),
        ("dependentSchemas", json!({"a": true})),
        ("dependencies", json!({"a": ["b"]})),
        ("not", json!({})),
        ("if", json!(true)),
        ("then", json!(true)),
        ("else", json!(true)),
        ("x-guidance", json!({"lenient": true})),
        ("minProperties", json!(2)),
    ];
    for (keyword, value) in keywords {
        let schema = json!({"properties": {"a/b": {"items": {keyword: value}}}});
        let error = refused(&bench, &schema);
        let expected = format!("at /properties/a~1b/items: `{keyword}` is not supported; ");
        assert!(error.starts_with(&expected) && error.len() > expected.len(), "{error}");
        // Nor by a reference, or as a definition of an older draft.
        let schema = json!({"$ref": "#/definitions/x", "definitions": {"x": {keyword: value}}});
        assert!(
            refused(&bench, &schema).starts_with(&format!("at /definitions/x: `{keyword}` is not supported"))
        );
        // An older draft does not make it an annotation.
        let schema = json!({"$schema": "http://json-schema.org/draft-04/schema#", keyword: value});
        assert!(refused(&bench, &schema).contains(&format!("`{keyword}`")));
    }
}

#[test]
fn annotations_and_unknown_keywords_pass() {
    let bench = Bench::new("made-spm");
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a.example/b", "$anchor": "c",
        "$dynamicAnchor": "d", "$vocabulary": {}, "$comment": "e", "$defs": {"unused": {"not": {}}},
        "title": "f", "description": "g", "default": 1, "deprecated": true, "readOnly": true, "writeOnly": true,
        "examples": [1], "contentEncoding": "h", "contentMediaType": "i", "contentSchema": {"not": {}},
        "example": 2, "x-order": 3, "ui:widget": "j", "uniqueItems": false, "unevaluatedProperties": true,
        "type": "boolean",
    });
    assert_eq!(
        bench.accepted(&Source::JsonSchema(schema.to_string()), &["true", "1", "false"]),
        ["true", "false"]
    );
}

#[test]
fn what_is_wrong_with_a_schema_is_said() {
    let bench = Bench::new("made-spm");
    let cases = [
        (json!({"minLenght": 1}), "at its root: there is no keyword `minLenght`; did you mean `minLength`?"),
        (json!({"Required": ["a"]}), "there is no keyword `Required`; did you mean `required`?"),
        (json!({"items": 3}), "at /items: a schema is 3, expected an object, true or false"),
        (json!({"type": "text"}), "at its root: `type` is \"text\", expected null, boolean,"),
        (json!({"type": []}), "`type` is []"),
        (json!({"enum": []}), "`enum` is [], expected a list of values, not empty"),
        (json!({"anyOf": []}), "`anyOf` is [], expected a list of schemas"),
        (json!({"required": "a"}), "`required` is \"a\", expected a list of names"),
        (json!({"minLength": -1}), "`minLength` is -1, expected a whole number"),
        (json!({"minLength": 1e12}), "`minLength` is 1000000000000.0, expected a whole number"),
        (json!({"multipleOf": 0}), "`multipleOf` is 0, expected a positive number"),
        (json!({"multipleOf": 1e-9}), "expected a positive number with at most 8 digits"),
        (json!({"multipleOf": 4_000_000_007_u32}), "expected a positive number with at most 8 digits"),
        (
            json!({"allOf": [{"multipleOf": 65521}, {"multipleOf": 65519}]}),
            "no common multiple that is small enough",
        ),
        (json!({"allOf": [{"multipleOf": 0.001}, {"multipleOf": 100}]}), "no common multiple"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"multipleOf": 65536}}}), "no common multiple"),
        (json!({"const": 9007199254740993u64}), "`const` is 9007199254740993, expected numbers below 2^53"),
        (json!({"enum": ["\u{1}"]}), "expected texts without control characters"),
        (json!({"minimum": 1e300}), "`minimum` is 1e+300, expected a number below 2^53"),
        (json!({"format": "regex"}), "`format` is \"regex\", expected date-time, "),
        (json!({"format": 5}), "`format` is 5"),
        (json!({"propertyNames": {"not": {"const": "a"}}}), "`propertyNames` is not supported"),
        (json!({"format": "int32"}), "formats of numbers need `type`"),
        (
            json!({"pattern": "a("}),
            "`pattern` is the regular expression \"a(\": unclosed group (character 2)",
        ),
        (json!({"pattern": "(?!a)"}), "look-around"),
        (json!({"pattern": "\\bword\\b"}), "boundaries of words"),
        (json!({"pattern": "(a)\\1"}), "backreferences are not supported"),
        (json!({"pattern": "[]"}), "empty brackets match nothing"),
        (
            json!({"patternProperties": {"[": {}}}),
            "at its root: `patternProperties` is the regular expression \"[\"",
        ),
        (json!({"$ref": "other.json"}), "`$ref` is \"other.json\", which is not in this schema"),
        (json!({"$ref": "https://a.example/b#/c"}), "which is not in this schema"),
        (json!({"$ref": "#/$defs/a"}), "`$ref` is \"#/$defs/a\", which does not exist"),
        (json!({"$ref": "#a"}), "an anchor, which is not supported"),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), "which leads back to itself"),
        (json!({"$ref": 1}), "`$ref` is 1, expected a text"),
        (json!({"prefixItems": [{}], "items": [{}]}), "`items` is not supported; a list"),
        (json!(false), "at its root: it accepts nothing"),
        (json!("a"), "a schema is \"a\""),
    ];
    for (schema, expected) in cases {
        let error = refused(&bench, &schema);
        assert!(error.contains(expected), "{schema}\n  {error}\n  expected: {expected}");
    }
    let broken = bench.compile(&Source::JsonSchema("{\"type\":".into())).expect_err("it is broken");
    assert!(
        broken.to_string().contains("it is no JSON: EOF while parsing a value at line 1 column 8"),
        "{broken}"
    );
    let nested = "[".repeat(100_000);
    assert!(
        bench
            .compile(&Source::JsonSchema(nested))
            .expect_err("too deep")
            .to_string()
            .contains("recursion limit")
    );
}

#[test]
fn alternatives_that_may_hold_at_once_are_refused_with_their_place() {
    let bench = Bench::new("made-spm");
    let schema =
        json!({"properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, "required": ["a"]});
    let error = bench.compile(&Source::JsonSchema(schema.to_string())).expect_err("not disjoint").to_string();
    assert!(error.contains("`oneOf`") && error.contains("/properties/a/oneOf"), "{error}");
}

/// A name that is spelled with escapes is the same name.
#[test]
fn a_property_cannot_pass_as_another_one() {
    let bench = Bench::new("made-spm");
    let schema = json!({"properties": {"a": {"type": "integer"}}, "type": "object"});
    let texts = [r#"{"a":1}"#, r#"{"\u0061":"x"}"#, r#"{"b":"x"}"#, r#"{"a":1,"a":"x"}"#];
    assert_eq!(
        bench.accepted(&Source::JsonSchema(schema.to_string()), &texts),
        [r#"{"a":1}"#, r#"{"b":"x"}"#],
    );
}

#[test]
fn formats_of_numbers_are_bounds() {
    let bench = Bench::new("made-spm");
    let schema = json!({"type": "integer", "format": "uint8", "maximum": 300});
    assert_eq!(
        bench.accepted(&Source::JsonSchema(schema.to_string()), &["-1", "0", "255", "256"]),
        ["0", "255"]
    );
}

#[test]
fn regular_expressions_match_whole_texts_and_errors_are_said() {
    let bench = Bench::new("made-spm");
    let texts = ["a", "ab", "abc", "b/ä", ""];
    assert_eq!(bench.accepted(&Source::Regex("a|ab".into()), &texts), ["a", "ab"]);
    assert_eq!(bench.accepted(&Source::Regex("[a-c]*/\\w".into()), &texts), ["b/ä"]);
    for (pattern, expected) in [
        ("a(", "unclosed group (character 2)"),
        ("a{3,2}", "invalid repetition count range"),
        ("(?=a)", "look-around"),
    ] {
        let error = bench.compile(&Source::Regex(pattern.into())).expect_err(pattern).to_string();
        assert!(error.starts_with("the regular expression") && error.contains(expected), "{error}");
    }
}

#[test]
fn grammars_of_lark_hold_checked_schemas() {
    let bench = Bench::new("made-spm");
    let lark = |schema: &str| Source::Lark(format!("start: \"<(\" %json {schema} \")>\" // [(((\n"));
    let texts = ["<(1)>", "<(1.5)>", "<(x)>"];
    assert_eq!(bench.accepted(&lark("{\"type\": \"integer\"}"), &texts), ["<(1)>"]);
    let deep = format!("start: {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000));
    for (source, expected) in [
        (lark("{\"not\": {}}"), "line 1: the schema after %json at its root: `not` is not supported"),
        (lark("{\"x-guidance\": {\"lenient\": true}}"), "`x-guidance` is not supported"),
        (lark("{"), "line 1: what follows %json is no JSON"),
        (Source::Lark(deep), "parentheses are nested deeper than 128"),
        (Source::Lark("start: missing".into()), "missing"),
        (Source::Lark("start: \"a\"\nstart: \"b\"".into()), "start"),
    ] {
        let error = bench.compile(&source).expect_err("it is broken").to_string();
        assert!(error.contains(expected), "{error}\n expected {expected}");
    }
}

#[test]
fn sources_are_limited() {
    let bench = Bench::new("made-spm");
    let error = bench.compile(&Source::Gbnf("#".repeat(300_000))).expect_err("too long").to_string();
    assert_eq!(error, "the GBNF grammar has 300000 bytes, at most 262144 are supported; make it smaller");
}
