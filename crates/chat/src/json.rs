//! The `tojson` filter: Python's `json.dumps`, as in `transformers`.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::MAX_OUTPUT_BYTES;
use crate::limits::MAX_DEPTH;
use crate::text::float;

/// Maximum indentation and separator length.
const MAX_WIDTH: usize = 64;

/// `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`, without HTML escaping.
pub(crate) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let indent = indent.filter(|indent| !indent.is_none()).map(|indent| match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(MAX_WIDTH)),
    });
    let [between_items, after_key] = match separators.as_deref() {
        None if indent.is_some() => [",", ": "],
        None => [", ", ": "],
        Some([item, key]) => [item.as_str(), key.as_str()],
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "`separators` takes two strings")),
    }
    .map(str::to_owned);
    let widths = indent.iter().chain([&between_items, &after_key]).map(String::len);
    if widths.max().unwrap_or(0) > MAX_WIDTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "`tojson` takes at most 64 bytes between items"));
    }
    let mut writer = Writer {
        out: String::new(),
        indent,
        between_items,
        after_key,
        ensure_ascii: ensure_ascii.unwrap_or(false),
        sort_keys: sort_keys.unwrap_or(false),
    };
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
            let message = "value is too large or too deeply nested for JSON";
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.container(['[', ']'], &items, depth, |writer, item| writer.value(item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort_keys {
                    keys.sort();
                }
                self.container(['{', '}'], &keys, depth, |writer, key| {
                    match key.kind() {
                        ValueKind::None => writer.string("null"),
                        ValueKind::Bool => writer.string(if key.is_true() { "true" } else { "false" }),
                        _ => writer.string(&key.to_string()),
                    }
                    let after_key = writer.after_key.clone();
                    writer.out.push_str(&after_key);
                    writer.value(&value.get_item(key)?, depth + 1)
                })?;
            }
            other => {
                let message = format!("a value of kind {other} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    fn container(
        &mut self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        mut write: impl FnMut(&mut Writer, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                let between_items = self.between_items.clone();
                self.out.push_str(&between_items);
            }
            self.new_line(depth + 1);
            write(self, item)?;
        }
        if !items.is_empty() {
            self.new_line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
    }

    /// A number in the format of Python's `repr`.
    fn number(&mut self, value: &Value) {
        if value.is_integer() {
            self.out.push_str(&value.to_string());
            return;
        }
        let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
        self.out.push_str(&match float(number).as_str() {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            number => number.to_owned(),
        });
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
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
