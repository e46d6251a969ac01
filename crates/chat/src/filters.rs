//! Jinja2's filters, where minijinja's differ.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters};
use minijinja_contrib::filters::truncate;

use crate::charges;
use crate::json::tojson;
use crate::limits::{Budget, Use, failed};
use crate::text::{Text, text_of};

/// Maximum field width of a format.
const MAX_WIDTH: usize = 1000;

pub(crate) fn add_to(environment: &mut Environment<'static>) {
    // Jinja2 does not have these, or prints differently.
    for name in ["bool", "chain", "lines", "pprint", "split", "zip"] {
        environment.remove_filter(name);
    }
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("string", |state: &mut State, value: Value| text_of(state, &value));
    environment.add_filter("tojson", tojson);
    let mut own = |name, function: fn(&mut State, &[Value]) -> Result<Value, Error>| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            function(state, &args.into_values())
        });
    };
    own("replace", replace);
    own("join", join);
    own("map", map);
    own("indent", indent);
    own("format", format);
    own("default", default);
    own("d", default);
    own("int", int);
    own("float", float);
    own("sum", sum);
    own("escape", escape);
    own("e", escape);
    own("truncate", |state, args| {
        let names = ["length", "killwords", "end", "leeway"];
        let [text, options @ ..] = bind(args, ["s", names[0], names[1], names[2], names[3]])?;
        let options = names.into_iter().zip(options).filter_map(|(name, value)| Some((name, value?)));
        truncate(state, &text.unwrap_or_default(), Kwargs::from_iter(options))
    });
}

/// Binds the arguments of a call, positional or by the parameter `names`.
pub(crate) fn bind<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (args, named) = match args.split_last() {
        Some((last, args)) if last.is_kwargs() => (args, Kwargs::try_from(last.clone())?),
        _ => (args, no_options()),
    };
    if args.len() > N {
        return Err(failed(format!("{} arguments, expected at most {N}", args.len())));
    }
    let mut values = names.map(|_| None);
    for (index, slot) in values.iter_mut().enumerate() {
        *slot = args.get(index).cloned();
        if named.has(names[index]) {
            *slot = Some(named.get(names[index])?);
        }
    }
    named.assert_all_used()?;
    Ok(values)
}

fn no_options() -> Kwargs {
    Kwargs::from_iter::<[(&str, Value); 0]>([])
}

fn is_set(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_true)
}

/// Like minijinja's, but undefined has length 0, as in Jinja2.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

/// `replace(old, new, count=none)`, also a string method.
pub(crate) fn replace(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, old, new, limit] = bind(args, ["s", "old", "new", "count"])?;
    let [text, old, new] = [value, old, new].map(|value| text_of(state, &value.unwrap_or_default()));
    let (text, old, new) = (text?, old?, new?);
    let limit = limit.filter(|limit| !limit.is_none()).map(i64::try_from).transpose()?.unwrap_or(-1);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(&old).take(limit).count();
    Budget::of(state).charge(count.saturating_mul(new.len()))?;
    Ok(Value::from(text.replacen(&old, &new, limit)))
}

fn join(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [values, separator, attribute] = bind(args, ["value", "d", "attribute"])?;
    let mut values = values.unwrap_or_default();
    if let Some(attribute) = attribute.filter(|attribute| !attribute.is_none()) {
        let attribute = Value::from(Kwargs::from_iter([("attribute", attribute)]));
        values = state.apply_filter("map", &[values, attribute])?;
    }
    let separator = separator.map_or_else(|| Ok(String::new()), |separator| text_of(state, &separator))?;
    let mut out = Text::new(state);
    for (index, value) in values.try_iter()?.enumerate() {
        out.push(if index > 0 { &separator } else { "" })?;
        out.value(&value)?;
    }
    Ok(Value::from(out.text))
}

/// `map('filter', …)` or `map(attribute=…, default=…)`
fn map(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [values, name, args @ ..] = args else { return Err(failed("`map` takes a filter or an attribute")) };
    let Some(name) = name.as_str() else {
        let attribute = Rest(vec![ValueOrKwargs::from(name.clone())]);
        return filters::map(state, values.clone(), attribute).map(Value::from);
    };
    let mut mapped = Vec::new();
    for value in values.try_iter()? {
        let mut args = [&[value], args].concat();
        charges::filter(state, name, &mut args)?;
        mapped.push(state.apply_filter(name, &args)?);
        Budget::of(state).charge_for(&mapped[mapped.len() - 1], Use::Make)?;
    }
    Ok(Value::from(mapped))
}

/// `indent(width=4, first=false, blank=false)`
fn indent(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, width, first, blank] = bind(args, ["s", "width", "first", "blank"])?;
    let indent = match width.unwrap_or_else(|| Value::from(4)) {
        width if width.as_str().is_some() => text_of(state, &width)?,
        width => match usize::try_from(width)? {
            width @ ..=MAX_WIDTH => " ".repeat(width),
            _ => return Err(failed("`indent` takes at most 1000 spaces")),
        },
    };
    let text = text_of(state, &value.unwrap_or_default())? + "\n";
    let mut out = Text::new(state);
    for (index, line) in lines(&text).into_iter().map(without_end).enumerate() {
        out.push(if index > 0 { "\n" } else { "" })?;
        let indented =
            if index == 0 { is_set(first.as_ref()) } else { !line.is_empty() || is_set(blank.as_ref()) };
        out.push(if indented { &indent } else { "" })?;
        out.push(line)?;
    }
    Ok(Value::from(out.text))
}

/// Lines of `text` with their line breaks, like Python's `splitlines(true)`.
pub(crate) fn lines(mut text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    while !text.is_empty() {
        let end = match text.find(is_line_end) {
            Some(at) if text[at..].starts_with("\r\n") => at + 2,
            Some(at) => at + text[at..].chars().next().map_or(0, char::len_utf8),
            None => text.len(),
        };
        let (line, rest) = text.split_at(end);
        lines.push(line);
        text = rest;
    }
    lines
}

pub(crate) fn without_end(line: &str) -> &str {
    line.strip_suffix("\r\n").unwrap_or_else(|| line.trim_end_matches(is_line_end))
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `default(default_value='', boolean=false)`
fn default(_: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default, boolean] = bind(args, ["value", "default_value", "boolean"])?;
    let value = value.unwrap_or_default();
    let absent = value.is_undefined() || (is_set(boolean.as_ref()) && !value.is_true());
    Ok(if absent { default.unwrap_or_else(|| Value::from("")) } else { value })
}

/// `int(default=0, base=10)`
fn int(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default, base] = bind(args, ["value", "default", "base"])?;
    let base = base.map(u32::try_from).transpose()?;
    let default = default.unwrap_or_else(|| Value::from(0));
    filters::int(state, &trimmed(value), Some(default), base, no_options())
}

/// `float(default=0.0)`
fn float(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default] = bind(args, ["value", "default"])?;
    let default = default.unwrap_or_else(|| Value::from(0.0));
    filters::float(state, &trimmed(value), Some(default), no_options())
}

fn trimmed(value: Option<Value>) -> Value {
    let value = value.unwrap_or_default();
    value.as_str().map(|text| Value::from(text.trim())).unwrap_or(value)
}

/// Like minijinja's, but for numbers only.
fn sum(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [values, attribute, start] = bind(args, ["iterable", "attribute", "start"])?;
    if start.as_ref().is_some_and(|start| start.kind() != ValueKind::Number) {
        return Err(failed("`sum` starts at a number"));
    }
    let attribute = attribute.as_ref().and_then(Value::as_str);
    filters::sum(state, values.unwrap_or_default(), attribute, start, no_options())
}

fn escape(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(args, ["s"])?;
    let mut text = text_of(state, &value.unwrap_or_default())?;
    for (c, entity) in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&#34;"), ("'", "&#39;")] {
        text = text.replace(c, entity);
    }
    Ok(Value::from_safe_string(text))
}

/// `'%s' | format(a, b)`
pub(crate) fn format(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let (template, values) = args.split_first().ok_or_else(|| failed("`format` of nothing"))?;
    let values = formatted(state, template.as_str().unwrap_or_default(), '%', values)?;
    filters::format(state, template, Rest(values.into_iter().map(ValueOrKwargs::from).collect()))
}

/// Prepares the arguments for minijinja's formatting so that floats and lists print as in Python.
///
/// Fails if a field, each of which starts with `mark`, could be wider than [`MAX_WIDTH`]; charges for the fields.
pub(crate) fn formatted(
    state: &mut State,
    format: &str,
    mark: char,
    values: &[Value],
) -> Result<Vec<Value>, Error> {
    // `%%` is no field.
    let format = format.replace("%%", "");
    let fields = format.split(mark).skip(1);
    for field in fields.clone() {
        let field =
            field.strip_prefix('(').map_or(field, |name| name.split_once(')').map_or("", |(_, field)| field));
        let ends = |c: char| if mark == '{' { c == '}' } else { c.is_ascii_alphabetic() };
        let spec = field.split(ends).next().unwrap_or_default();
        let mut numbers = spec.split(|c: char| !c.is_ascii_digit());
        if numbers.any(|number| number.trim_start_matches('0').len() > 3)
            || (mark == '%' && spec.contains('*'))
        {
            return Err(failed("a field of a format that may be wider than 999"));
        }
        // minijinja cuts within a character here.
        if mark == '%' && !spec.is_ascii() {
            return Err(failed("a format with a conversion that does not exist"));
        }
    }
    let mut bytes = MAX_WIDTH;
    for value in values {
        bytes += text_of(state, value)?.len();
    }
    Budget::of(state).charge(bytes.saturating_mul(fields.count()))?;
    let is_kept =
        |value: &Value| matches!(value.kind(), ValueKind::Map | ValueKind::Number | ValueKind::Bool);
    let values = values.iter().map(|value| match is_kept(value) {
        true => Ok(value.clone()),
        false => text_of(state, value).map(Value::from),
    });
    values.collect()
}
