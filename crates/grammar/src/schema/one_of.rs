//! Alternatives of `oneOf` that exclude each other.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::pointer::Pointer;

const MAX_HOPS: usize = 16;

/// Alternatives of which at most one holds, so that `anyOf` says the same.
pub(super) struct Exclusive {
    /// The property that tells alternatives that are objects from each other, and those that must be told to require it.
    pub(super) tag: Option<(String, HashSet<usize>)>,
}

/// Whether `alternatives` exclude each other: by their types, and objects by a property that is another text in each.
pub(super) fn exclusive(root: &Value, alternatives: &[Value]) -> Option<Exclusive> {
    let (mut seen, mut objects) = (HashSet::new(), Vec::new());
    for (index, alternative) in alternatives.iter().enumerate() {
        let keywords = resolved(root, alternative)?;
        let types = types(keywords)?;
        if types == ["object"] {
            objects.push((index, keywords));
        } else if types.contains(&"object") || !types.into_iter().all(|name| seen.insert(name)) {
            return None;
        }
    }
    let [(_, first), _, ..] = &objects[..] else { return Some(Exclusive { tag: None }) };
    let is_tag = |tag: &&String| {
        let mut texts = HashSet::new();
        objects.iter().all(|(_, keywords)| {
            let property = properties(keywords).find(|(name, _)| name == tag).map(|(_, schema)| schema);
            let property = property.and_then(|schema| self::texts(resolved(root, schema)?));
            property.is_some_and(|values| values.into_iter().all(|text| texts.insert(text)))
        })
    };
    let optional = |tag: &String| -> HashSet<usize> {
        let requires = |keywords: &Map<String, Value>| {
            let required = keywords.get("required").and_then(Value::as_array);
            required.is_some_and(|names| names.iter().any(|name| name == tag))
        };
        objects.iter().filter(|(_, keywords)| !requires(keywords)).map(|(index, _)| *index).collect()
    };
    let mut tags = properties(first).map(|(name, _)| name).filter(is_tag).map(|tag| (tag, optional(tag)));
    let first = tags.next()?;
    // Without the tag, at most the one alternative holds that does not require it.
    let is_enough = |(_, optional): &(&String, HashSet<usize>)| optional.len() <= 1;
    if is_enough(&first) || tags.any(|tag| is_enough(&tag)) {
        return Some(Exclusive { tag: None });
    }
    let (tag, optional) = first;
    Some(Exclusive { tag: Some((tag.clone(), optional)) })
}

/// The keywords of `schema`, or those of the schema to which it only refers.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Map<String, Value>> {
    let mut keywords = schema.as_object()?;
    for _ in 0..MAX_HOPS {
        let Some(reference) = keywords.get("$ref") else { return Some(keywords) };
        let is_alone = keywords.keys().all(|name| name == "$ref" || chat::is_annotation(name));
        let target = Pointer::parse(reference.as_str()?.strip_prefix('#')?).filter(|_| is_alone)?;
        keywords = target.find(root)?.as_object()?;
    }
    None
}

fn types(keywords: &Map<String, Value>) -> Option<Vec<&str>> {
    let names = match keywords.get("type")? {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    Some(names.into_iter().map(|name| if name == "integer" { "number" } else { name }).collect())
}

fn properties(keywords: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    keywords.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The texts that `keywords` list; `None` if they accept anything else.
fn texts(keywords: &Map<String, Value>) -> Option<Vec<&str>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(Value::String(text)), _) => Some(vec![text]),
        (None, Some(Value::Array(values))) => values.iter().map(Value::as_str).collect(),
        _ => None,
    }
}
