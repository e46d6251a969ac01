//! The `tojson` filter: Python's `json.dumps`, as in `transformers`.

use minijinja::value::{Serde, ValueKind};
use minijinja::{Error, Value};

use crate::MAX_OUTPUT_BYTES;
use crate::limits::{MAX_DEPTH, failed};
use crate::text::float;

/// Maximum indentation and separator length.
const MAX_WIDTH: usize = 64;

pub(crate) fn from_json(text: &str) -> Result<Value, Error> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| failed(format!("`from_json`: {error}")))?;
    Ok(Value::from(Serde(value)))
}

/// `separators` are those between items and after keys. Without HTML escaping.
pub(crate) fn tojson(
    value: Value,
    ensure_ascii: bool,
    indent: Option<Value>,
    separators: Option<Vec<String>>,
    sort_keys: bool,
) -> Result<String, Error> {
    let indent = indent.map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(MAX_WIDTH + 1)),
    });
    let [between_items, after_key] = match separators {
        Some(two) => two.try_into().map_err(|_| failed("`separators` takes two strings"))?,
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned),
    };
    let widths = indent.iter().chain([&between_items, &after_key]).map(String::len);
    if widths.max() > Some(MAX_WIDTH) {
        return Err(failed("`tojson` takes at most 64 bytes between items"));
    }
    let mut writer = Writer { out: String::new(), indent, between_items, after_key, ensure_ascii, sort_keys };
    writer.value(&value, 0)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    indent: Option<String>,
    between_items: String,
    after_key: String,
    ensure_ascii: bool,
    sort_keys: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH || self.out.len() > MAX_OUTPUT_BYTES {
            return Err(failed("value is too large or too deeply nested for JSON"));
        }
        if let Some(text) = value.as_str() {
            self.string(text);
            return Ok(());
        }
        let is_map = match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => false,
            ValueKind::Map => true,
            _ => {
                self.out.push_str(&scalar(value)?);
                return Ok(());
            }
        };
        let mut items: Vec<Value> = value.try_iter()?.collect();
        if is_map && self.sort_keys {
            items.sort();
        }
        self.out.push(if is_map { '{' } else { '[' });
        for (index, item) in items.iter().enumerate() {
            self.out.push_str(if index > 0 { &self.between_items } else { "" });
            self.new_line(depth + 1);
            if is_map {
                match item.as_str() {
                    Some(key) => self.string(key),
                    None => self.string(&scalar(item)?),
                }
                self.out.push_str(&self.after_key);
                self.value(&value.get_item(item)?, depth + 1)?;
            } else {
                self.value(item, depth + 1)?;
            }
        }
        if !items.is_empty() {
            self.new_line(depth);
        }
        self.out.push(if is_map { '}' } else { ']' });
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        for c in serde_json::Value::from(text).to_string().chars() {
            if self.ensure_ascii && !c.is_ascii() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                self.out.push(c);
            }
        }
    }
}

fn scalar(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(value.to_string().to_lowercase()),
        ValueKind::Number if value.is_integer() => Ok(value.to_string()),
        ValueKind::Number => {
            let text = float(f64::try_from(value.clone())?);
            Ok(text.replace("nan", "NaN").replace("inf", "Infinity"))
        }
        other => Err(failed(format!("a value of kind {other} is not JSON serializable"))),
    }
}
