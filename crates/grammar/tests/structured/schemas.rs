//! The same verdicts as the package jsonschema, from `tools/goldens/schemas.py`.

use grammar::Source;
use serde_json::Value as Json;

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
