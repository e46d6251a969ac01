//! Schemas as zod, pydantic, OpenAPI and function-calling leaderboards write them, from `tools/goldens/dialects.py`: each is enforced,
//! as the crate jsonschema judges, or what is left open has a place.

use chat::{Choice, ToolFormat, Tools, plain_schema};
use grammar::Source;
use serde_json::{Value as Json, json};

use crate::common::Bench;
use crate::sampled::draw;

/// Names and schemas.
fn schemas() -> Vec<(String, Json)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/dialects.json");
    let text = std::fs::read_to_string(path).expect("committed goldens");
    let all: Vec<Json> = serde_json::from_str(&text).expect("JSON");
    let entry = |entry: Json| (entry["name"].as_str().expect("a name").to_owned(), entry["schema"].clone());
    all.into_iter().map(entry).collect()
}

fn source(schema: &Json) -> Source {
    Source::JsonSchema(schema.to_string())
}

#[test]
fn schemas_of_generators_are_enforced_or_named() {
    let bench = Bench::new("made-spm");
    let (mut enforced, mut relaxed, mut drawn, mut wrong) = (0, 0, 0, Vec::new());
    for (name, schema) in schemas() {
        let (schema, grammar) = match bench.compile(&source(&schema)) {
            Ok(grammar) => {
                enforced += 1;
                (plain_schema(schema), grammar)
            }
            Err(_) => {
                let (rest, left_open) = bench.compiler().relaxed(&schema);
                let is_named = |error: &grammar::SchemaError| {
                    error.problem.keyword().is_some()
                        && plain_schema(schema.clone()).pointer(&error.pointer).is_some()
                };
                assert!(!left_open.is_empty() && left_open.iter().all(is_named), "{name}: {left_open:?}");
                relaxed += 1;
                let grammar = bench.compile(&source(&rest)).unwrap_or_else(|error| panic!("{name}: {error}"));
                (rest, grammar)
            }
        };
        let mut schema = schema;
        // An annotation, which draft 7 may assert.
        schema.as_object_mut().and_then(|fields| fields.remove("contentEncoding"));
        let options = jsonschema::options().should_validate_formats(true);
        // Tuples of OpenAPI 3.0 are those of draft 7.
        let judge =
            options.build(&schema).or_else(|_| options.with_draft(jsonschema::Draft::Draft7).build(&schema));
        let judge = judge.unwrap_or_else(|error| panic!("{name}: {error}: {schema}"));
        for seed in 0..6 {
            let Some(text) = draw(&bench, &grammar, seed * 7919 + 1) else { continue };
            let value: Json = match serde_json::from_str(&text) {
                Ok(value) => value,
                // JSON's numbers have no largest one.
                Err(error) if error.to_string().contains("number out of range") => continue,
                Err(error) => panic!("{name}: {text}: {error}"),
            };
            drawn += 1;
            if let Err(error) = judge.validate(&value) {
                wrong.push(format!("{name}: {text}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {drawn} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        enforced > 350 && relaxed < 60 && drawn > 1000,
        "{enforced} enforced, {relaxed} relaxed, {drawn} drawn"
    );
}

/// A schema that cannot be enforced refuses no other tool, in no format.
#[test]
fn one_tool_spoils_no_others() {
    let bench = Bench::new("made-bpe-gpt-2");
    let good = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]});
    let tool = |name: &str, schema: &Json| json!({"function": {"name": name, "parameters": schema}});
    let mut seen = 0;
    for (name, schema) in schemas() {
        if bench.compile(&source(&schema)).is_ok() {
            continue;
        }
        seen += 1;
        let spoilt = json!({"type": "object", "properties": {"y": schema}});
        let mut tools: Vec<Json> = (0..10).map(|number| tool(&format!("good_{number}"), &good)).collect();
        tools.push(tool("spoilt", &spoilt));
        let tools = Tools::read(&tools).expect("tools");
        let relax = |tool: &chat::Tool| Some(bench.compiler().relaxed(&tool.parameters).0);
        let relaxed = tools.with_parameters(relax);
        for format in ["hermes", "qwen-coder", "lfm2", "gemma-4", "generic"] {
            let format = ToolFormat::named(format, &[]).expect("a format");
            for choice in [Choice::Auto, Choice::Required, Choice::Named("spoilt".into())] {
                let lark = format.grammar(&"", &relaxed, &choice, true, None).expect("a grammar").lark;
                let compiled = bench.compile(&Source::Lark(lark));
                compiled.unwrap_or_else(|error| panic!("{name}, {}: {error}", format.name()));
            }
        }
    }
    assert!(seen > 5, "{seen}");
}
