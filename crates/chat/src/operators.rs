//! Filters that replace operators; see [`meter`](crate::meter).

use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value, context};

use crate::filters::escaped;
use crate::format::format;
use crate::function::iterable;
use crate::limits::{Budget, ITEM, Use, charged, failed};
use crate::text::py_str;

pub(crate) fn add_to(environment: &mut Environment) {
    environment.add_filter("_read", |state: &mut State, value| charged(state, value, Use::Read));
    environment.add_filter("_made", |state: &mut State, value| charged(state, value, Use::Make));
    environment.add_filter("_each", each);
    environment.add_filter("_add", add);
    environment.add_filter("_concat", concat);
    environment.add_filter("_multiply", multiply);
    environment.add_filter("_modulo", modulo);
    environment.add_filter("_slice", slice);
}

/// The iterable of a loop.
fn each(state: &mut State, value: Value) -> Result<Value, Error> {
    iterable(&value)?;
    Budget::of(state).charge(value.as_str().map_or(0, str::len).saturating_mul(ITEM))?;
    Ok(value)
}

/// `a + b`. If one string is safe, the other is escaped, as by Python's `Markup`.
fn add(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(left), Some(right), true) = (a.as_str(), b.as_str(), a.is_safe() || b.is_safe()) {
        // An escaped character has up to five.
        Budget::of(state).charge(6 * (left.len() + right.len()))?;
        let text = |value: &Value, text: &str| if value.is_safe() { text.to_owned() } else { escaped(text) };
        return Ok(Value::from_safe_string(text(&a, left) + &text(&b, right)));
    }
    let sum = evaluate(state, "a + b", context! { a, b })?;
    charged(state, sum, Use::Make)
}

/// `a ~ b ~ c`
fn concat(state: &mut State, values: Rest<Value>) -> Result<String, Error> {
    values.iter().map(|value| py_str(state, value)).collect()
}

/// `a * b`
fn multiply(state: &mut State, mut a: Value, mut b: Value) -> Result<Value, Error> {
    let size = |value: &Value| match value.kind() {
        ValueKind::String => value.as_str().map(str::len),
        ValueKind::Seq => value.len().map(|items| items.saturating_mul(ITEM)),
        _ => None,
    };
    if size(&a).is_none() && size(&b).is_some() {
        (a, b) = (b, a);
    }
    if let Some(size) = size(&a) {
        if !b.is_integer() && b.kind() != ValueKind::Bool {
            return Err(failed(format!("can't multiply a sequence by a value of type {}", b.kind())));
        }
        // Less than 0 times is 0 times.
        let times = usize::try_from(i128::try_from(b)?.max(0)).unwrap_or(usize::MAX);
        Budget::of(state).charge(size.saturating_mul(times))?;
        b = Value::from(if size == 0 { 0 } else { times });
    }
    let product = evaluate(state, "a * b", context! { a, b })?;
    charged(state, product, Use::Make)
}

/// `a % b`
fn modulo(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    if a.as_str().is_none() {
        return evaluate(state, "a % b", context! { a, b });
    }
    let values = if b.is_tuple() { b.try_iter()?.collect() } else { vec![b] };
    format(state, Rest([a].into_iter().chain(values).map(ValueOrKwargs::from).collect()))
}

/// `value[start:stop:step]`
fn slice(state: &mut State, value: Value, bounds: Rest<Value>) -> Result<Value, Error> {
    let (start, stop, step): (Option<i64>, Option<i64>, Option<i64>) = from_args(&bounds)?;
    let step = step.unwrap_or(1);
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

fn evaluate(state: &State, expression: &str, operands: Value) -> Result<Value, Error> {
    let result = state.env().compile_expression(expression)?.eval(operands);
    // Without the position in `expression`.
    result.map_err(|error| failed(error.detail().unwrap_or("invalid operation").to_owned()))
}
