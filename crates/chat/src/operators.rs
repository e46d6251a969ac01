//! Functions that replace operators; see [`code`](crate::code).

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::filters::format;
use crate::limits::{Budget, ITEM, failed};
use crate::text::Text;

pub(crate) fn add_to(environment: &mut Environment) {
    environment.add_filter("_concat", concat);
    environment.add_filter("_modulo", modulo);
    environment.add_filter("_slice", slice);
}

/// `a ~ b`
fn concat(state: &mut State, a: Value, b: Value) -> Result<String, Error> {
    let mut text = Text::new(state);
    text.value(&a)?;
    text.value(&b)?;
    Ok(text.text)
}

/// `a % b`
fn modulo(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    if a.as_str().is_some() {
        let mut args = vec![a];
        if b.is_tuple() {
            args.extend(b.try_iter()?)
        } else {
            args.push(b)
        }
        return format(state, &args);
    }
    let whole = |value: &Value| {
        let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
        if is_whole { i128::try_from(value.clone()).ok() } else { None }
    };
    if let (Some(a), Some(b)) = (whole(&a), whole(&b)) {
        let rest = a.checked_rem(b).ok_or_else(|| failed("modulo by zero"))?;
        let rest = if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest };
        return Ok(i64::try_from(rest).map_or_else(|_| Value::from(rest), Value::from));
    }
    let (a, b) = (f64::try_from(a)?, f64::try_from(b)?);
    if b == 0.0 {
        return Err(failed("modulo by zero"));
    }
    let rest = a % b;
    Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }))
}

/// `value[start:stop:step]`
fn slice(
    state: &mut State,
    value: Value,
    start: Value,
    stop: Option<Value>,
    step: Option<Value>,
) -> Result<Value, Error> {
    let bound = |value: Option<Value>| value.filter(|value| !value.is_none()).map(i64::try_from).transpose();
    let (start, stop, step) = (bound(Some(start))?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(failed("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        Budget::of(state).charge(text.len().saturating_mul(1 + size_of::<char>()))?;
        let chars: Vec<char> = text.chars().collect();
        let text: String = indices(chars.len(), start, stop, step).map(|index| chars[index]).collect();
        return Ok(Value::from(text));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            Budget::of(state).charge(value.len().unwrap_or(0).saturating_mul(ITEM))?;
            let items: Vec<Value> = value.try_iter()?.collect();
            let found: Vec<Value> =
                indices(items.len(), start, stop, step).map(|index| items[index].clone()).collect();
            Ok(if value.is_tuple() { Value::from(Tuple::from(found)) } else { Value::from(found) })
        }
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Ok(Value::UNDEFINED),
    }
}

/// The indices of a slice of `length` items, with Python's rules.
fn indices(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let (least, most) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |index: i64| if index < 0 { index.saturating_add(length) } else { index }.clamp(least, most);
    let (first, end) = if step > 0 { (least, most) } else { (most, least) };
    let (first, end) = (start.map_or(first, place), stop.map_or(end, place));
    let next = move |index: &i64| index.checked_add(step);
    std::iter::successors(Some(first), next)
        .take_while(move |&index| if step > 0 { index < end } else { index > end })
        .filter_map(|index| usize::try_from(index).ok())
}
