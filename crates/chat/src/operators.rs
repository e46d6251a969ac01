//! Functions that replace operators; see [`fence`](crate::fence).

use minijinja::value::{Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::filters::format;
use crate::limits::{Budget, ITEM, failed, made, read};
use crate::text::Text;

pub(crate) fn add_to(environment: &mut Environment) {
    environment.add_filter("_read", read);
    environment.add_filter("_made", made);
    environment.add_function("_each", each);
    environment.add_function("_concat", concat);
    environment.add_function("_multiply", multiply);
    environment.add_function("_modulo", modulo);
    environment.add_function("_slice", slice);
}

/// The iterable of a loop. Rejects `none`, which minijinja treats as empty.
fn each(state: &mut State, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Number | ValueKind::Bool => {
            Err(failed(format!("a value of type {} is not iterable", value.kind())))
        }
        ValueKind::String => {
            Budget::of(state).charge(value.as_str().map_or(0, str::len).saturating_mul(ITEM))?;
            Ok(value)
        }
        _ => Ok(value),
    }
}

/// `a ~ b ~ c`
fn concat(state: &mut State, values: Rest<Value>) -> Result<String, Error> {
    let mut text = Text::new(state);
    values.iter().try_for_each(|value| text.value(value))?;
    Ok(text.text)
}

/// `a * b`
fn multiply(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    for (many, times) in [(&a, &b), (&b, &a)] {
        let is_list = matches!(many.kind(), ValueKind::Seq | ValueKind::Iterable);
        if many.as_str().is_none() && !is_list {
            continue;
        }
        if !is_whole(times) {
            return Err(failed(format!("can't multiply a sequence by a value of type {}", times.kind())));
        }
        let times = usize::try_from(i128::try_from(times.clone())?.max(0)).unwrap_or(usize::MAX);
        if let Some(unit) = many.as_str() {
            let mut text = Text::new(state);
            text.repeat(unit, if unit.is_empty() { 0 } else { times })?;
            return Ok(Value::from(text.text));
        }
        let items: Vec<Value> = many.try_iter()?.collect();
        let length = if items.is_empty() { 0 } else { items.len().saturating_mul(times) };
        Budget::of(state).charge(length.saturating_mul(ITEM))?;
        let items: Vec<Value> = items.iter().cycle().take(length).cloned().collect();
        return Ok(if many.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) });
    }
    arithmetic("*", &a, &b, i128::checked_mul, |a, b| a * b)
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
    if b == Value::from(0) && b.kind() != ValueKind::String {
        return Err(failed("modulo by zero"));
    }
    let whole = |a: i128, b: i128| {
        let rest = a.checked_rem(b)?;
        if rest != 0 && (rest < 0) != (b < 0) { rest.checked_add(b) } else { Some(rest) }
    };
    let real = |a: f64, b: f64| {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    arithmetic("%", &a, &b, whole, real)
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

fn is_whole(value: &Value) -> bool {
    value.is_integer() || value.kind() == ValueKind::Bool
}

/// Arithmetic with the operator `sign`; integers stay integers.
fn arithmetic(
    sign: &str,
    a: &Value,
    b: &Value,
    whole: impl Fn(i128, i128) -> Option<i128>,
    real: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let numbers = [a, b].map(|value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    if numbers != [true, true] {
        return Err(failed(format!("`{sign}` does not work on {} and {}", a.kind(), b.kind())));
    }
    if is_whole(a) && is_whole(b) {
        let result = whole(i128::try_from(a.clone())?, i128::try_from(b.clone())?);
        let result = result.ok_or_else(|| failed(format!("{a} {sign} {b} is too large")))?;
        return Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from));
    }
    Ok(Value::from(real(to_float(a)?, to_float(b)?)))
}

fn to_float(value: &Value) -> Result<f64, Error> {
    if value.kind() == ValueKind::Bool {
        return Ok(f64::from(u8::from(value.is_true())));
    }
    f64::try_from(value.clone())
}
