//! The same verdicts as the package jsonschema, from `tools/goldens/schemas.py`.

use grammar::Source;
use serde_json::{Value as Json, json};

use crate::common::{Bench, Verdict};

/// What a refusal names.
const NAMES: [&str; 22] = [
    "`not`",
    "`if`",
    "`contains`",
    "`uniqueItems`",
    "`dependentRequired`",
    "`dependentSchemas`",
    "`propertyNames`",
    "`unevaluatedProperties`",
    "`unevaluatedItems`",
    "`format`",
    "`pattern`",
    "`$ref`",
    "`$dynamicRef`",
    "`oneOf`",
    "`minProperties`",
    "min/maxProperties",
    "patternProperty",
    "required property",
    "required item",
    "minimum",
    "greater than maxProperties",
    "minProperties > maxProperties",
];

fn goldens() -> Vec<(Json, Vec<(String, bool)>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/schemas.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("committed goldens")).expect("JSON")
}

#[test]
fn instances_are_accepted_iff_they_are_valid() {
    let bench = Bench::new("made-spm");
    let (mut wrong, mut refused, mut judged) = (Vec::new(), 0, 0);
    for (schema, instances) in goldens() {
        let grammar = match bench.compile(&Source::JsonSchema(schema.to_string())) {
            Ok(grammar) => grammar,
            Err(error) => {
                let error = error.to_string();
                let names = NAMES.iter().any(|name| error.contains(name));
                // What accepts nothing is refused, too.
                assert!(names || error.contains("Unsatisfiable"), "{schema}: {error}");
                refused += 1;
                continue;
            }
        };
        for (text, is_valid) in &instances {
            judged += 1;
            let verdict = bench.judge(&grammar, text);
            if (verdict == Verdict::Accepted) != *is_valid {
                wrong.push(format!("{schema}\n  {text}: {verdict:?}, valid: {is_valid}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {judged} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused < 65 && judged > 3000, "{judged} judged, {refused} schemas refused");
}

fn of(schema: Json) -> Source {
    Source::JsonSchema(schema.to_string())
}

#[test]
fn formats_accept_dates_that_there_are_and_names_that_a_host_may_have() {
    let bench = Bench::new("made-bpe-gpt-2");
    let days = ["\"2024-02-29\"", "\"2023-02-28\"", "\"2000-02-29\"", "\"2024-04-30\"", "\"0001-12-31\""];
    let none = ["\"2023-02-29\"", "\"1900-02-29\"", "\"0000-01-01\"", "\"2024-04-31\"", "\"2024-13-01\""];
    let all = [days, none].concat();
    assert_eq!(bench.accepted(&of(json!({"type": "string", "format": "date"})), &all), days);
    let times = ["\"2024-02-29T23:59:59Z\"", "\"2024-02-28t00:00:00.5+23:59\""];
    let none = ["\"2023-02-29T23:59:59Z\"", "\"2024-02-29T23:59:60Z\"", "\"2024-02-29T24:00:00Z\""];
    let all: Vec<&str> = times.iter().chain(&none).copied().collect();
    assert_eq!(bench.accepted(&of(json!({"type": ["string", "null"], "format": "date-time"})), &all), times);
    let long = |last: usize| format!("\"{}.{}\"", [&*"a".repeat(49); 5].join("."), "b".repeat(last));
    let names = ["\"a-b.c\"".to_owned(), long(3), long(4)];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(bench.accepted(&of(json!({"type": "string", "format": "hostname"})), &names), names[..2]);
}

/// A model that repeats itself comes to an end.
#[test]
fn white_space_between_parts_of_json_is_bounded() {
    let bench = Bench::new("made-bpe-gpt-2");
    let schema = of(json!({"type": "array", "items": {"type": "null"}}));
    let indented = |spaces: usize| format!("[\n\n{}null]", " ".repeat(spaces));
    let (most, more) = (indented(20), indented(21));
    let texts =
        ["[null]", "[ null\t, null ]", "[ null\r\n, null ]", "[  null]", "[\n\n\nnull]", &most, &more];
    assert_eq!(bench.accepted(&schema, &texts), ["[null]", "[ null\r\n, null ]", &most]);
}

/// Discriminated unions of Pydantic refer to their alternatives; a tag with a default is not required there.
#[test]
fn alternatives_exclude_each_other_by_their_tags() {
    let bench = Bench::new("made-bpe-gpt-2");
    let tagged = |tag: Json, required: Json| json!({"type": "object", "properties": {"k": tag, "n": {"type": "integer"}}, "required": required});
    let one_of = |a: Json, b: Json| {
        let alternatives = json!([{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"type": "null"}]);
        of(json!({"$defs": {"A": a, "B": b}, "oneOf": alternatives}))
    };
    let texts =
        ["{\"k\":\"a\",\"n\":1}", "{\"k\":\"b\",\"n\":1}", "null", "{\"k\":\"c\",\"n\":1}", "{\"n\":1}", "5"];
    let required = json!(["k", "n"]);
    let both = one_of(
        tagged(json!({"const": "a"}), required.clone()),
        tagged(json!({"enum": ["b"]}), required.clone()),
    );
    assert_eq!(bench.accepted(&both, &texts), texts[..3]);
    let by_default = one_of(
        tagged(json!({"const": "a", "default": "a"}), json!(["n"])),
        tagged(json!({"const": "b"}), json!(["n"])),
    );
    assert_eq!(bench.accepted(&by_default, &texts), texts[..3], "without a tag, both would hold");
    let once =
        one_of(tagged(json!({"const": "a"}), required.clone()), tagged(json!({"const": "b"}), json!(["n"])));
    assert_eq!(
        bench.accepted(&once, &texts),
        [&texts[..3], &texts[4..5]].concat(),
        "one holds without a tag"
    );
    // These may hold at once.
    for other in [json!({"enum": ["b", "a"]}), json!({"type": "string"}), json!({"const": "a"})] {
        let open = one_of(tagged(json!({"const": "a"}), required.clone()), tagged(other, required.clone()));
        let error = bench.compile(&open).expect_err("alternatives that may hold at once").to_string();
        assert!(error.contains("`oneOf`"), "{error}");
    }
}

/// As far as llguidance's remainders go.
#[test]
fn multiples_of_long_numbers_are_counted_right() {
    let bench = Bench::new("made-bpe-gpt-2");
    for (of_number, texts, valid) in [
        (json!(65_535), ["4294967295", "655350000000", "65536", "4294967296"], 2),
        (json!(1e-8), ["0.00000003", "12345.00000001", "0.000000001", "0.123456789"], 2),
    ] {
        let schema = of(json!({"type": "number", "multipleOf": of_number}));
        assert_eq!(bench.accepted(&schema, &texts), texts[..valid], "{of_number}");
    }
}

#[test]
fn what_asks_for_nothing_passes() {
    let bench = Bench::new("made-bpe-gpt-2");
    let texts = ["{\"a b\": 1}", "{}", "{\"a\": null}"];
    for names in [json!({"type": "string"}), json!({}), json!({"title": "Name"})] {
        let record =
            json!({"type": "object", "propertyNames": names, "additionalProperties": {"type": "number"}});
        assert_eq!(bench.accepted(&of(record), &texts), texts[..2]);
    }
    // Formats that JSON Schema does not define are annotations; what stands beside them holds.
    let id = of(json!({"type": "string", "format": "nanoid", "pattern": "^[a-z]{3}$"}));
    assert_eq!(bench.accepted(&id, &["\"abc\"", "\"abcd\""]), ["\"abc\""]);
}

/// As llama.cpp and ollama do.
#[test]
fn objects_of_clients_have_the_properties_that_are_named() {
    let bench = Bench::new("made-bpe-gpt-2");
    let place = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let further = "{\"n\": 1, \"m\": 2}";
    let texts = ["{\"n\": 1}", further];
    assert_eq!(bench.accepted(&of(place.clone()), &texts), texts, "as JSON Schema says");
    assert_eq!(bench.accepted(&Source::from_schema(place.clone()), &texts), texts[..1]);
    let list =
        Source::from_schema(json!({"$defs": {"P": place}, "type": "array", "items": {"$ref": "#/$defs/P"}}));
    assert_eq!(bench.accepted(&list, &["[{\"n\": 1}]", "[{\"n\": 1, \"m\": 2}]"]), ["[{\"n\": 1}]"]);

    let with = |key: &str, value: Json| {
        let mut schema = place.clone();
        schema[key] = value;
        Source::from_schema(schema)
    };
    for open in [
        with("additionalProperties", json!(true)),
        with("patternProperties", json!({"^m$": {"type": "integer"}})),
        with("required", json!(["n", "m"])),
        with("allOf", json!([{"properties": {"m": {"type": "integer"}}}])),
        with("enum", json!([{"n": 1, "m": 2}])),
    ] {
        assert_eq!(bench.accepted(&open, &[further]), [further], "{open:?}");
    }
    let part = |name: &str| json!({"type": "object", "properties": {name: {}}, "required": [name]});
    let both = Source::from_schema(json!({
        "type": "object", "properties": {"x": part("n")}, "patternProperties": {"^x": part("m")},
    }));
    let inner = format!("{{\"x\": {further}}}");
    assert_eq!(bench.accepted(&both, &[&inner]), [&inner]);
}

/// Names of properties, different items, null beside other types, and bounds that no number is compared with exactly.
#[test]
fn keywords_that_others_can_stand_for_are_enforced() {
    let bench = Bench::new("made-bpe-gpt-2");
    let of = |schema: Json, texts: &[&str], valid: usize| {
        assert_eq!(bench.accepted(&of(schema.clone()), texts), texts[..valid], "{schema}");
    };
    let names = |names: Json| json!({"type": "object", "propertyNames": names, "additionalProperties": {"type": "integer"}});
    of(
        names(json!({"enum": ["a", "b"]})),
        &["{}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}", "{\"c\": 1}", "{\"a\": \"x\"}"],
        3,
    );
    of(
        names(json!({"type": "string", "pattern": "^x"})),
        &["{\"xa\": 1}", "{\"a\": 1}", "{\"xa\": null}"],
        1,
    );
    of(names(json!({"maxLength": 2})), &["{\"ab\": 1}", "{\"abc\": 1}"], 1);

    let set = |items: Json| json!({"type": "array", "items": items, "uniqueItems": true, "minItems": 1});
    of(
        set(json!({"enum": ["a", "b", "c"]})),
        &["[\"b\"]", "[\"c\", \"a\"]", "[\"a\",\"b\",\"c\"]", "[]", "[\"a\",\"a\"]"],
        3,
    );
    of(set(json!({"type": "boolean"})), &["[true,false]", "[true,true]"], 1);
    let eight = json!({"type": "string", "enum": ["a", "b", "c", "d", "e", "f", "g", "h"]});
    of(set(eight), &["[\"a\",\"h\"]", "[\"a\",\"a\"]"], 1);

    let nullable = |schema: Json| {
        let mut schema = schema;
        schema["nullable"] = true.into();
        schema
    };
    of(nullable(json!({"type": "string"})), &["\"a\"", "null", "1"], 2);
    of(nullable(json!({"type": "string", "enum": ["a"]})), &["\"a\"", "null", "\"b\""], 2);
    let referred = json!({"$defs": {"A": {"type": "integer"}}, "type": "object", "required": ["x"],
        "properties": {"x": {"$ref": "#/$defs/A", "nullable": true}}});
    of(referred, &["{\"x\": 1}", "{\"x\": null}", "{\"x\": \"a\"}"], 2);

    of(
        json!({"type": "integer", "minimum": -9223372036854775808_i64, "maximum": 1e300}),
        &["5", "-7", "0.5"],
        2,
    );
    let nulls = json!({"type": "object", "properties": {"a": {"type": "integer", "enum": null}}, "required": null, "description": null});
    of(nulls, &["{}", "{\"a\": 1}", "{\"a\": \"x\"}"], 2);
    of(
        json!({"type": "dict", "properties": {"a": {"type": "float"}}, "required": ["a"]}),
        &["{\"a\": 1.5}", "{\"a\": \"x\"}"],
        1,
    );
    of(json!({"type": "STRING"}), &["\"a\"", "1"], 1);
    of(json!({"type": ["float", "double"]}), &["1.5", "\"a\""], 1);

    // pydantic's sets and dictionaries of an enumeration.
    let colours = json!({"C": {"enum": ["r", "g"], "type": "string"}});
    let set = json!({"$defs": colours, "type": "array", "items": {"$ref": "#/$defs/C"}, "uniqueItems": true});
    of(set, &["[\"g\", \"r\"]", "[\"r\", \"r\"]"], 1);
    let map = json!({"$defs": colours, "type": "object", "propertyNames": {"$ref": "#/$defs/C"}, "additionalProperties": {"type": "integer"}});
    of(map, &["{\"r\": 1}", "{\"x\": 1}"], 1);
    // The format of zod's address stands for its look-around.
    let look = "^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z.]+$";
    of(json!({"type": "string", "format": "email", "pattern": look}), &["\"a@b.de\"", "\"a\""], 1);
}

/// What cannot be enforced is left out by name, and the rest holds.
#[test]
fn a_relaxed_schema_says_what_it_leaves_open() {
    let bench = Bench::new("made-bpe-gpt-2");
    let look = "^(?!\\.)[a-z.]+$";
    for (schema, pointer, keyword, texts, valid) in [
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": look}}, "required": ["a"]}),
            "/properties/a",
            "pattern",
            ["{\"a\": \"x\"}", "{\"a\": 1}"],
            1,
        ),
        (json!({"type": "integer", "not": {"const": 1}}), "", "not", ["2", "\"a\""], 1),
        (
            json!({"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}}),
            "",
            "contains",
            ["[2]", "[null]"],
            1,
        ),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "", "oneOf", ["1.5", "null"], 1),
        (
            json!({"$defs": {"A": {"type": "object", "properties": {"b": {"type": "string", "pattren": "a"}}}}, "$ref": "#/$defs/A"}),
            "/$defs/A/properties/b",
            "pattren",
            ["{\"b\": \"x\"}", "{\"b\": 1}"],
            1,
        ),
        (json!({"type": "string", "minLength": 99999999}), "", "minLength", ["\"a\"", "1"], 1),
    ] {
        assert!(bench.compile(&of(schema.clone())).is_err(), "{schema}");
        let (relaxed, left_open) = bench.compiler().relaxed(&schema);
        let found: Vec<_> =
            left_open.iter().map(|error| (&*error.pointer, error.problem.keyword())).collect();
        assert_eq!(found, [(pointer, Some(keyword))], "{schema}");
        assert_eq!(bench.accepted(&of(relaxed), &texts), texts[..valid], "{schema}");
    }
}

#[test]
fn thousands_of_alternatives_are_enforced() {
    let bench = Bench::new("made-bpe-gpt-2");
    let names: Vec<String> = (0..5000).map(|number| format!("item number {number}")).collect();
    let gbnf = format!(
        "root ::= {}",
        names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" | ")
    );
    assert_eq!(
        bench.accepted(&Source::Gbnf(gbnf), &["item number 4999", "item number 5000"]),
        ["item number 4999"]
    );
    let listed = of(json!({"enum": names}));
    assert_eq!(bench.accepted(&listed, &["\"item number 77\"", "\"item number x\""]), ["\"item number 77\""]);
}
