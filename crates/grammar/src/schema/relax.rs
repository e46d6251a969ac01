//! Schemas without what cannot be enforced.

use serde_json::{Map, Value, json};

use super::{SchemaError, SchemaProblem, normalized};

/// Most keywords that are left out one by one.
const MOST: usize = 64;

/// `schema` without the keywords that [`normalized`] refuses, and what it says of each. With more than [`MOST`], or if that does not
/// help, any value is accepted.
pub(crate) fn relaxed(schema: &Value) -> (Value, Vec<SchemaError>) {
    let (mut schema, mut left_open) = (chat::plain_schema(schema.clone()), Vec::new());
    while left_open.len() < MOST {
        let Err(error) = normalized(&schema) else { return (schema, left_open) };
        let is_removed = remove(&mut schema, &error);
        left_open.push(error);
        if !is_removed {
            break;
        }
    }
    let problem = SchemaProblem::NotEnforced("too much of it cannot be".to_owned());
    left_open.push(SchemaError { pointer: String::new(), problem });
    (json!({}), left_open)
}

/// Removes from `schema` what `error` is about. Returns whether that was anything.
fn remove(schema: &mut Value, error: &SchemaError) -> bool {
    if error.problem == SchemaProblem::Multiples {
        return remove_all(schema, "multipleOf");
    }
    let Some(place) = schema.pointer_mut(&error.pointer) else { return false };
    if let SchemaProblem::NoSchema { .. } = error.problem {
        *place = true.into();
        return true;
    }
    let Some(keyword) = error.problem.keyword() else { return false };
    let Some(fields) = place.as_object_mut() else { return false };
    match keyword {
        // Without these, no other property would be permitted.
        "properties" | "patternProperties" => {
            fields.remove("additionalProperties");
        }
        "if" => ["then", "else"].iter().for_each(|branch| drop(fields.remove(*branch))),
        _ => {}
    }
    fields.remove(keyword).is_some()
}

/// Removes `keyword` everywhere. Returns whether there was one.
fn remove_all(schema: &mut Value, keyword: &str) -> bool {
    match schema {
        Value::Object(fields) => {
            let is_removed = fields.remove(keyword).is_some();
            fields.values_mut().fold(is_removed, |found, value| remove_all(value, keyword) | found)
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |found, value| remove_all(value, keyword) | found)
        }
        _ => false,
    }
}

/// `schema` with `anyOf` in place of each `oneOf`, and their places.
pub(crate) fn without_one_of(schema: &mut Value, at: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(alternatives) = fields.remove("oneOf") {
                found.push(at.to_owned());
                either(fields, alternatives);
            }
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                without_one_of(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            let numbered = items.iter_mut().enumerate();
            numbered.for_each(|(number, item)| without_one_of(item, &format!("{at}/{number}"), found));
        }
        _ => {}
    }
}

fn either(fields: &mut Map<String, Value>, alternatives: Value) {
    if fields.contains_key("anyOf") {
        let all = fields.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(json!({ "anyOf": alternatives }));
        }
    } else {
        fields.insert("anyOf".into(), alternatives);
    }
}
