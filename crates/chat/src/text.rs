//! Prints values like Python's `str` and `repr`.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, State, Value};

use crate::limits::{Budget, Use};

/// `str(value)`
pub(crate) fn py_str(state: &mut State, value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => {
            Budget::of(state).charge(text.len())?;
            Ok(text.to_owned())
        }
        None if value.is_undefined() => Ok(String::new()),
        None => py_repr(state, value),
    }
}

/// `repr(value)`
pub(crate) fn py_repr(state: &mut State, value: &Value) -> Result<String, Error> {
    let budget = Budget::of(state);
    budget.charge_for(value, Use::Make)?;
    let text = format!("{:?}", printable(value)?);
    budget.charge(text.len())?;
    if text.chars().all(is_printable) {
        return Ok(text);
    }
    // minijinja escapes control characters alone.
    budget.charge(3 * text.len())?;
    let escape = |c: char| match u32::from(c) {
        _ if is_printable(c) => c.to_string(),
        code @ ..=0xff => format!("\\x{code:02x}"),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    Ok(text.chars().map(escape).collect())
}

/// `value` with what minijinja prints differently from Python as [`Printed`].
fn printable(value: &Value) -> Result<Value, Error> {
    Ok(match value.kind() {
        ValueKind::Undefined => Value::from_object(Printed("Undefined".to_owned())),
        ValueKind::Number if !value.is_integer() => {
            Value::from_object(Printed(float(f64::try_from(value.clone())?)))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| printable(&item)).collect::<Result<Vec<_>, _>>()?;
            if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }
        }
        ValueKind::Map => {
            let pairs = value.as_object().and_then(|map| map.try_iter_pairs()).into_iter().flatten();
            let pairs = pairs.map(|(key, value)| Ok((key, printable(&value)?)));
            Value::from_pairs(pairs.collect::<Result<Vec<_>, Error>>()?)
        }
        _ => value.clone(),
    })
}

#[derive(Debug)]
struct Printed(String);

impl Object for Printed {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether Python's `repr` prints `c` unescaped.
pub(crate) fn is_printable(c: char) -> bool {
    let invisible = c.is_control() || (c.is_whitespace() && c != ' ');
    !invisible
        && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

pub(crate) fn float(number: f64) -> String {
    if !number.is_finite() || number == 0.0 || (1e-4..1e16).contains(&number.abs()) {
        return format!("{number:?}").to_lowercase();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let sign = if exponent.starts_with('-') { '-' } else { '+' };
    format!("{digits}e{sign}{:0>2}", exponent.trim_start_matches('-'))
}
