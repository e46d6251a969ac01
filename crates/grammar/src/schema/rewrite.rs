//! Keywords that llguidance does not have, as others that demand the same.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Most lists that stand for one of different items.
const MAX_LISTS: usize = 400;

/// `keywords` of a schema in `root`, without `propertyNames` and `uniqueItems` where others can demand the same.
pub(super) fn keywords<'a>(keywords: &'a Map<String, Value>, root: &Value) -> Cow<'a, Map<String, Value>> {
    let mut keywords = Cow::Borrowed(keywords);
    let has_properties =
        ["properties", "patternProperties"].iter().any(|keyword| keywords.contains_key(*keyword));
    let named = keywords.get("propertyNames").and_then(|schema| names(referred(schema, root)?));
    if let Some(names) = named.filter(|_| !has_properties) {
        let keywords = keywords.to_mut();
        keywords.remove("propertyNames");
        let value = keywords.insert("additionalProperties".into(), false.into()).unwrap_or(Value::Bool(true));
        match names {
            Names::Listed(names) => {
                let properties = names.into_iter().map(|name| (name, value.clone()));
                keywords.insert("properties".into(), properties.collect());
            }
            Names::Pattern(pattern) => {
                keywords.insert("patternProperties".into(), json!({ pattern: value }));
            }
        }
    }
    if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
        let at_most_one = keywords.get("maxItems").and_then(Value::as_u64).is_some_and(|most| most <= 1);
        let lists = if at_most_one { None } else { different(&keywords, root) };
        if at_most_one || lists.is_some() {
            let keywords = keywords.to_mut();
            keywords.remove("uniqueItems");
            if let Some(lists) = lists {
                ["items", "minItems", "maxItems"].iter().for_each(|keyword| drop(keywords.remove(*keyword)));
                keywords.insert("enum".into(), lists);
            }
        }
    }
    keywords
}

/// The keywords of `schema`, or of the schema to which it refers.
fn referred<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Map<String, Value>> {
    let place = schema.get("$ref").and_then(|place| place.as_str()?.strip_prefix('#'));
    let target = place.and_then(|place| root.pointer(place));
    target.unwrap_or(schema).as_object()
}

/// Names of properties.
enum Names {
    Listed(Vec<String>),
    Pattern(String),
}

/// The names that a schema of `propertyNames` permits; `None` if another keyword is in it.
fn names(schema: &Map<String, Value>) -> Option<Names> {
    let asks = |name: &&String| *name != "type" && !chat::is_annotation(name);
    let asked: Vec<&str> = schema.keys().filter(asks).map(String::as_str).collect();
    let length = |keyword| schema.get(keyword).and_then(Value::as_u64);
    match asked[..] {
        ["enum"] => {
            let names = schema["enum"].as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<_>>().map(Names::Listed)
        }
        ["const"] => Some(Names::Listed(vec![schema["const"].as_str()?.to_owned()])),
        ["pattern"] => Some(Names::Pattern(schema["pattern"].as_str()?.to_owned())),
        ["minLength"] | ["maxLength"] | ["minLength", "maxLength"] | ["maxLength", "minLength"] => {
            let most = length("maxLength").map_or(String::new(), |most| most.to_string());
            Some(Names::Pattern(format!("^[\\s\\S]{{{},{most}}}$", length("minLength").unwrap_or(0))))
        }
        _ => None,
    }
}

/// The lists of different items that `keywords` permit, each order of few values, or one order of several.
fn different(keywords: &Map<String, Value>, root: &Value) -> Option<Value> {
    let array = keywords.get("type").is_none_or(|kind| kind == "array");
    let others =
        ["enum", "const", "prefixItems", "contains"].iter().any(|keyword| keywords.contains_key(*keyword));
    let items = referred(keywords.get("items")?, root).filter(|_| array && !others)?;
    let asks = |name: &&String| !chat::is_annotation(name);
    let asked: Vec<&str> = items.keys().filter(asks).map(String::as_str).collect();
    let values: Vec<Value> = match asked[..] {
        ["enum"] | ["enum", "type"] | ["type", "enum"] => items["enum"].as_array()?.clone(),
        ["const"] | ["const", "type"] | ["type", "const"] => vec![items["const"].clone()],
        ["type"] if items["type"] == "boolean" => vec![true.into(), false.into()],
        _ => return None,
    };
    let least = keywords.get("minItems").map_or(Some(0), Value::as_u64)?;
    let most = keywords.get("maxItems").map_or(Some(u64::MAX), Value::as_u64)?;
    let fits = |list: &Vec<&Value>| (least..=most).contains(&(list.len() as u64));
    // In any order while these are few, or else in that of the values.
    [false, true].into_iter().find_map(|is_sorted| {
        let mut lists: Vec<Vec<&Value>> = vec![Vec::new()];
        let mut at = 0;
        while at < lists.len() && lists.len() <= MAX_LISTS {
            let list = lists[at].clone();
            let last = list.last().and_then(|last| values.iter().position(|value| value == *last));
            let from = if is_sorted { last.map_or(0, |last| last + 1) } else { 0 };
            for value in values.get(from..).unwrap_or_default() {
                if !list.contains(&value) {
                    lists.push([&list[..], &[value]].concat());
                }
            }
            at += 1;
        }
        let is_whole = lists.len() <= MAX_LISTS;
        lists.retain(fits);
        (is_whole && !lists.is_empty()).then(|| json!(lists))
    })
}
