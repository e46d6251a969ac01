//! Jinja's operators on texts, lists and maps.
//!
//! minijinja's own know no limit. These do the same, after they took what it costs from the
//! [`Budget`]; lists are made at once, where minijinja puts it off and pays later, again and again.
//! [`compile`](crate::compile) puts them in the place of minijinja's instructions, as filters whose
//! names no template can spell.

use std::borrow::Cow;

use minijinja::value::{Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use crate::budget::{Budget, ITEM};

/// Adds the operators to `environment`.
pub(crate) fn add_to(environment: &mut Environment) {
    environment.add_filter("+", add);
    environment.add_filter("*", multiply);
    environment.add_filter("~", concatenate);
    environment.add_filter("[:]", slice);
    environment.add_filter("[]", item);
    environment.add_filter("{}", map);
    environment.add_filter("in", contains);
    let mut comparison = |name, comparison: fn(&Value, &Value) -> bool| {
        environment.add_filter(name, move |state: &mut State, a: &Value, b: &Value| {
            compare(state, a, b, comparison)
        });
    };
    comparison("==", |a, b| a == b);
    comparison("!=", |a, b| a != b);
    comparison("<", |a, b| a < b);
    comparison("<=", |a, b| a <= b);
    comparison(">", |a, b| a > b);
    comparison(">=", |a, b| a >= b);
    environment.add_filter("<>", read);
    environment.add_filter("for", begin_loop);
    environment.add_filter(".changed", changed);
}

fn failed(why: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// A list, or a tuple, of `items`.
fn list(items: Vec<Value>, tuple: bool) -> Value {
    if tuple { Value::from(Tuple::from(items)) } else { Value::from(items) }
}

fn add(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        Budget::of(state).make(a.len() + b.len())?;
        return Ok(Value::from([a, b].concat()));
    }
    if is_list(&a) && is_list(&b) && a.is_tuple() == b.is_tuple() {
        Budget::of(state).make(Budget::size(&a) + Budget::size(&b))?;
        return Ok(list(a.try_iter()?.chain(b.try_iter()?).collect(), a.is_tuple()));
    }
    arithmetic("+", &a, &b, i128::checked_add, |a, b| a + b)
}

fn multiply(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    for (many, times) in [(&a, &b), (&b, &a)] {
        if many.as_str().is_none() && !is_list(many) {
            continue;
        }
        let times = times.as_usize();
        let times = times.ok_or_else(|| failed("strings and lists can only be multiplied with integers"))?;
        Budget::of(state).make(Budget::size(many).saturating_mul(times))?;
        return match many.as_str() {
            Some(text) => Ok(Value::from(text.repeat(times))),
            None => {
                let items = many.try_iter()?.collect::<Vec<_>>();
                // Nothing, however often, is nothing at once.
                let times = if items.is_empty() { 0 } else { times };
                Ok(list(items.iter().cycle().take(items.len() * times).cloned().collect(), many.is_tuple()))
            }
        };
    }
    arithmetic("*", &a, &b, i128::checked_mul, |a, b| a * b)
}

/// `sign` on numbers: whole ones stay whole.
fn arithmetic(
    sign: &str,
    a: &Value,
    b: &Value,
    whole: fn(i128, i128) -> Option<i128>,
    real: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let numbers = [a, b].map(|value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool));
    if numbers != [true, true] {
        let kinds = format!("{} and {}", a.kind(), b.kind());
        return Err(failed(format!("tried to use {sign} operator on unsupported types {kinds}")));
    }
    let is_whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if is_whole(a) && is_whole(b) {
        let result = whole(i128::try_from(a.clone())?, i128::try_from(b.clone())?);
        let result = result.ok_or_else(|| failed(format!("unable to calculate {a} {sign} {b}")))?;
        return Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from));
    }
    Ok(Value::from(real(f64::try_from(a.clone())?, f64::try_from(b.clone())?)))
}

fn concatenate(state: &mut State, a: Value, b: Value) -> Result<Value, Error> {
    let budget = Budget::of(state);
    let most = budget.text(&a)?.saturating_add(budget.text(&b)?);
    budget.afford(most)?;
    let text = match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => [a, b].concat(),
        _ => format!("{a}{b}"),
    };
    budget.make(text.len())?;
    Ok(Value::from(text))
}

fn slice(state: &mut State, value: Value, start: Value, stop: Value, step: Value) -> Result<Value, Error> {
    let bound = |value: Value| if value.is_none() { Ok(None) } else { i64::try_from(value).map(Some) };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(failed("cannot slice by step size of 0"));
    }
    if let Some(text) = value.as_str() {
        Budget::of(state).afford(text.len().saturating_mul(1 + size_of::<char>()))?;
        let chars: Vec<char> = text.chars().collect();
        let text: String = indices(chars.len(), start, stop, step).map(|index| chars[index]).collect();
        Budget::of(state).make(text.len())?;
        return Ok(Value::from(text));
    }
    if value.is_undefined() || value.is_none() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if !is_list(&value) {
        return Err(failed(format!("value of type {} cannot be sliced", value.kind())));
    }
    Budget::of(state).make(Budget::size(&value).saturating_mul(2))?;
    let items: Vec<Value> = value.try_iter()?.collect();
    let slice = indices(items.len(), start, stop, step).map(|index| items[index].clone());
    Ok(list(slice.collect(), value.is_tuple()))
}

/// The indices that Python's slice of a sequence of `length` takes, as its `slice.indices` defines them.
fn indices(length: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let length = length as i64;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i64| {
        if bound < 0 { bound.saturating_add(length).max(lowest) } else { bound.min(highest) }
    };
    let (first, end) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (first, end) = (start.map_or(first, clamp), stop.map_or(end, clamp));
    std::iter::successors(Some(first), move |index| index.checked_add(step))
        .take_while(move |&index| if step > 0 { index < end } else { index > end })
        .filter_map(|index| usize::try_from(index).ok())
}

fn item(state: &mut State, value: Value, key: Value) -> Result<Value, Error> {
    // A key is hashed; the characters of a text are counted.
    let text = value.as_str().map_or(0, str::len);
    Budget::of(state).read(text + key.as_str().map_or(0, str::len))?;
    value.get_item(&key)
}

fn map(state: &mut State, pairs: Rest<Value>) -> Result<Value, Error> {
    let mut keys = pairs.iter().step_by(2);
    keys.try_for_each(|key| Budget::of(state).text(key).map(drop))?;
    let value = |pair: &[Value]| match pair {
        [key, value] => Some((key.clone(), value.clone())),
        _ => None,
    };
    Budget::of(state).make(pairs.len().saturating_mul(ITEM))?;
    Ok(Value::from_pairs(pairs.chunks(2).filter_map(value)))
}

fn contains(state: &mut State, value: Value, container: Value) -> Result<Value, Error> {
    // The test pays.
    state.perform_test("in", &[value, container]).map(Value::from)
}

fn compare(
    state: &mut State,
    a: &Value,
    b: &Value,
    compare: fn(&Value, &Value) -> bool,
) -> Result<Value, Error> {
    let budget = Budget::of(state);
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => budget.read(a.len().min(b.len()))?,
        (None, None) => budget.text(a).map(drop)?,
        _ => {}
    }
    Ok(Value::from(compare(a, b)))
}

/// Pays for reading a value and returns it.
fn read(state: &mut State, value: Value) -> Result<Value, Error> {
    Budget::of(state).text(&value).map(|_| value)
}

/// Pays for what iterating over a value takes before the first item, and returns it.
fn begin_loop(state: &mut State, value: ValueOrKwargs) -> Result<Value, Error> {
    Budget::of(state).read(Budget::size(&value)).map(|()| value.into_value())
}

/// `loop.changed`, which compares.
fn changed(state: &mut State, args: Rest<Value>) -> Result<Value, Error> {
    let (receiver, args) = args.split_first().ok_or_else(|| failed("`changed` is a method"))?;
    args.iter().try_for_each(|arg| Budget::of(state).text(arg).map(drop))?;
    receiver.call_method(state, "changed", args)
}
