//! Methods of Python's types for templates; minijinja's pycompat provides the others.

use std::collections::HashMap;
use std::sync::Arc;

use minijinja::value::{Rest, Tuple, ValueKind, from_args};
use minijinja::{Error, State, Value, filters};
use minijinja_contrib::pycompat::unknown_method_callback as pycompat;

use crate::filters::{Side, join, lines, pad, replace, strip, without_end};
use crate::format::formatted;
use crate::function::{Cost, Function};
use crate::limits::{Budget, ITEM, Use, failed};
use crate::text::is_printable;

const STRINGS: [(&str, &str); 12] = [
    ("casefold isdecimal isdigit isidentifier isprintable istitle swapcase title", "self"),
    ("center ljust rjust", "self, width, fillchar=\" \""),
    ("count endswith find index rfind rindex startswith", "self, sub, start=null, end=null"),
    ("expandtabs", "self, tabsize=8"),
    ("join", "self, iterable"),
    ("lstrip rstrip strip", "self, chars=null"),
    ("partition rpartition", "self, sep"),
    ("removeprefix removesuffix", "self, affix"),
    ("replace", "self, old, new, count=-1"),
    ("rsplit split", "self, sep=null, maxsplit=-1"),
    ("splitlines", "self, keepends=false"),
    ("zfill", "self, width"),
];

pub(crate) struct Methods {
    strings: HashMap<&'static str, Function>,
    index: Function,
}

impl Methods {
    pub(crate) fn new() -> Methods {
        let names =
            STRINGS.iter().flat_map(|(names, signature)| names.split(' ').zip(std::iter::repeat(signature)));
        let strings = names.map(|(name, signature)| {
            let method = move |state: &mut State, args: Rest<Value>| string(state, name, &args);
            (name, Function::new(signature, Cost::Text(1), method))
        });
        Methods {
            strings: strings.collect(),
            index: Function::new("self, value, start=0", Cost::Free, index),
        }
    }

    /// Calls the method `name`, which minijinja does not provide.
    pub(crate) fn call(
        &self,
        state: &mut State,
        value: &Value,
        name: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        Budget::of(state).charge_for(value, Use::Read)?;
        let with_self = || [std::slice::from_ref(value), args].concat();
        match (value.kind(), name) {
            (ValueKind::String, "format") => {
                let values = formatted(state, value.as_str().unwrap_or_default(), '{', args)?;
                pycompat(state, value, name, &values)
            }
            (ValueKind::String, _) if let Some(method) = self.strings.get(name) => {
                method.call(state, with_self())
            }
            (ValueKind::Seq, "index") => self.index.call(state, with_self()),
            (ValueKind::Number, "is_integer") => {
                Ok(Value::from(value.is_integer() || f64::try_from(value.clone())?.fract() == 0.0))
            }
            (kind, "copy") if kind != ValueKind::String => Ok(value.clone()),
            _ => pycompat(state, value, name, args),
        }
    }
}

/// The position `at` of `length`, counted from the end if it is negative, as Python does.
fn position(at: i64, length: usize) -> usize {
    let from_end = || length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX));
    usize::try_from(at).map_or_else(|_| from_end(), |at| at.min(length))
}

fn index(list: Value, item: Value, start: i64) -> Result<usize, Error> {
    let start = position(start, list.len().unwrap_or(0));
    let found = list.try_iter()?.skip(start).position(|other| other == item);
    found.map(|at| at + start).ok_or_else(|| failed("the value is not in the list"))
}

fn string(state: &mut State, name: &str, args: &[Value]) -> Result<Value, Error> {
    let text = args[0].as_str().unwrap_or_default();
    let args = &args[1..];
    let all = |is: fn(char) -> bool| !text.is_empty() && text.chars().all(is);
    Ok(match name {
        "casefold" => Value::from(text.to_lowercase().replace('ß', "ss")),
        "center" | "ljust" | "rjust" => {
            let (width, fill) = from_args(args)?;
            let side = match name {
                "center" => Side::Both,
                "ljust" => Side::Right,
                _ => Side::Left,
            };
            Value::from(pad(text, width, fill, side)?)
        }
        "expandtabs" => Value::from(expand_tabs(state, text, i64::try_from(args[0].clone())?)?),
        "isdecimal" => Value::from(all(|c| c.is_ascii_digit())),
        // Neither fractions nor Roman numerals.
        "isdigit" => {
            Value::from(all(|c| c.is_numeric() && !matches!(c, '¼'..='¾' | '\u{2150}'..='\u{218b}')))
        }
        "isidentifier" => {
            let starts = |c: char| c == '_' || c.is_alphabetic();
            Value::from(text.starts_with(starts) && text.chars().all(|c| starts(c) || c.is_alphanumeric()))
        }
        "isprintable" => Value::from(text.chars().all(is_printable)),
        "istitle" => Value::from(title(text) == text && text.chars().any(char::is_alphabetic)),
        "join" => match args[0].try_iter()?.find(|value| value.as_str().is_none()) {
            Some(other) => return Err(failed(format!("`join` of a {}", other.kind()))),
            None => Value::from(join(state, args[0].clone(), text.to_owned(), Value::from(()))?),
        },
        "lstrip" | "rstrip" | "strip" => strip(state, name, text, args)?,
        "partition" | "rpartition" => partition(text, from_args::<(&str,)>(args)?.0, name == "rpartition")?,
        "removeprefix" | "removesuffix" => {
            let (affix,): (&str,) = from_args(args)?;
            let rest =
                if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Value::from(rest.unwrap_or(text))
        }
        "replace" => {
            let (old, new, count) = from_args::<(String, String, Option<i64>)>(args)?;
            Value::from(replace(state, text.to_owned(), old, new, count)?)
        }
        "split" | "rsplit" => split(state, text, args, name == "rsplit")?,
        "splitlines" => {
            let lines = lines(text);
            Budget::of(state).charge(lines.len().saturating_mul(ITEM))?;
            let keep_ends = args[0].is_true();
            let lines = lines.into_iter().map(|line| if keep_ends { line } else { without_end(line) });
            lines.map(Value::from).collect()
        }
        "swapcase" => {
            let is_lower = |c: char| !c.is_uppercase();
            Value::from(text.chars().map(|c| cased(c, is_lower(c))).collect::<String>())
        }
        "title" => Value::from(title(text)),
        "zfill" => {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            let width = i64::try_from(args[0].clone())?.saturating_sub(sign.len() as i64);
            Value::from(sign.to_owned() + &pad(digits, width, "0", Side::Left)?)
        }
        _ => search(state, name, text, args)?,
    })
}

fn expand_tabs(state: &mut State, text: &str, size: i64) -> Result<String, Error> {
    let size = usize::try_from(size).unwrap_or(0);
    Budget::of(state).charge(text.matches('\t').count().saturating_mul(size))?;
    let mut out = String::new();
    let mut column = 0_usize;
    for c in text.chars() {
        match c {
            '\t' => {
                let spaces = size - column.checked_rem(size).unwrap_or(0);
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            c => {
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                out.push(c);
            }
        }
    }
    Ok(out)
}

fn split(state: &mut State, text: &str, args: &[Value], right: bool) -> Result<Value, Error> {
    let (separator, limit): (Option<Arc<str>>, i64) = from_args(args)?;
    let pieces = match separator.as_deref() {
        Some("") => return Err(failed("empty separator")),
        Some(separator) => text.matches(separator).count() + 1,
        None => text.split_whitespace().count(),
    };
    let splits = usize::try_from(limit).unwrap_or(usize::MAX).min(pieces);
    Budget::of(state).charge(splits.saturating_mul(ITEM))?;
    if !right {
        return filters::split(&Value::from(text), separator, Some(limit));
    }
    let mut pieces: Vec<&str> = Vec::new();
    if let Some(separator) = separator {
        pieces.extend(text.rsplitn(splits + 1, &*separator));
    } else {
        let mut rest = text.trim_end();
        while let Some(space) = rest.rfind(char::is_whitespace).filter(|_| pieces.len() < splits) {
            pieces.push(rest[space..].trim_start());
            rest = rest[..space].trim_end();
        }
        pieces.extend((!rest.is_empty()).then_some(rest));
    }
    Ok(pieces.into_iter().rev().map(Value::from).collect())
}

fn partition(text: &str, separator: &str, right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(failed("empty separator"));
    }
    let parts = if right { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match parts {
        Some((before, after)) => [before, separator, after],
        None if right => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

/// Calls pycompat's method `name` for the text between two positions, counted in characters.
fn search(state: &mut State, name: &str, text: &str, args: &[Value]) -> Result<Value, Error> {
    let (sub, start, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
    let length = text.chars().count();
    let (start, end) =
        (position(start.unwrap_or(0), length), end.map_or(length, |end| position(end, length)));
    let text: String = text.chars().take(end).skip(start).collect();
    let method = match name {
        "index" => "find",
        "rindex" => "rfind",
        name => name,
    };
    let found = pycompat(state, &Value::from(text), method, &[sub])?;
    match name {
        "index" | "rindex" if found == Value::from(-1) => Err(failed("substring not found")),
        "index" | "rindex" | "find" | "rfind" if found != Value::from(-1) => {
            Ok(Value::from(start + usize::try_from(found)?))
        }
        _ => Ok(found),
    }
}

/// Title case: a capital after every character that is not a letter.
fn title(text: &str) -> String {
    let mut within = false;
    let title = text.chars().map(|c| cased(c, !std::mem::replace(&mut within, c.is_alphabetic())));
    title.collect()
}

fn cased(c: char, upper: bool) -> String {
    if upper { c.to_uppercase().to_string() } else { c.to_lowercase().to_string() }
}
