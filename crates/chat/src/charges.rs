//! Filters that charge for the operands of an instruction and return them; [`code`](crate::code) inserts them.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use crate::limits::{Budget, ITEM, Use, failed};
use crate::text::text_of;

pub(crate) fn add_to(environment: &mut Environment) {
    let mut charge = |name, charge: fn(&mut State, &mut Vec<Value>) -> Result<(), Error>| {
        environment.add_filter(name, move |state: &mut State, values: Rest<ValueOrKwargs>| {
            let mut values = values.into_values();
            charge(state, &mut values)?;
            // In the order of `Instruction::UnpackList`.
            values.reverse();
            Ok::<_, Error>(if values.len() == 1 { values.remove(0) } else { Value::from(values) })
        });
    };
    charge("_read", |state, values| charge_all(state, values, Use::Read));
    charge("_made", |state, values| charge_all(state, values, Use::Make));
    charge("_key", |state, values| {
        let [value, key] = values.as_slice() else { return Ok(()) };
        Budget::of(state).charge(value.as_str().map_or(0, str::len))?;
        Budget::of(state).charge_for(key, Use::Read)
    });
    charge("_each", |state, values| {
        values.iter().try_for_each(iterable)?;
        let characters = values.first().and_then(Value::as_str).map_or(0, str::len);
        Budget::of(state).charge(characters.saturating_mul(ITEM))?;
        charge_all(state, values, Use::Read)
    });
    charge("_times", |state, values| times(state, values));
    charge("_method", |state, values| {
        let name = values.pop().unwrap_or_default();
        Budget::of(state).charge(cost(name.as_str().unwrap_or_default(), values))?;
        charge_all(state, values, Use::Read)
    });
    charge("_filter", |state, values| {
        let name = values.pop().unwrap_or_default();
        filter(state, name.as_str().unwrap_or_default(), values)
    });
}

fn charge_all(state: &mut State, values: &mut [Value], uses: Use) -> Result<(), Error> {
    for value in values {
        Budget::of(state).charge_for(value, uses)?;
        if value.kind() == ValueKind::Iterable {
            // Lazy values, such as a sum of lists, are computed once.
            *value = value.try_iter()?.collect();
        }
    }
    Ok(())
}

/// Rejects `none`, which minijinja treats as empty.
fn iterable(value: &Value) -> Result<(), Error> {
    match value.kind() {
        kind @ (ValueKind::None | ValueKind::Number | ValueKind::Bool) => {
            Err(failed(format!("a value of type {kind} is not iterable")))
        }
        _ => Ok(()),
    }
}

/// Prepares the operands of `*`: repeats less than 0 times are 0.
fn times(state: &mut State, values: &mut [Value]) -> Result<(), Error> {
    charge_all(state, values, Use::Read)?;
    let size = |value: &Value| match value.kind() {
        ValueKind::String => value.as_str().map(str::len),
        ValueKind::Seq => Some(value.len().unwrap_or(0).saturating_mul(ITEM)),
        _ => None,
    };
    let [a, b] = values else { return Ok(()) };
    let (size, times) = match (size(a), size(b)) {
        (Some(size), _) => (size, b),
        (None, Some(size)) => (size, a),
        (None, None) => return Ok(()),
    };
    if !times.is_integer() && times.kind() != ValueKind::Bool {
        return Err(failed(format!("can't multiply a sequence by a value of type {}", times.kind())));
    }
    let count = usize::try_from(i128::try_from(times.clone())?.max(0)).unwrap_or(usize::MAX);
    *times = Value::from(count);
    Budget::of(state).charge(size.saturating_mul(count))
}

/// Prepares the arguments of the filter `name`.
pub(crate) fn filter(state: &mut State, name: &str, values: &mut [Value]) -> Result<(), Error> {
    let uses = match name {
        "capitalize" | "lower" | "title" | "trim" | "truncate" | "upper" => {
            if let Some(value) = values.first_mut().filter(|value| value.as_str().is_none()) {
                *value = Value::from(text_of(state, value)?);
            }
            Use::Read
        }
        "batch" | "groupby" | "join" | "list" | "map" | "max" | "min" | "reject" | "rejectattr"
        | "select" | "selectattr" | "slice" | "sort" | "sum" | "unique" => {
            values.first().map_or(Ok(()), iterable)?;
            let characters = values.first().and_then(Value::as_str).map_or(0, str::len);
            Budget::of(state).charge(characters.saturating_mul(ITEM))?;
            Use::Make
        }
        "dictsort" => Use::Make,
        _ => Use::Read,
    };
    Budget::of(state).charge(cost(name, values))?;
    charge_all(state, values, uses)
}

/// What a filter or method reads or makes beyond the size of its operands and its result.
fn cost(name: &str, values: &[Value]) -> usize {
    let text = |index: usize| values.get(index).and_then(Value::as_str);
    let size = |value: &Value| value.as_str().map(str::len).or(value.len()).unwrap_or(1);
    let (first, others) = (text(0).unwrap_or_default(), values.get(1..).unwrap_or_default());
    match name {
        "trim" | "strip" | "lstrip" | "rstrip" => first.len().saturating_mul(text(1).map_or(0, str::len)),
        "split" | "rsplit" | "splitlines" => {
            let pieces = match (text(1), others) {
                (Some(separator), _) => first.matches(separator).count(),
                (None, []) => first.matches(char::is_whitespace).count(),
                (None, _) => first.len(),
            };
            pieces.saturating_mul(ITEM)
        }
        "select" | "selectattr" | "reject" | "rejectattr" => {
            values.first().map_or(0, size).saturating_mul(others.iter().map(size).sum())
        }
        "batch" | "slice" => {
            let count = others.first().and_then(Value::as_usize).unwrap_or(0);
            count.saturating_mul(2 * ITEM)
        }
        _ => 0,
    }
}
