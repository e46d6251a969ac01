//! Metadata for JSON, in full, and for people, abbreviated.

use gguf::{Array, Metadata, Value};
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::output::abbreviated;

/// Characters of a string that people get to see.
const STRING: usize = 80;
/// Characters of a string in an array.
const ELEMENT: usize = 16;
/// Elements of an array that people get to see.
const ELEMENTS: usize = 6;

/// A value without its type.
pub(super) struct Plain(pub(super) Value);

impl Serialize for Plain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Untyped(&self.0).serialize(serializer)
    }
}

/// What was found out, or `{"error": "why not"}`.
pub(super) fn or_error<T: Serialize, S: Serializer>(
    result: &Result<T, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(found) => found.serialize(serializer),
        Err(why) => serializer.collect_map([("error", why)]),
    }
}

/// Keys and values in the file's order: `{"key": {"type": "u32", "value": 7}}`.
pub(super) struct Entries<'a>(pub(super) &'a Metadata);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0.iter() {
            map.serialize_entry(key, &Entry(value))?;
        }
        map.end()
    }
}

struct Entry<'a>(&'a Value);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Entry", 2)?;
        entry.serialize_field("type", &value_type(self.0))?;
        entry.serialize_field("value", &Untyped(self.0))?;
        entry.end()
    }
}

struct Untyped<'a>(&'a Value);

impl Serialize for Untyped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(v) => v.serialize(serializer),
            Value::I8(v) => v.serialize(serializer),
            Value::U16(v) => v.serialize(serializer),
            Value::I16(v) => v.serialize(serializer),
            Value::U32(v) => v.serialize(serializer),
            Value::I32(v) => v.serialize(serializer),
            Value::F32(v) => v.serialize(serializer),
            Value::Bool(v) => v.serialize(serializer),
            Value::String(v) => v.serialize(serializer),
            Value::Array(v) => Elements(v).serialize(serializer),
            Value::U64(v) => v.serialize(serializer),
            Value::I64(v) => v.serialize(serializer),
            Value::F64(v) => v.serialize(serializer),
        }
    }
}

struct Elements<'a>(&'a Array);

impl Serialize for Elements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Array::U8(v) => v.serialize(serializer),
            Array::I8(v) => v.serialize(serializer),
            Array::U16(v) => v.serialize(serializer),
            Array::I16(v) => v.serialize(serializer),
            Array::U32(v) => v.serialize(serializer),
            Array::I32(v) => v.serialize(serializer),
            Array::F32(v) => v.serialize(serializer),
            Array::Bool(v) => v.serialize(serializer),
            Array::String(v) => v.serialize(serializer),
            Array::Array(v) => serializer.collect_seq(v.iter().map(Elements)),
            Array::U64(v) => v.serialize(serializer),
            Array::I64(v) => v.serialize(serializer),
            Array::F64(v) => v.serialize(serializer),
        }
    }
}

/// The type, such as `u32` or `[string; 32000]`.
pub(super) fn value_type(value: &Value) -> String {
    match value {
        Value::Array(array) => format!("[{}; {}]", array.element_type(), array.len()),
        other => other.value_type().to_string(),
    }
}

/// The value on one line, long strings and arrays cut short.
pub(super) fn short(value: &Value) -> String {
    match value {
        Value::U8(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::U16(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
        Value::Bool(v) => v.to_string(),
        Value::String(v) => abbreviated(v, STRING),
        Value::Array(v) => elements(v),
        Value::U64(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::F64(v) => v.to_string(),
    }
}

fn elements(array: &Array) -> String {
    match array {
        Array::U8(v) => list(v, u8::to_string),
        Array::I8(v) => list(v, i8::to_string),
        Array::U16(v) => list(v, u16::to_string),
        Array::I16(v) => list(v, i16::to_string),
        Array::U32(v) => list(v, u32::to_string),
        Array::I32(v) => list(v, i32::to_string),
        Array::F32(v) => list(v, f32::to_string),
        Array::Bool(v) => list(v, bool::to_string),
        Array::String(v) => list(v, |text| format!("\"{}\"", abbreviated(text, ELEMENT))),
        Array::Array(v) => list(v, |array| format!("[{} {}]", array.len(), array.element_type())),
        Array::U64(v) => list(v, u64::to_string),
        Array::I64(v) => list(v, i64::to_string),
        Array::F64(v) => list(v, f64::to_string),
    }
}

fn list<T>(values: &[T], show: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = values.iter().take(ELEMENTS).map(show).collect();
    format!("[{}{}]", shown.join(", "), if values.len() > ELEMENTS { ", …" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_nothing_steers_the_terminal() {
        let tokens: Vec<String> = (0..9).map(|i| format!("\u{1b}{i}")).collect();
        let value = Value::from(tokens);
        assert_eq!(value_type(&value), "[string; 9]");
        assert!(short(&value).starts_with(r#"["\u{1b}0", "\u{1b}1""#), "{}", short(&value));
        assert!(short(&value).ends_with(", …]"));
        assert_eq!(short(&Value::from("a\nb".repeat(100))).chars().last(), Some('…'));
        assert_eq!(short(&Value::from(vec![1u32, 2])), "[1, 2]");
    }
}
