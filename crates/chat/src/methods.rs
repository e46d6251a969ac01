//! Methods of Python's types for templates; minijinja's pycompat provides the others.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat;

use crate::filters::{Side, bind, count, formatted, lines, lines_with_ends, pad, replace, strip};
use crate::limits::{Budget, ITEM, Use, failed};
use crate::text::{Text, is_printable, text_of};

/// Calls the method `name`, which minijinja does not provide.
pub(crate) fn call(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    Budget::of(state).charge_for(value, Use::Read)?;
    let with_self = || [std::slice::from_ref(value), args].concat();
    match value.as_str() {
        Some(text) => string(state, text, name, args, &with_self()),
        None if name == "copy" => Ok(value.clone()),
        None => match (value.kind(), name) {
            (ValueKind::Seq, "index") => {
                let [item, start] = bind(args, ["value", "start"])?;
                let item = item.unwrap_or_default();
                let start = count(start.as_ref(), 0)?;
                let found = value.try_iter()?.skip(start).position(|other| other == item);
                found.map(|at| Value::from(at + start)).ok_or_else(|| failed("the value is not in the list"))
            }
            (ValueKind::Number, "is_integer") => {
                Ok(Value::from(value.is_integer() || f64::try_from(value.clone())?.fract() == 0.0))
            }
            _ => pycompat::unknown_method_callback(state, value, name, args),
        },
    }
}

/// A method of the string `text`; `with_self` are its arguments, preceded by the string.
fn string(
    state: &mut State,
    text: &str,
    name: &str,
    args: &[Value],
    with_self: &[Value],
) -> Result<Value, Error> {
    let all = |is: fn(char) -> bool| Value::from(!text.is_empty() && text.chars().all(is));
    let list = |items: Vec<&str>| Value::from_iter(items.into_iter().map(Value::from));
    Ok(match name {
        "replace" => replace(state, with_self)?,
        "strip" => strip(state, with_self, |text, set| text.trim_matches(set))?,
        "lstrip" => strip(state, with_self, |text, set| text.trim_start_matches(set))?,
        "rstrip" => strip(state, with_self, |text, set| text.trim_end_matches(set))?,
        "upper" => Value::from(text.to_uppercase()),
        "lower" | "casefold" => {
            Value::from(text.to_lowercase().replace('ß', if name == "lower" { "ß" } else { "ss" }))
        }
        "capitalize" => Value::from(capitalize(text)),
        "title" => Value::from(title(text)),
        "swapcase" => Value::from(text.chars().flat_map(swap_case).collect::<String>()),
        "center" | "ljust" | "rjust" => {
            let [width, fill] = bind(args, ["width", "fillchar"])?;
            let fill = fill.as_ref().and_then(Value::as_str).unwrap_or(" ");
            let mut fill = fill.chars();
            let (Some(fill), None) = (fill.next(), fill.next()) else {
                return Err(failed("the fill character must be one character"));
            };
            let side = match name {
                "ljust" => Side::Right,
                "rjust" => Side::Left,
                _ => Side::Both,
            };
            pad(state, text, count(width.as_ref(), 0)?, fill, side)?
        }
        "zfill" => {
            let [width] = bind(args, ["width"])?;
            let width = count(width.as_ref(), 0)?;
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            let digits = pad(state, digits, width.saturating_sub(sign.len()), '0', Side::Left)?;
            Value::from([sign, digits.as_str().unwrap_or_default()].concat())
        }
        "expandtabs" => {
            let [size] = bind(args, ["tabsize"])?;
            expand_tabs(state, text, count(size.as_ref(), 8)?)?
        }
        "join" => {
            let [values] = bind(args, ["iterable"])?;
            let mut out = Text::new(state);
            for (index, value) in values.unwrap_or_default().try_iter()?.enumerate() {
                let item = value.as_str().ok_or_else(|| failed(format!("`join` of a {}", value.kind())))?;
                out.push(if index > 0 { text } else { "" })?;
                out.push(item)?;
            }
            Value::from(out.text)
        }
        "split" | "rsplit" => split(state, text, args, name == "rsplit")?,
        "splitlines" => {
            let [keep] = bind(args, ["keepends"])?;
            let keep = keep.is_some_and(|keep| keep.is_true());
            let count = lines_with_ends(text).count();
            Budget::of(state).charge(count.saturating_mul(ITEM).saturating_add(text.len()))?;
            list(if keep { lines_with_ends(text).collect() } else { lines(text) })
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
        "find" | "rfind" | "index" | "rindex" | "count" | "startswith" | "endswith" => {
            search(text, name, args)?
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = bind(args, ["affix"])?;
            let affix = affix.as_ref().and_then(Value::as_str).unwrap_or_default();
            let rest =
                if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Value::from(rest.unwrap_or(text))
        }
        "format" => {
            let args = formatted(state, text, '{', args)?;
            pycompat::unknown_method_callback(state, &with_self[0], name, &args)?
        }
        // Neither fractions nor Roman numerals.
        "isdigit" => all(|c| c.is_numeric() && !matches!(c, '¼'..='¾' | '\u{2150}'..='\u{218b}')),
        "isdecimal" => all(|c| c.is_ascii_digit()),
        "istitle" => Value::from(title(text) == text && text.chars().any(char::is_alphabetic)),
        "isprintable" => Value::from(text.chars().all(is_printable)),
        "isidentifier" => {
            let starts = |c: char| c == '_' || c.is_alphabetic();
            Value::from(text.starts_with(starts) && text.chars().all(|c| starts(c) || c.is_alphanumeric()))
        }
        _ => pycompat::unknown_method_callback(state, &with_self[0], name, args)?,
    })
}

/// `split(sep=none, maxsplit=-1)`, from the left or the right.
fn split(state: &mut State, text: &str, args: &[Value], right: bool) -> Result<Value, Error> {
    let [separator, limit] = bind(args, ["sep", "maxsplit"])?;
    let limit = limit.map(i64::try_from).transpose()?.unwrap_or(-1);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1) + 1;
    let separator = separator.filter(|separator| !separator.is_none());
    let separator = separator.map(|separator| text_of(state, &separator)).transpose()?;
    let pieces = match &separator {
        Some(separator) => text.matches(separator.as_str()).count() + 1,
        None => text.split_whitespace().count(),
    };
    Budget::of(state).charge(pieces.min(limit).saturating_mul(ITEM).saturating_add(text.len()))?;
    let mut items: Vec<&str> = match separator.as_deref() {
        Some("") => return Err(failed("empty separator")),
        Some(separator) if right => text.rsplitn(limit, separator).collect(),
        Some(separator) => text.splitn(limit, separator).collect(),
        None => words(text, limit, right),
    };
    if right {
        items.reverse();
    }
    Ok(Value::from_iter(items.into_iter().map(Value::from)))
}

/// Up to `limit` words; the last is the rest of `text`. From the right, the last word comes first.
fn words(text: &str, limit: usize, right: bool) -> Vec<&str> {
    let mut rest = text.trim();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let cut = if right { rest.rfind(char::is_whitespace) } else { rest.find(char::is_whitespace) };
        let Some(cut) = cut.filter(|_| words.len() + 1 < limit) else {
            words.push(rest);
            break;
        };
        if right {
            words.push(rest[cut..].trim_start());
            rest = rest[..cut].trim_end();
        } else {
            words.push(&rest[..cut]);
            rest = rest[cut..].trim_start();
        }
    }
    words
}

/// Methods that search between two positions, counted in characters.
fn search(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let [wanted, start, end] = bind(args, ["sub", "start", "end"])?;
    let wanted = wanted.unwrap_or_default();
    let (start, end) = (start.filter(|start| !start.is_none()), end.filter(|end| !end.is_none()));
    let mut skipped = 0;
    let mut range = text;
    if start.is_some() || end.is_some() {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let position = |value: Option<Value>, default: i64| {
            let at = value.map(i64::try_from).transpose()?.unwrap_or(default);
            let at = if at < 0 { at + length } else { at };
            Ok::<_, Error>(usize::try_from(at.clamp(0, length)).unwrap_or(0))
        };
        let (start, end) = (position(start, 0)?, position(end, length)?);
        let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
        skipped = start;
        range = text.get(byte(start)..byte(end)).unwrap_or_default();
    }
    let expected = || failed(format!("`{name}` expects a string, not a {}", wanted.kind()));
    if let "startswith" | "endswith" = name {
        let wanted: Vec<Value> =
            if wanted.is_tuple() { wanted.try_iter()?.collect() } else { vec![wanted.clone()] };
        let mut found = false;
        for wanted in &wanted {
            let wanted = wanted.as_str().ok_or_else(expected)?;
            found |= if name == "startswith" { range.starts_with(wanted) } else { range.ends_with(wanted) };
        }
        return Ok(Value::from(found));
    }
    let wanted = wanted.as_str().ok_or_else(expected)?;
    let at = match name {
        "count" => return Ok(Value::from(range.matches(wanted).count())),
        "find" | "index" => range.find(wanted),
        _ => range.rfind(wanted),
    };
    match at {
        Some(at) => Ok(Value::from(skipped + range[..at].chars().count())),
        None if name.ends_with("find") => Ok(Value::from(-1)),
        None => Err(failed("substring not found")),
    }
}

fn expand_tabs(state: &mut State, text: &str, size: usize) -> Result<Value, Error> {
    let mut out = Text::new(state);
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size == 0 => {}
            '\t' => {
                let spaces = size - column % size;
                out.repeat(" ", spaces)?;
                column += spaces;
            }
            c => {
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                out.push(c.encode_utf8(&mut [0; 4]))?;
            }
        }
    }
    Ok(Value::from(out.text))
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(char::to_uppercase).into_iter().flatten().collect();
    first + &chars.as_str().to_lowercase()
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

fn swap_case(c: char) -> Vec<char> {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}
