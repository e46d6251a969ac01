//! Filters, tests, methods and functions: which there are, and what each takes from the [`Budget`].
//!
//! They are minijinja's own, each behind an estimate of what it makes at most. What is not in these tables
//! does not exist, so nothing can be forgotten.

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};
use minijinja_contrib::pycompat;

use crate::budget::{Budget, ITEM};
use crate::json::tojson;

/// Widest indentation, and widest field of a format.
pub(crate) const MAX_WIDTH: usize = 999;

/// What a call makes at most, and reads.
#[derive(Clone, Copy, Debug)]
enum Cost {
    /// Looks at the first argument, but not at what is in it, and makes nothing.
    Look,
    /// Compares what is in the first argument, all with all.
    Compare,
    /// Makes a list of the items of the first argument, or of pieces of it.
    List,
    /// Makes a list of the pairs in the first argument.
    Pairs,
    /// Makes a text a few times as long as the first argument.
    Text,
    /// Puts the third argument in the place of the second.
    Replace,
    /// Puts the first argument's items together.
    Join,
    /// Puts the other arguments into the first, at `%`.
    Printf,
    /// Puts the other arguments into the first, at `{`.
    Format,
    /// Puts spaces before each line.
    Indent,
}

/// Adds all of them to an empty `environment`. Left out are those that make lists of any length out of a
/// number (`batch`, `slice`, `chain`, `zip`) and those for debugging.
pub(crate) fn add_to(environment: &mut Environment<'static>) {
    let mut filter = |name, cost, function| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            paid(state, cost, &function, &args.into_values())
        });
    };
    filter("length", Cost::Look, value(length));
    filter("count", Cost::Look, value(length));
    filter("default", Cost::Look, value(filters::default));
    filter("d", Cost::Look, value(filters::default));
    filter("first", Cost::Look, value(filters::first));
    filter("last", Cost::Look, value(filters::last));
    filter("attr", Cost::Look, value(filters::attr));
    filter("bool", Cost::Look, value(filters::bool));
    filter("int", Cost::Look, value(filters::int));
    filter("float", Cost::Look, value(filters::float));
    filter("abs", Cost::Look, value(filters::abs));
    filter("round", Cost::Look, value(filters::round));
    filter("min", Cost::Compare, value(filters::min));
    filter("max", Cost::Compare, value(filters::max));
    filter("sum", Cost::Compare, value(sum));
    filter("sort", Cost::Compare, value(filters::sort));
    filter("unique", Cost::Compare, value(filters::unique));
    filter("dictsort", Cost::Compare, value(filters::dictsort));
    filter("groupby", Cost::Compare, value(filters::groupby));
    filter("list", Cost::List, value(filters::list));
    filter("items", Cost::Pairs, value(filters::items));
    filter("reverse", Cost::List, value(filters::reverse));
    filter("split", Cost::List, value(filters::split));
    filter("lines", Cost::List, value(filters::lines));
    filter("map", Cost::List, value(filters::map));
    filter("select", Cost::List, value(filters::select));
    filter("reject", Cost::List, value(filters::reject));
    filter("selectattr", Cost::List, value(filters::selectattr));
    filter("rejectattr", Cost::List, value(filters::rejectattr));
    filter("string", Cost::Text, value(filters::string));
    filter("safe", Cost::Text, value(filters::safe));
    filter("escape", Cost::Text, value(filters::escape));
    filter("e", Cost::Text, value(filters::escape));
    filter("lower", Cost::Text, value(filters::lower));
    filter("upper", Cost::Text, value(filters::upper));
    filter("title", Cost::Text, value(filters::title));
    filter("capitalize", Cost::Text, value(filters::capitalize));
    filter("trim", Cost::Text, value(filters::trim));
    filter("tojson", Cost::Text, value(tojson));
    filter("replace", Cost::Replace, value(filters::replace));
    filter("join", Cost::Join, value(filters::join));
    filter("format", Cost::Printf, value(filters::format));
    filter("indent", Cost::Indent, value(filters::indent));

    let mut test = |names: &[&'static str], function: Value| {
        for &name in names {
            let function = function.clone();
            environment.add_test(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                pay_for_test(state, &args)?;
                function.call(state, &args)
            });
        }
    };
    test(&["eq", "equalto", "=="], value(tests::is_eq));
    test(&["ne", "!="], value(tests::is_ne));
    test(&["lt", "lessthan", "<"], value(tests::is_lt));
    test(&["le", "<="], value(tests::is_le));
    test(&["gt", "greaterthan", ">"], value(tests::is_gt));
    test(&["ge", ">="], value(tests::is_ge));
    test(&["in"], value(tests::is_in));
    test(&["sameas"], value(tests::is_sameas));
    test(&["startingwith"], value(tests::is_startingwith));
    test(&["endingwith"], value(tests::is_endingwith));
    test(&["lower"], value(tests::is_lower));
    test(&["upper"], value(tests::is_upper));

    // These take no time to speak of.
    environment.add_test("undefined", tests::is_undefined);
    environment.add_test("defined", tests::is_defined);
    environment.add_test("none", tests::is_none);
    environment.add_test("true", tests::is_true);
    environment.add_test("false", tests::is_false);
    environment.add_test("boolean", tests::is_boolean);
    environment.add_test("number", tests::is_number);
    environment.add_test("integer", tests::is_integer);
    environment.add_test("float", tests::is_float);
    environment.add_test("string", tests::is_string);
    environment.add_test("sequence", tests::is_sequence);
    environment.add_test("iterable", tests::is_iterable);
    environment.add_test("mapping", tests::is_mapping);
    environment.add_test("odd", tests::is_odd);
    environment.add_test("even", tests::is_even);
    environment.add_test("divisibleby", tests::is_divisibleby);
    environment.add_test("filter", tests::is_filter);
    environment.add_test("test", tests::is_test);
    environment.add_test("safe", tests::is_safe);
    environment.add_test("escaped", tests::is_safe);

    let mut function = |name, function: Value| {
        environment.add_function(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            let size = args.iter().fold(0, |sum: usize, arg| sum.saturating_add(Budget::size(arg)));
            Budget::of(state).make(size.saturating_mul(2))?;
            function.call(state, &args)
        });
    };
    function("dict", value(functions::dict));
    function("namespace", value(functions::namespace));
    environment.add_function("range", functions::range);
    environment.set_unknown_method_callback(method);
}

fn value<F, Rv, Args>(function: F) -> Value
where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    Value::from_function(function)
}

fn failed(why: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// As minijinja's own, but what is undefined is empty, as in Jinja2.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

/// Calls `function` with its cost paid.
fn paid(state: &mut State, cost: Cost, function: &Value, args: &[Value]) -> Result<Value, Error> {
    let most = estimate(Budget::of(state), cost, args)?;
    Budget::of(state).afford(most)?;
    let result = function.call(state, args)?;
    match cost {
        Cost::Look => Ok(result),
        Cost::Pairs | Cost::Compare => finished(state, result, most),
        Cost::List if args.first().is_some_and(|value| value.as_str().is_some()) => {
            finished(state, result, most)
        }
        _ => {
            let made = Budget::size(&result);
            finished(state, result, made)
        }
    }
}

/// Pays for a result for which `bytes` were made. It is a list at once where minijinja would make it later, again at
/// each use.
fn finished(state: &mut State, result: Value, bytes: usize) -> Result<Value, Error> {
    Budget::of(state).make(bytes)?;
    if result.kind() == ValueKind::Iterable {
        return Ok(result.try_iter()?.collect());
    }
    Ok(result)
}

/// The bytes that a call makes at most. Pays for what it reads.
fn estimate(budget: &mut Budget, cost: Cost, args: &[Value]) -> Result<usize, Error> {
    let Some((value, options)) = args.split_first() else { return Ok(0) };
    let size = Budget::size(value);
    let text = value.as_str().unwrap_or_default();
    let options = options
        .iter()
        .try_fold(0, |sum, option| Ok::<usize, Error>(budget.text(option)?.saturating_add(sum)))?;
    budget.read(size)?;
    Ok(match cost {
        Cost::Look => 0,
        Cost::Compare => {
            // A binary search for each item; options, as the path of an attribute, are read for each.
            let read = budget.text(value)?.saturating_mul(16);
            budget.read(read.saturating_add(options.saturating_mul(size / ITEM)))?;
            size.saturating_mul(4)
        }
        Cost::Pairs => size.saturating_mul(4),
        Cost::List if value.as_str().is_some() => {
            let separator = args.get(1).and_then(Value::as_str);
            pieces(
                text,
                separator.map_or(text.chars().count(), |separator| text.matches(separator).count() + 1),
            )
        }
        Cost::List => {
            budget.read(options.saturating_mul(size / ITEM))?;
            size
        }
        Cost::Text => {
            budget.read(options.saturating_mul(text.len()))?;
            // The most that escaping or another case can make of it; in a list, that is counted.
            let growth = if value.as_str().is_some() { 6 } else { 1 };
            budget.text(value)?.saturating_mul(growth)
        }
        Cost::Replace => {
            let [Some(from), Some(to)] = [1, 2].map(|index| args.get(index)) else { return Ok(0) };
            let (length, to) = (budget.text(value)?, budget.text(to)?);
            let count = match (value.as_str(), from.as_str()) {
                (Some(text), Some(from)) => text.matches(from).count(),
                // As text, they cannot be met more often.
                _ => length,
            };
            length.saturating_add(to.saturating_mul(count.saturating_add(1)))
        }
        Cost::Join => {
            let items = value.as_str().map_or(size / ITEM, |text| text.chars().count());
            budget.read(options.saturating_mul(items))?;
            budget.text(value)?.saturating_add(options.saturating_mul(items))
        }
        Cost::Printf | Cost::Format => {
            let mark = if matches!(cost, Cost::Printf) { '%' } else { '{' };
            has_narrow_fields(text, mark)?;
            let fields = text.matches(mark).count();
            let widths = fields.saturating_mul(2 * MAX_WIDTH);
            options.saturating_mul(fields).saturating_add(widths).saturating_add(text.len())
        }
        Cost::Indent => {
            let widths = args.iter().skip(1).filter_map(|arg| match arg.kind() {
                ValueKind::Map => arg.get_attr("width").ok()?.as_usize(),
                _ => arg.as_usize(),
            });
            let width = widths.max().unwrap_or(4);
            if width > MAX_WIDTH {
                return Err(failed("`indent` takes at most 999 spaces"));
            }
            text.len().saturating_add(width.saturating_mul(text.matches('\n').count() + 1))
        }
    })
}

/// The bytes that `text` takes when it is cut into `count` texts.
fn pieces(text: &str, count: usize) -> usize {
    count.saturating_mul(2 * ITEM).saturating_add(text.len())
}

/// As minijinja's own, but of numbers only.
fn sum(state: &State, values: Value, attribute: Option<&str>, options: Kwargs) -> Result<Value, Error> {
    let start: Option<Value> = options.peek("start")?;
    if start.is_some_and(|start| start.kind() != ValueKind::Number) {
        return Err(failed("`sum` starts at a number"));
    }
    filters::sum(state, values, attribute, None, options)
}

/// Pays for reading the arguments of a test; for a map only that it is looked into.
fn pay_for_test(state: &mut State, args: &[Value]) -> Result<(), Error> {
    let budget = Budget::of(state);
    let read = match args {
        [value, container] if container.kind() == ValueKind::Map && value.kind() != ValueKind::Map => {
            &args[..1]
        }
        args => args,
    };
    read.iter().try_for_each(|arg| budget.text(arg).map(drop))
}

/// The methods that Python's types have.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let budget = Budget::of(state);
    let list = value.kind() == ValueKind::Map && matches!(name, "keys" | "values" | "items");
    let options =
        args.iter().try_fold(0, |sum, arg| Ok::<usize, Error>(budget.text(arg)?.saturating_add(sum)))?;
    let most = match (value.as_str(), name) {
        (None, "count") => budget.text(value).map(|_| 0)?,
        (None, _) if list => Budget::size(value).saturating_mul(4),
        (None, _) => 0,
        (Some(text), "join") => {
            let items = args.first().map_or(0, Budget::size);
            let items = args.first().and_then(Value::as_str).map_or(items / ITEM, str::len);
            options.saturating_add(items.saturating_mul(text.len()))
        }
        (Some(_), "replace") => {
            let args = [std::slice::from_ref(value), args].concat();
            estimate(budget, Cost::Replace, &args)?
        }
        (Some(text), "split") => {
            let separator = args.first().and_then(Value::as_str);
            let spaces = || text.split_whitespace().count();
            pieces(text, separator.map_or_else(spaces, |separator| text.matches(separator).count() + 1))
        }
        (Some(text), "splitlines") => pieces(text, text.lines().count()),
        (Some(_), "format") => {
            let args = [std::slice::from_ref(value), args].concat();
            estimate(budget, Cost::Format, &args)?
        }
        (Some(text), "strip" | "lstrip" | "rstrip") => {
            // Each character may be compared with each that is to go.
            budget.read(text.len().saturating_mul(options))?;
            text.len()
        }
        (Some(text), "upper" | "lower" | "title" | "capitalize") => text.len().saturating_mul(3),
        (Some(_), _) => 0,
    };
    budget.read(value.as_str().map_or(0, str::len))?;
    budget.afford(most)?;
    let result = pycompat::unknown_method_callback(state, value, name, args)?;
    if most == 0 {
        return Ok(result);
    }
    // What is in a list was made too.
    let made = if result.as_str().is_some() { Budget::size(&result) } else { most };
    finished(state, result, made)
}

/// Fails when a field of the format, each of which begins with `mark`, could be wider than [`MAX_WIDTH`].
pub(crate) fn has_narrow_fields(format: &str, mark: char) -> Result<(), Error> {
    let wide = |spec: &str| {
        let mut runs = spec.split(|c: char| !c.is_ascii_digit());
        runs.any(|run| run.trim_start_matches('0').len() > 3)
    };
    let mut fields = format.split(mark).skip(1).map(|field| match mark {
        '{' => field.split('}').next().unwrap_or(field),
        _ if field.starts_with('(') => field.split_once(')').map_or(field, |(_, rest)| rest),
        _ => field,
    });
    let too_wide = fields.any(|field| {
        let end = field.find(|c: char| !(c.is_ascii_digit() || "#-+ ._^".contains(c)));
        let (spec, rest) = field.split_at(if mark == '{' { field.len() } else { end.unwrap_or(field.len()) });
        // `%*d` takes its width from the arguments.
        wide(spec) || rest.starts_with('*')
    });
    if too_wide { Err(failed("a format takes widths of at most 999")) } else { Ok(()) }
}
