//! `%` and `format` on strings: minijinja formats, after values are prepared and widths are checked.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, State, Value, filters};

use crate::limits::{Budget, failed};
use crate::text::py_str;

/// Maximum width of a field.
const MAX_WIDTH: usize = 999;

/// `'%s' | format(a, b)`
pub(crate) fn format(state: &mut State, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut values = args.into_values();
    if values.is_empty() {
        return Err(failed("`format` of nothing"));
    }
    let template = values.remove(0);
    let values = formatted(state, template.as_str().unwrap_or_default(), '%', &values)?;
    filters::format(state, &template, Rest(values.into_iter().map(ValueOrKwargs::from).collect()))
}

/// Prepares arguments so that floats and lists print as in Python, and charges for the fields, each of which starts with
/// `mark`. Fails if one could be wider than [`MAX_WIDTH`].
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
        // The name before a field's format.
        let field =
            field.strip_prefix('(').map_or(field, |name| name.split_once(')').map_or("", |(_, rest)| rest));
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
        bytes += py_str(state, value)?.len();
    }
    Budget::of(state).charge(bytes.saturating_mul(fields.count()))?;
    let text_or_number = |value: &Value| match value.kind() {
        ValueKind::Map | ValueKind::Number | ValueKind::Bool => Ok(value.clone()),
        _ => py_str(state, value).map(Value::from),
    };
    values.iter().map(text_or_number).collect()
}
