//! What grammars of calls enforce of the schemas of tools, and what large schemas cost.

use std::time::{Duration, Instant};

use chat::{Choice, Grammar, ToolFormat, Tools, ToolsError, Unenforced};
use serde_json::{Map, Value as Json, json};

use crate::tool_calls::prompt_of;

/// Formats with values in tags, one with attributes.
const OF_TAGS: [&str; 5] = ["qwen-coder", "seed-oss", "glm-4.5", "hunyuan", "deepseek-v3.2"];

/// Far more than grammars of the most that is read take.
const HANG: Duration = Duration::from_secs(120);

fn tool(parameters: &Json) -> Result<Tools, ToolsError> {
    Tools::read(&[json!({ "function": { "name": "f", "parameters": parameters } })])
}

fn grammar(format: &str, tools: &Tools) -> Result<Grammar, ToolsError> {
    let format = ToolFormat::named(format, &[]).expect("a format");
    format.grammar(&prompt_of(""), tools, &Choice::Auto, true, None)
}

/// The pointer and the keyword of what is left open for a parameter with this schema.
fn open(format: &str, schema: &Json) -> Option<(String, String)> {
    let defs = json!({ "code": { "type": "string", "pattern": "^a" }, "n": { "type": ["integer", "null"] }, "e": { "enum": ["x", "y"] } });
    open_root(format, &json!({ "type": "object", "properties": { "a": schema }, "$defs": defs }))
}

fn open_root(format: &str, schema: &Json) -> Option<(String, String)> {
    let tools = tool(schema).expect("tools");
    let left = grammar(format, &tools).expect("a grammar").unenforced;
    assert!(left.len() <= 1, "{left:?}");
    let Unenforced { tool, pointer, keyword, format: named } = left.into_iter().next()?;
    assert_eq!((tool.as_str(), named), ("f", format));
    Some((pointer, keyword))
}

fn found(pointer: &str, keyword: &str) -> Option<(String, String)> {
    Some((pointer.into(), keyword.into()))
}

#[test]
fn keywords_of_the_whole_are_named_where_arguments_are_no_json() {
    for format in ToolFormat::names() {
        let tools = tool(&json!({})).expect("tools");
        let is_json = grammar(format, &tools).expect("a grammar").lark.contains("arguments_0: %json");
        for (keyword, value) in [
            ("not", json!({})),
            ("anyOf", json!([{ "required": ["a"] }])),
            ("allOf", json!([{ "required": ["a"] }])),
            ("if", json!({})),
            ("minProperties", json!(1)),
            ("patternProperties", json!({ "^a": { "maxLength": 3 } })),
            ("required", json!(["b"])),
            ("requird", json!(["a"])),
        ] {
            let mut schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
            assert_eq!(open_root(format, &schema), None, "{format}");
            schema[keyword] = value;
            let expected = if is_json { None } else { found("", keyword) };
            assert_eq!(open_root(format, &schema), expected, "{format}");
        }
    }
}

#[test]
fn keywords_of_texts_in_tags_are_named() {
    for format in OF_TAGS {
        for keyword in ["pattern", "minLength", "maxLength", "format", "not", "minimum", "patern"] {
            let schema = json!({ "type": "string", keyword: 1, "title": "T", "x-order": 1 });
            assert_eq!(open(format, &schema), found("/properties/a", keyword), "{format}");
            // Values that are no texts are JSON with their whole schema.
            assert_eq!(open(format, &json!({ "type": "array", "items": schema })), None, "{format}");
        }
        let defined = found("/$defs/code", "pattern");
        assert_eq!(open(format, &json!({ "$ref": "#/$defs/code" })), defined, "{format}");
        let nullable = json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/code" }] });
        assert_eq!(open(format, &nullable), defined, "{format}");
        let elsewhere = json!({ "type": "array", "items": { "$ref": "#/properties/a" } });
        assert_eq!(open(format, &elsewhere), found("/properties/a", "$ref"), "{format}");
        let mixed = json!({ "type": ["string", "array"], "items": { "type": "integer" } });
        assert_eq!(open(format, &mixed), found("/properties/a", "items"), "{format}");
        assert_eq!(open(format, &json!({ "enum": ["1", 1] })), found("/properties/a", "enum"), "{format}");
        for enforced in [
            json!({}),
            json!(true),
            json!({ "type": "string", "description": "D" }),
            json!({ "type": ["string", "null"] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
            json!({ "$ref": "#/$defs/n" }),
            json!({ "$ref": "#/$defs/e" }),
            json!({ "allOf": [{ "$ref": "#/$defs/e" }], "default": "x" }),
            json!({ "type": "string", "enum": ["a", "b"] }),
            json!({ "const": "a" }),
            json!({ "type": "integer", "minimum": 1, "maximum": 3 }),
        ] {
            assert_eq!(open(format, &enforced), None, "{format} {enforced}");
        }
    }
}

#[test]
fn values_of_python_are_json_if_their_schema_says_more_than_types() {
    for schema in [
        json!({ "type": "string", "pattern": "^a" }),
        json!({ "type": "array", "items": { "type": "integer" } }),
        json!({ "type": "object", "properties": { "b": { "type": "boolean" } }, "required": ["b"] }),
        json!({ "enum": [[1], "a"] }),
    ] {
        let tools = tool(&json!({ "type": "object", "properties": { "a": schema } })).expect("tools");
        for format in ["pythonic", "lfm2", "tool-code"] {
            let Grammar { lark, unenforced, .. } = grammar(format, &tools).expect("a grammar");
            assert!(lark.contains(&format!("value_0_0: %json {schema}\n")), "{lark}");
            assert_eq!(unenforced, []);
        }
    }
}

#[test]
fn literals_have_their_types_and_values() {
    let value = |format: &str, schema: &Json| {
        let tools = tool(&json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] }));
        let lark = grammar(format, &tools.expect("tools")).expect("a grammar").lark;
        let line = |start: &str| lark.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
        line("value_0_0: ").or_else(|| line("call_0_0: ")).expect("a value")
    };
    let nullable = json!({ "type": ["string", "null"] });
    let whole = json!({ "type": "integer" });
    let listed = json!({ "enum": ["a", true, null, 1] });
    assert!(value("pythonic", &nullable).contains("(literal_text | literal_null)"));
    assert!(value("pythonic", &whole).contains("(literal_integer)"));
    assert_eq!(value("pythonic", &listed), r#"("\"a\"" | "True" | "None" | "1")"#);
    assert!(value("gemma-4", &nullable).contains("(literal_text | literal_null)"));
    assert_eq!(value("gemma-4", &listed), r#"("<|\"|>a<|\"|>" | "true" | "null" | "1")"#);
}

#[test]
fn what_literals_of_gemma_leave_open_is_named() {
    for format in ["gemma-4", "function-gemma"] {
        for (schema, keyword) in [
            (json!({ "type": "string", "pattern": "^a" }), "pattern"),
            (json!({ "type": "array", "items": { "type": "integer" } }), "items"),
            (json!({ "type": "object", "properties": {} }), "properties"),
            (json!({ "enum": [[1]] }), "enum"),
        ] {
            assert_eq!(open(format, &schema), found("/properties/a", keyword), "{format}");
        }
        assert_eq!(open(format, &json!({ "type": "number", "minimum": 1 })), None, "{format}");
        assert_eq!(open(format, &json!({ "type": "array" })), None, "{format}");
    }
}

#[test]
fn a_schema_of_a_value_has_the_definitions_that_it_needs() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "array", "items": { "$ref": "#/$defs/b" } }, "n": { "type": "integer" } },
        "$defs": { "b": { "type": "array", "items": { "$ref": "#/definitions/c" } }, "unused": {} },
        "definitions": { "c": { "type": "integer" } },
    });
    let lark = grammar("qwen-coder", &tool(&schema).expect("tools")).expect("a grammar").lark;
    let alone = r##"%json {"type":"array","items":{"$ref":"#/$defs/b"},"$defs":{"b":{"type":"array","items":{"$ref":"#/definitions/c"}}},"definitions":{"c":{"type":"integer"}}}"##;
    assert!(lark.contains(&format!("parameter_0_0: {alone}\n")), "{lark}");
    assert!(lark.contains("parameter_0_1: %json {\"type\":\"integer\"}\n"), "{lark}");
}

/// So many parameters with this schema, beside a definition with so many values.
fn large(parameters: usize, values: usize, schema: &Json) -> Json {
    let names: Vec<String> = (0..parameters).map(|number| format!("a{number}")).collect();
    let properties: Map<String, Json> = names.iter().map(|name| (name.clone(), schema.clone())).collect();
    json!({
        "type": "object", "$defs": { "x": { "enum": vec![0; values] } }, "not": {}, "properties": properties,
        "required": names,
    })
}

/// With a copy of the definitions for each parameter, it takes many gigabytes.
#[test]
fn the_work_for_a_tool_is_linear_in_its_size() {
    let began = Instant::now();
    let reference = json!({ "$ref": "#/$defs/x" });
    for schema in [
        large(8000, 30_000, &json!({})),
        large(3000, 20_000, &reference),
        large(3000, 4000, &reference),
        large(3000, 20_000, &json!({ "type": "array", "items": reference })),
        large(3000, 4000, &json!({ "anyOf": [reference, { "type": "string" }] })),
    ] {
        let tools = tool(&schema).expect("tools");
        let opened = tools.opened(|_| true);
        for format in ToolFormat::names() {
            for tools in [&tools, &opened] {
                match grammar(format, tools) {
                    Ok(grammar) => assert!(grammar.lark.len() < 1 << 20, "{format}"),
                    Err(error) => assert_eq!(error, ToolsError::Grammar, "{format}"),
                }
                assert!(began.elapsed() < HANG, "{format}");
            }
        }
    }
}

#[test]
fn a_schema_of_more_bytes_is_refused_with_the_name_of_its_tool() {
    let description = "d".repeat(256 << 10);
    let error = tool(&json!({ "type": "object", "description": description })).expect_err("too long");
    assert!(matches!(&error, ToolsError::TooLong { index: 0, name, .. } if name == "f"), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("tools[0]") && text.contains("\"f\"") && text.contains("262144"), "{text}");
}

/// A schema of which nothing can be enforced leaves the names of the parameters.
#[test]
fn an_empty_schema_keeps_the_names_of_parameters() {
    let tools =
        tool(&json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }));
    let open = tools.expect("tools").with_parameters(|_| Some(json!({})));
    for format in ["hermes", "qwen-coder"] {
        let lark = grammar(format, &open).expect("a grammar").lark;
        assert!(lark.contains("\"a\"") || lark.contains("=a>"), "{lark}");
    }
}
