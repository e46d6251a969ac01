//! Metadata as JSON, in full, and abbreviated on one line.

use gguf::{Array, Value};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::output::abbreviated;

/// Maximum characters of a string.
const STRING: usize = 80;
/// Maximum characters of a string in an array.
const ELEMENT: usize = 16;
/// Maximum elements of an array.
const ELEMENTS: usize = 6;
/// The elements of arrays that [`short`] needs.
pub(super) const FEW: usize = ELEMENTS + 1;

/// A value with its type, such as `u32` or `[string; 32000]`.
#[derive(Serialize)]
pub(super) struct Entry {
    pub(super) r#type: String,
    pub(super) value: Json,
}

impl Entry {
    /// With up to `limit` elements of arrays, which may have millions.
    pub(super) fn new(value: &Value, limit: usize) -> Entry {
        let r#type = match value {
            Value::Array(array) => format!("[{}; {}]", array.element_type(), array.len()),
            other => other.value_type().to_string(),
        };
        Entry { r#type, value: json(value, limit) }
    }
}

/// The found facts, or `{"error": "why not"}`.
pub(super) fn or_error<T: Serialize, S: Serializer>(
    result: &Result<T, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(found) => found.serialize(serializer),
        Err(why) => serializer.collect_map([("error", why)]),
    }
}

/// Infinities and NaN are null.
pub(super) fn json(value: &Value, limit: usize) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => float(*v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(v) => elements(v, limit),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
    }
}

fn elements(array: &Array, limit: usize) -> Json {
    match array {
        // Without copies of whole arrays.
        Array::Array(arrays) => arrays.iter().take(limit).map(|array| elements(array, limit)).collect(),
        other => other.values().take(limit).map(|value| json(&value, limit)).collect(),
    }
}

/// With the digits of an f32, not of the f64 that JSON numbers are.
fn float(value: f32) -> Json {
    json!(value.to_string().parse::<f64>().ok())
}

/// On one line, with long strings and arrays cut short.
pub(super) fn short(value: &Json) -> String {
    let element = |value: &Json| match value {
        Json::String(text) => format!("\"{}\"", abbreviated(text, ELEMENT)),
        Json::Array(_) => "[…]".to_owned(),
        other => other.to_string(),
    };
    match value {
        Json::String(text) => abbreviated(text, STRING),
        Json::Array(values) => {
            let shown: Vec<String> = values.iter().take(ELEMENTS).map(element).collect();
            format!("[{}{}]", shown.join(", "), if values.len() > ELEMENTS { ", …" } else { "" })
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_nothing_steers_the_terminal() {
        let tokens: Vec<String> = (0..9).map(|i| format!("\u{1b}{i}")).collect();
        let Entry { r#type, value } = Entry::new(&Value::from(tokens), FEW);
        assert_eq!(r#type, "[string; 9]");
        let text = short(&value);
        assert!(text.starts_with(r#"["\u{1b}0", "\u{1b}1""#) && text.ends_with(", …]"), "{text}");
        assert_eq!(short(&json(&Value::from("a\nb".repeat(100)), FEW)).chars().last(), Some('…'));
        assert_eq!(short(&json(&Value::from(vec![1u32, 2]), FEW)), "[1, 2]");
        assert_eq!(short(&json(&Value::from(0.1f32), FEW)), "0.1");
    }
}
