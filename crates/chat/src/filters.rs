//! Jinja2's filters, where minijinja's differ or lack limits.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, State, Value, filters};
use minijinja_contrib::{filters as contrib, pycompat};

use crate::format::format;
use crate::function::Cost::{Compare, Free, List, Text};
use crate::function::Function;
use crate::json::{from_json, tojson};
use crate::limits::{Budget, ITEM, failed};
use crate::text::{py_repr, py_str};

pub(crate) fn add_to(environment: &mut Environment<'static>) {
    // Filters that Jinja2 does not have; some lack limits.
    ["bool", "chain", "lines", "split", "zip"].into_iter().for_each(|name| environment.remove_filter(name));
    environment.remove_global("debug");
    for (names, function) in filters() {
        let function = Arc::new(function);
        for name in names.split(' ') {
            let function = function.clone();
            environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
                function.call(state, args.into_values())
            });
        }
    }
}

/// minijinja's filters whose cost is proportional to the size of their input, with Jinja2's parameters, and our own.
fn filters() -> [(&'static str, Function); 41] {
    let dictsort = "value, *, case_sensitive=false, by=\"key\", reverse=false";
    let groupby = "value, attribute, *, default=null, case_sensitive=false";
    let json = "value, ensure_ascii=false, indent=null, separators=null, sort_keys=false";
    let min = "value, *, case_sensitive=false, attribute=null";
    let sort = "value, *, reverse=false, case_sensitive=false, attribute=null";
    let truncation = "s, *, length=255, killwords=false, end=\"...\", leeway=5";
    let wrapping = "s, width=79, break_long_words=true, wrapstring=\"\\n\", break_on_hyphens=true";
    [
        ("batch", Function::new("value, linecount, fill_with=null", List, filters::batch)),
        ("capitalize", Function::new("s", Text(1), filters::capitalize)),
        ("dictsort", Function::new(dictsort, List, filters::dictsort)),
        ("groupby", Function::new(groupby, List, filters::groupby)),
        ("list", Function::new("value", List, filters::list)),
        ("lower", Function::new("s", Text(1), filters::lower)),
        ("map", Function::new("", List, filters::map)),
        ("max", Function::new(min, List, filters::max)),
        ("min", Function::new(min, List, filters::min)),
        ("reject", Function::new("", Compare, filters::reject)),
        ("rejectattr", Function::new("", Compare, filters::rejectattr)),
        ("safe", Function::new("value", Text(1), filters::safe)),
        ("select", Function::new("", Compare, filters::select)),
        ("selectattr", Function::new("", Compare, filters::selectattr)),
        ("slice", Function::new("value, slices, fill_with=null", List, filters::slice)),
        ("sort", Function::new(sort, List, filters::sort)),
        ("striptags", Function::new("value", Text(1), contrib::striptags)),
        ("title", Function::new("s", Text(1), filters::title)),
        ("truncate", Function::new(truncation, Text(1), contrib::truncate)),
        ("unique", Function::new(min, List, filters::unique)),
        ("upper", Function::new("s", Text(1), filters::upper)),
        ("center", Function::new("value, width=80", Text(1), center)),
        ("default d", Function::new("value, default_value=\"\", boolean=false", Free, default)),
        ("escape e forceescape", Function::new("s", Text(5), escape)),
        ("filesizeformat", Function::new("value, binary=false", Free, file_size)),
        ("float", Function::new("value, default=0.0", Free, float)),
        ("format", Function::new("", Free, format)),
        // A filter of llama.cpp, in its templates for DeepSeek.
        ("from_json", Function::new("value", List, from_json)),
        ("indent", Function::new("s, width=4, first=false, blank=false", Text(1), indent)),
        ("int", Function::new("value, default=0, base=10", Free, int)),
        ("join", Function::new("value, d=\"\", attribute=null", List, join)),
        ("length count", Function::new("obj", Free, length)),
        ("pprint", Function::new("value", Free, py_repr)),
        ("replace", Function::new("s, old, new, count=null", Text(1), replace)),
        ("string", Function::new("s", Free, py_str)),
        ("sum", Function::new("iterable, attribute=null, start=0", List, sum)),
        ("tojson", Function::new(json, Free, tojson)),
        ("trim", Function::new("value, chars=null", Text(1), trim)),
        ("urlencode", Function::new("value", Text(3), urlencode)),
        ("wordcount", Function::new("s", Text(1), word_count)),
        ("wordwrap", Function::new(wrapping, List, wordwrap)),
    ]
}

fn default(value: Value, default: Value, boolean: bool) -> Value {
    if value.is_undefined() || (boolean && !value.is_true()) { default } else { value }
}

/// Like minijinja's, but undefined has length 0, as in Jinja2.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

/// Also a method of strings.
pub(crate) fn replace(
    state: &mut State,
    text: String,
    old: String,
    new: String,
    count: Option<i64>,
) -> Result<String, Error> {
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let found = text.matches(&old).take(count).count();
    Budget::of(state).charge(found.saturating_mul(new.len()))?;
    Ok(text.replacen(&old, &new, count))
}

/// Also a method of strings, for a list of strings.
pub(crate) fn join(
    state: &mut State,
    values: Value,
    separator: String,
    attribute: Value,
) -> Result<String, Error> {
    let values = if attribute.is_none() {
        values
    } else {
        state.apply_filter("map", &[values, Kwargs::from_iter([("attribute", attribute)]).into()])?
    };
    let texts = values.try_iter()?.map(|value| py_str(state, &value)).collect::<Result<Vec<_>, _>>()?;
    Budget::of(state).charge(separator.len().saturating_mul(texts.len()))?;
    Ok(texts.join(&separator))
}

fn indent(state: &mut State, text: String, width: Value, first: bool, blank: bool) -> Result<String, Error> {
    let indent = match width.as_str() {
        Some(indent) => indent.to_owned(),
        None => " ".repeat(width.as_usize().unwrap_or(0)),
    };
    let text = text + "\n";
    let lines = lines(&text);
    Budget::of(state).charge(indent.len().saturating_mul(lines.len()))?;
    let indented = lines.into_iter().map(without_end).enumerate().map(|(index, line)| {
        let is_indented = if index == 0 { first } else { blank || !line.is_empty() };
        if is_indented { format!("{indent}{line}") } else { line.to_owned() }
    });
    Ok(indented.collect::<Vec<_>>().join("\n"))
}

/// Characters that end a line in Python.
const LINE_ENDS: [char; 10] =
    ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Lines of `text` with their ends, like Python's `splitlines(True)`.
pub(crate) fn lines(mut text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    while !text.is_empty() {
        let end = match text.find(LINE_ENDS) {
            Some(at) if text[at..].starts_with("\r\n") => at + 2,
            Some(at) => text.ceil_char_boundary(at + 1),
            None => text.len(),
        };
        let (line, rest) = text.split_at(end);
        lines.push(line);
        text = rest;
    }
    lines
}

pub(crate) fn without_end(line: &str) -> &str {
    line.trim_end_matches(LINE_ENDS)
}

fn int(state: &State, value: Value, default: Value, base: u32) -> Result<Value, Error> {
    let value = trimmed(value);
    let real = filters::float(state, &value, Some(Value::from(0)), no_names())?;
    if f64::try_from(real).is_ok_and(f64::is_finite) {
        filters::int(state, &value, Some(default), Some(base), no_names())
    } else {
        Ok(default)
    }
}

fn float(state: &State, value: Value, default: Value) -> Result<Value, Error> {
    filters::float(state, &trimmed(value), Some(default), no_names())
}

/// Text of a number as minijinja reads it.
fn trimmed(value: Value) -> Value {
    value.as_str().map(|text| Value::from(text.trim().replace('_', ""))).unwrap_or(value)
}

fn no_names() -> Kwargs {
    Kwargs::from_iter::<[(&str, Value); 0]>([])
}

/// Like minijinja's, but for numbers only.
fn sum(state: &State, values: Value, attribute: Option<&str>, start: Value) -> Result<Value, Error> {
    if start.kind() != ValueKind::Number {
        return Err(failed("`sum` starts at a number"));
    }
    filters::sum(state, values, attribute, Some(start), no_names())
}

fn file_size(state: &State, value: Value, binary: bool) -> Result<String, Error> {
    let bytes = f64::try_from(float(state, value, Value::from(0))?)?;
    // minijinja rounds and has units for negative sizes.
    if bytes != 1.0 && bytes < if binary { 1024.0 } else { 1000.0 } {
        return Ok(format!("{} Bytes", bytes.trunc()));
    }
    Ok(contrib::filesizeformat(bytes.trunc(), Some(binary)))
}

fn escape(text: String) -> Value {
    Value::from_safe_string(escaped(&text))
}

pub(crate) fn escaped(text: &str) -> String {
    let mut text = text.replace('&', "&amp;");
    for (c, entity) in [('<', "&lt;"), ('>', "&gt;"), ('"', "&#34;"), ('\'', "&#39;")] {
        text = text.replace(c, entity);
    }
    text
}

fn urlencode(state: &mut State, value: Value) -> Result<String, Error> {
    let pairs = match value.kind() {
        ValueKind::Map => filters::items(&value)?,
        ValueKind::Seq | ValueKind::Iterable => value,
        _ => return Ok(quoted(&py_str(state, &value)?, '/')),
    };
    let mut fields = Vec::new();
    for pair in pairs.try_iter()? {
        let mut text = |index| py_str(state, &pair.get_item_by_index(index)?);
        fields.push([text(0)?, text(1)?].map(|text| quoted(&text, ' ').replace(' ', "+")).join("="));
    }
    Ok(fields.join("&"))
}

fn quoted(text: &str, safe: char) -> String {
    let quote = |byte| match char::from(byte) {
        c if c.is_ascii_alphanumeric() || "_.-~".contains(c) || c == safe => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(quote).collect()
}

fn trim(state: &mut State, text: String, chars: Value) -> Result<Value, Error> {
    strip(state, "strip", &text, &[chars])
}

/// Strips white space, or the characters of an argument, with pycompat's method `name`.
pub(crate) fn strip(state: &mut State, name: &str, text: &str, args: &[Value]) -> Result<Value, Error> {
    Budget::of(state).charge(text.len().saturating_mul(args[0].as_str().map_or(0, str::len)))?;
    pycompat::unknown_method_callback(state, &Value::from(text), name, args)
}

#[derive(Clone, Copy)]
pub(crate) enum Side {
    Left,
    Right,
    Both,
}

pub(crate) fn pad(text: &str, width: i64, fill: &str, side: Side) -> Result<String, Error> {
    if fill.chars().count() != 1 {
        return Err(failed("the fill character must be one character"));
    }
    let width = usize::try_from(width).unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        // As in Python, the odd character is on the left only for odd widths.
        Side::Both => missing / 2 + (missing & width & 1),
    };
    Ok(fill.repeat(left) + text + &fill.repeat(missing - left))
}

fn center(text: String, width: i64) -> Result<String, Error> {
    pad(&text, width, " ", Side::Both)
}

fn word_count(text: String) -> usize {
    let is_between = |c: char| !(c.is_alphanumeric() || c == '_');
    text.split(is_between).filter(|word| !word.is_empty()).count()
}

fn wordwrap(state: &mut State, args: Rest<Value>) -> Result<String, Error> {
    let (text, width, break_words, between, _): (String, usize, bool, String, bool) = from_args(&args)?;
    let width = width.max(1);
    let mut wrapped = Vec::new();
    for line in lines(&text).into_iter().map(without_end) {
        let mut current = String::new();
        let mut used = 0;
        for mut word in line.split(' ') {
            let mut length = word.chars().count();
            if used > 0 && used + 1 + length <= width {
                current.push(' ');
                used += 1;
            } else if used > 0 {
                wrapped.push(std::mem::take(&mut current));
                used = 0;
            }
            while break_words && length > width {
                let cut = word.char_indices().nth(width).map_or(word.len(), |(at, _)| at);
                wrapped.push(word[..cut].to_owned());
                word = &word[cut..];
                length -= width;
            }
            current.push_str(word);
            used += length;
        }
        wrapped.push(current);
    }
    Budget::of(state).charge((between.len() + ITEM).saturating_mul(wrapped.len()))?;
    Ok(wrapped.join(&between))
}
