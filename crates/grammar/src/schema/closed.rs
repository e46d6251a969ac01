//! Objects that have only the properties that their schema names.

use serde_json::{Map, Value};

/// Keywords that say which properties an object has.
const PROPERTY_KEYWORDS: &str = "properties required const enum additionalProperties patternProperties propertyNames \
    unevaluatedProperties minProperties maxProperties";

/// Keywords whose schemas hold for the same value.
const IN_PLACE: &str = "allOf anyOf oneOf $ref";

/// Keywords whose value is a schema or a list of them, or whose members are schemas.
const BELOW: &str = "items prefixItems additionalProperties additionalItems allOf anyOf";
const MEMBERS: &str = "properties patternProperties $defs definitions";

fn is_one_of(keyword: &str, list: &str) -> bool {
    list.split(' ').any(|known| known == keyword)
}

/// `schema` with `additionalProperties`: false where an object names its properties but no rule for others, as llama.cpp and
/// ollama understand it: else a small model invents further properties. Whatever this schema accepts, `schema` accepts.
///
/// A schema is left as it is if several parts of it tell the properties of one object, since each would refuse those of the
/// others, or if it has `oneOf`, which counts the alternatives that hold.
pub(crate) fn closed(mut schema: Value) -> Value {
    if !has_shared_objects(&schema) {
        close(&mut schema);
    }
    schema
}

/// Whether several schemas may tell the properties of one object. Takes names of properties for keywords, too.
fn has_shared_objects(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_shared_objects),
        Value::Object(keywords) => {
            let names = |list| keywords.keys().filter(|key| is_one_of(key, list)).count();
            let in_place = names(IN_PLACE);
            let is_shared = keywords.get("allOf").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
            is_shared
                || keywords.contains_key("oneOf")
                || keywords.contains_key("properties") && keywords.contains_key("patternProperties")
                || in_place > 1
                || in_place == 1 && names(PROPERTY_KEYWORDS) > 0
                || keywords.values().any(has_shared_objects)
        }
        _ => false,
    }
}

fn close(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(close),
        Value::Object(keywords) => {
            if names_all(keywords) {
                keywords.insert("additionalProperties".to_owned(), false.into());
            }
            for (keyword, value) in keywords.iter_mut() {
                match value {
                    Value::Object(schemas) if is_one_of(keyword, MEMBERS) => {
                        schemas.values_mut().for_each(close);
                    }
                    schemas if is_one_of(keyword, BELOW) => close(schemas),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Whether `keywords` name properties, all that are required among them, and say nothing of others.
fn names_all(keywords: &Map<String, Value>) -> bool {
    let says_more = keywords
        .keys()
        .any(|name| is_one_of(name, PROPERTY_KEYWORDS) && !is_one_of(name, "properties required"));
    let Some(Value::Object(properties)) = keywords.get("properties") else { return false };
    let required = keywords.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    !says_more && !properties.is_empty() && required.all(|name| properties.contains_key(name))
}
