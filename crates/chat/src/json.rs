//! The `tojson` filter: Python's `json.dumps`, as in `transformers`.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::MAX_OUTPUT_BYTES;
use crate::limits::{MAX_DEPTH, failed};
use crate::text::float;

/// Maximum indentation and separator length.
const MAX_WIDTH: usize = 64;

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, without HTML escaping.
pub(crate) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent = options.get::<Option<Value>>("indent")?.filter(|indent| !indent.is_none());
    let indent = indent.map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(MAX_WIDTH + 1)),
    });
    let [between_items, after_key] = match options.get::<Option<Vec<String>>>("separators")? {
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned),
        Some(two) => two.try_into().map_err(|_| failed("`separators` takes two strings"))?,
    };
    let widths = indent.iter().chain([&between_items, &after_key]).map(String::len);
    if widths.max() > Some(MAX_WIDTH) {
        return Err(failed("`tojson` takes at most 64 bytes between items"));
    }
    let mut writer = Writer {
        out: String::new(),
        indent,
        between_items,
        after_key,
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    writer.value(value, 0)?;
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
        let brackets = match value.kind() {
            ValueKind::String => {
                self.string(value.as_str().unwrap_or_default());
                return Ok(());
            }
            ValueKind::Seq | ValueKind::Iterable => ['[', ']'],
            ValueKind::Map => ['{', '}'],
            _ => {
                self.out.push_str(&scalar(value)?);
                return Ok(());
            }
        };
        self.out.push(brackets[0]);
        let mut items = value.try_iter()?.collect::<Vec<_>>();
        let is_map = value.kind() == ValueKind::Map;
        if is_map && self.sort_keys {
            items.sort();
        }
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(&self.between_items);
            }
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
        self.out.push(brackets[1]);
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A value without parts, or a key of a map.
fn scalar(value: &Value) -> Result<String, Error> {
    Ok(match value.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Number if value.is_integer() => value.to_string(),
        ValueKind::Number => match float(f64::try_from(value.clone())?).as_str() {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            number => number.to_owned(),
        },
        other => {
            let message = format!("a value of kind {other} is not JSON serializable");
            return Err(Error::new(ErrorKind::BadSerialization, message));
        }
    })
}
