//! Methods of Python's types, where those of minijinja's pycompat differ or are absent.

use minijinja::filters::split;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::filters::{bind, formatted, lines, replace, without_end};
use crate::limits::failed;
use crate::text::text_of;

/// Calls the method `name`, which minijinja does not provide.
pub(crate) fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.as_str(), name) {
        (Some(text), _) => string(state, value, text, name, args),
        (None, "copy") => Ok(value.clone()),
        (None, "index") if value.kind() == ValueKind::Seq => {
            let [item] = bind(args, ["value"])?;
            let item = item.unwrap_or_default();
            let found = value.try_iter()?.position(|other| other == item);
            found.map(Value::from).ok_or_else(|| failed("the value is not in the list"))
        }
        _ => unknown_method_callback(state, value, name, args),
    }
}

fn string(state: &mut State, value: &Value, text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let list = |items: Vec<&str>| Value::from_iter(items.into_iter().map(Value::from));
    Ok(match name {
        "replace" => replace(state, &[std::slice::from_ref(value), args].concat())?,
        "title" => Value::from(title(text)),
        "join" => {
            let [values] = bind(args, ["iterable"])?;
            let values: Vec<Value> = values.unwrap_or_default().try_iter()?.collect();
            if let Some(other) = values.iter().find(|value| value.as_str().is_none()) {
                return Err(failed(format!("`join` of a {}", other.kind())));
            }
            state.apply_filter("join", &[Value::from(values), value.clone()])?
        }
        "split" | "rsplit" => {
            let [separator, limit] = bind(args, ["sep", "maxsplit"])?;
            let limit = limit.map(i64::try_from).transpose()?.unwrap_or(-1);
            let separator = separator.filter(|separator| !separator.is_none());
            match separator.map(|separator| text_of(state, &separator)).transpose()? {
                Some(separator) if separator.is_empty() => return Err(failed("empty separator")),
                Some(separator) if name == "rsplit" => {
                    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1) + 1;
                    let mut items: Vec<&str> = text.rsplitn(limit, &separator).collect();
                    items.reverse();
                    list(items)
                }
                None if name == "rsplit" && limit >= 0 => {
                    return Err(failed("`rsplit` at white space with a limit is not supported"));
                }
                separator => split(value, separator.map(Into::into), Some(limit))?,
            }
        }
        "splitlines" => {
            let [keep] = bind(args, ["keepends"])?;
            let lines = lines(text);
            let keep = keep.is_some_and(|keep| keep.is_true());
            list(if keep { lines } else { lines.into_iter().map(without_end).collect() })
        }
        "partition" | "rpartition" => {
            let [separator] = bind(args, ["sep"])?;
            let separator = text_of(state, &separator.unwrap_or_default())?;
            if separator.is_empty() {
                return Err(failed("empty separator"));
            }
            let parts =
                if name == "partition" { text.split_once(&separator) } else { text.rsplit_once(&separator) };
            let parts = match parts {
                Some((before, after)) => [before, &separator, after],
                None if name == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "find" | "rfind" | "index" | "rindex" => find(text, name, args)?,
        "removeprefix" | "removesuffix" => {
            let [affix] = bind(args, ["affix"])?;
            let affix = affix.as_ref().and_then(Value::as_str).unwrap_or_default();
            let rest =
                if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Value::from(rest.unwrap_or(text))
        }
        "format" => {
            let args = formatted(state, text, '{', args)?;
            unknown_method_callback(state, value, name, &args)?
        }
        // Neither fractions nor Roman numerals.
        "isdigit" => {
            let is_digit = |c: char| c.is_numeric() && !matches!(c, '¼'..='¾' | '\u{2150}'..='\u{218b}');
            Value::from(!text.is_empty() && text.chars().all(is_digit))
        }
        _ => unknown_method_callback(state, value, name, args)?,
    })
}

/// Searches `text`; positions count characters.
fn find(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let [wanted, start] = bind(args, ["sub", "start"])?;
    let wanted = wanted.unwrap_or_default();
    let wanted = wanted.as_str().ok_or_else(|| failed(format!("`{name}` expects a string")))?;
    let start = start.map(usize::try_from).transpose()?.unwrap_or(0);
    let range = text.char_indices().nth(start).map_or("", |(at, _)| &text[at..]);
    let at = if name.starts_with('r') { range.rfind(wanted) } else { range.find(wanted) };
    match at {
        Some(at) => Ok(Value::from(start + range[..at].chars().count())),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(failed("substring not found")),
    }
}

/// Title case: a capital after every character that is not a letter.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut within = false;
    for c in text.chars() {
        if within {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        within = c.is_alphabetic();
    }
    out
}
