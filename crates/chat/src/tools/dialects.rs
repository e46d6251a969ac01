//! Schemas of other dialects as JSON schema: OpenAPI 3.0's `nullable` and exclusive bounds that are true, names of types that Python, Gemini and function-calling
//! leaderboards write, and keywords that are `null`.

use serde_json::{Map, Value as Json, json};

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 18] = [
    "items",
    "additionalItems",
    "prefixItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "extends",
    "disallow",
    "contentSchema",
];

/// Keywords whose members are schemas.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords of which `null` is a value.
const VALUES: [&str; 3] = ["const", "default", "example"];

/// `schema` in JSON schema's own words. What is none stays as it is.
pub fn plain_schema(schema: Json) -> Json {
    let fields = match schema {
        Json::Object(fields) => fields,
        Json::Array(schemas) => return schemas.into_iter().map(plain_schema).collect(),
        other => return other,
    };
    let mut plain = Map::new();
    for (name, value) in fields {
        let value = match (&*name, value) {
            (name, Json::Null) if !VALUES.contains(&name) => continue,
            ("type", value) => match types(value) {
                Some(value) => value,
                None => continue,
            },
            (name, Json::Object(members)) if MAPS.contains(&name) => {
                members.into_iter().map(|(key, schema)| (key, plain_schema(schema))).collect()
            }
            (name, value) if SCHEMAS.contains(&name) => plain_schema(value),
            (_, value) => value,
        };
        plain.insert(name, value);
    }
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if let Some(&Json::Bool(is_exclusive)) = plain.get(exclusive) {
            plain.remove(exclusive);
            if let Some(value) = plain.get(bound).filter(|_| is_exclusive).cloned() {
                plain.remove(bound);
                plain.insert(exclusive.into(), value);
            }
        }
    }
    if plain.get("nullable").is_some_and(Json::is_boolean)
        && plain.remove("nullable") == Some(Json::Bool(true))
    {
        return nullable(plain);
    }
    Json::Object(plain)
}

/// The name or names of types in JSON schema; `None` if every type is meant.
fn types(value: Json) -> Option<Json> {
    match value {
        Json::String(name) => match &*name.to_lowercase() {
            "any" => None,
            "dict" | "map" | "hashmap" => Some("object".into()),
            "float" | "double" | "decimal" => Some("number".into()),
            "int" | "long" => Some("integer".into()),
            "str" => Some("string".into()),
            "bool" => Some("boolean".into()),
            "list" | "tuple" | "set" | "arraylist" => Some("array".into()),
            "none" => Some("null".into()),
            known @ ("null" | "boolean" | "integer" | "number" | "string" | "array" | "object") => {
                Some(known.into())
            }
            _ => Some(Json::String(name)),
        },
        Json::Array(names) => {
            let mut plain = names.into_iter().map(types).collect::<Option<Vec<_>>>()?;
            let all = plain.clone();
            let mut at = 0..;
            plain.retain(|name| at.next().is_some_and(|at: usize| !all[..at].contains(name)));
            Some(plain.into())
        }
        other => Some(other),
    }
}

/// The schema that permits null, too.
fn nullable(mut fields: Map<String, Json>) -> Json {
    let null = Json::from("null");
    if let Some(value) = fields.remove("const") {
        fields.insert("enum".into(), json!([value]));
    }
    if let Some(Json::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Json::Null)
    {
        values.push(Json::Null);
    }
    match fields.get_mut("type") {
        Some(Json::Array(names)) if !names.contains(&null) => names.push(null.clone()),
        Some(kind @ Json::String(_)) if *kind != null => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
    let combines = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|keyword| fields.contains_key(*keyword));
    if combines { json!({ "anyOf": [fields, { "type": "null" }] }) } else { Json::Object(fields) }
}
