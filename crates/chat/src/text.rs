//! Formats values like Python's `str` and `repr`.

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use crate::limits::{Budget, MAX_DEPTH, failed};

/// Text under construction; every byte is charged.
pub(crate) struct Text<'a> {
    pub(crate) text: String,
    budget: &'a mut Budget,
}

/// Formats `value`.
pub(crate) fn text_of(state: &mut State, value: &Value) -> Result<String, Error> {
    let mut text = Text::new(state);
    text.value(value)?;
    Ok(text.text)
}

impl Text<'_> {
    pub(crate) fn new<'a>(state: &'a mut State) -> Text<'a> {
        Text { text: String::new(), budget: Budget::of(state) }
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), Error> {
        self.budget.charge(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Adds `text` repeatedly.
    pub(crate) fn repeat(&mut self, text: &str, times: usize) -> Result<(), Error> {
        self.budget.charge(text.len().saturating_mul(times))?;
        self.text.extend(std::iter::repeat_n(text, times));
        Ok(())
    }

    /// Adds `str(value)`.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value.as_str() {
            Some(text) => self.push(text),
            None if value.is_undefined() => Ok(()),
            None => self.repr(value, 0),
        }
    }

    /// Adds `repr(value)`, nested `depth` deep.
    pub(crate) fn repr(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(failed("value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::Undefined => self.push("Undefined"),
            ValueKind::None => self.push("None"),
            ValueKind::Bool => self.push(if value.is_true() { "True" } else { "False" }),
            ValueKind::Number if !value.is_integer() => {
                let number = f64::try_from(value.clone())?;
                self.push(&float(number))
            }
            ValueKind::String => self.quoted(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let [open, close] = if value.is_tuple() { ["(", ")"] } else { ["[", "]"] };
                self.push(open)?;
                let mut items = 0;
                for item in value.try_iter()? {
                    self.push(if items > 0 { ", " } else { "" })?;
                    self.repr(&item, depth + 1)?;
                    items += 1;
                }
                self.push(if items == 1 && value.is_tuple() { "," } else { "" })?;
                self.push(close)
            }
            ValueKind::Map => {
                self.push("{")?;
                let pairs = value.as_object().and_then(|map| map.try_iter_pairs());
                for (index, (key, value)) in pairs.into_iter().flatten().enumerate() {
                    self.push(if index > 0 { ", " } else { "" })?;
                    self.repr(&key, depth + 1)?;
                    self.push(": ")?;
                    self.repr(&value, depth + 1)?;
                }
                self.push("}")
            }
            _ => self.push(&value.to_string()),
        }
    }

    fn quoted(&mut self, text: &str) -> Result<(), Error> {
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut buffer = [0; 4];
        self.push(quote.encode_utf8(&mut buffer))?;
        for c in text.chars() {
            match c {
                '\n' => self.push("\\n")?,
                '\r' => self.push("\\r")?,
                '\t' => self.push("\\t")?,
                '\\' => self.push("\\\\")?,
                c if c == quote => {
                    self.push("\\")?;
                    self.push(c.encode_utf8(&mut buffer))?;
                }
                c if is_printable(c) => self.push(c.encode_utf8(&mut buffer))?,
                c => {
                    let code = u32::from(c);
                    self.push(&match code {
                        0..=0xff => format!("\\x{code:02x}"),
                        0x100..=0xffff => format!("\\u{code:04x}"),
                        _ => format!("\\U{code:08x}"),
                    })?;
                }
            }
        }
        self.push(quote.encode_utf8(&mut buffer))
    }
}

/// Whether Python's `repr` prints `c` unescaped.
pub(crate) fn is_printable(c: char) -> bool {
    let invisible = c.is_control() || (c.is_whitespace() && c != ' ');
    !invisible
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

/// A number in the format of Python's `repr`.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        "nan".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "inf" } else { "-inf" }.to_owned()
    } else if number == 0.0 || (1e-4..1e16).contains(&number.abs()) {
        format!("{number:?}")
    } else {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { '-' } else { '+' };
        format!("{digits}e{sign}{:0>2}", exponent.trim_start_matches('-'))
    }
}
