//! Jinja2's filters, where minijinja's differ or lack limits.

use minijinja::functions::Function;
use minijinja::value::{FunctionArgs, FunctionResult, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters};
use minijinja_contrib::filters as contrib;

use crate::json::tojson;
use crate::limits::{Budget, ITEM, Use, failed};
use crate::text::{Text, text_of};

/// Maximum field width of a format, and maximum number of characters to strip.
const MAX_WIDTH: usize = 1000;

pub(crate) fn add_to(environment: &mut Environment<'static>) {
    // Filters that Jinja2 does not have; some lack limits.
    ["bool", "chain", "lines", "split", "zip"].into_iter().for_each(|name| environment.remove_filter(name));
    environment.remove_global("debug");

    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_filter("string", |state: &mut State, value: Value| text_of(state, &value));
    environment.add_filter("tojson", tojson);
    environment.add_filter("wordcount", |text: &str| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count()
    });
    let mut own = |name, function: fn(&mut State, &[Value]) -> Result<Value, Error>| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            function(state, &args.into_values())
        });
    };
    own("replace", replace);
    own("join", join);
    own("indent", indent);
    own("center", center);
    own("truncate", truncate);
    own("wordwrap", wordwrap);
    own("filesizeformat", file_size);
    own("format", format);
    own("default", default);
    own("d", default);
    own("int", int);
    own("float", float);
    own("urlencode", urlencode);
    own("pprint", |state, args| {
        let mut text = Text::new(state);
        text.repr(&first(args), 0)?;
        Ok(Value::from(text.text))
    });
    ["escape", "e", "forceescape"].into_iter().for_each(|name| own(name, escape));
    own("trim", |state, args| strip(state, args, |text, set| text.trim_matches(set)));

    // minijinja's own filters whose cost is proportional to the size of their input.
    let mut charged = |name, function: Value| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            for arg in &args {
                Budget::of(state).charge_for(arg, Use::Make)?;
            }
            // Each character may become an item.
            let characters = args.first().and_then(Value::as_str).map_or(0, str::len);
            Budget::of(state).charge(characters.saturating_mul(ITEM))?;
            function.call(state, &args)
        });
    };
    charged("sort", value(filters::sort));
    charged("unique", value(filters::unique));
    charged("min", value(filters::min));
    charged("max", value(filters::max));
    charged("dictsort", value(dictsort));
    charged("groupby", value(filters::groupby));
    charged("list", value(list));
    charged("map", value(filters::map));
    charged("batch", value(batch));
    charged("slice", value(slice));
    charged("sum", value(sum));
    charged("upper", value(filters::upper));
    charged("lower", value(filters::lower));
    charged("title", value(title));
    charged("capitalize", value(filters::capitalize));
    charged("safe", value(filters::safe));
    charged("striptags", value(striptags));

    // Each item may be compared with all parts of the other arguments.
    let mut compared = |name, function: Value| {
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            let size = |value: &Value| value.as_str().map(str::len).or(value.len()).unwrap_or(1);
            let others = args.iter().skip(1).map(size).sum::<usize>();
            Budget::of(state).charge(args.first().map_or(0, size).saturating_mul(others))?;
            function.call(state, &args)
        });
    };
    compared("select", value(filters::select));
    compared("reject", value(filters::reject));
    compared("selectattr", value(filters::selectattr));
    compared("rejectattr", value(filters::rejectattr));
}

fn value<F, Rv, Args>(function: F) -> Value
where
    F: Function<Rv, Args>,
    Rv: FunctionResult,
    Args: for<'a> FunctionArgs<'a>,
{
    Value::from_function(function)
}

/// Binds the arguments of a call, positional or by the parameter `names`.
pub(crate) fn bind<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Option<Value>; N], Error> {
    let (args, named) = match args.split_last() {
        Some((last, args)) if last.is_kwargs() => (args, Some(Kwargs::try_from(last.clone())?)),
        _ => (args, None),
    };
    if args.len() > N {
        return Err(failed(format!("{} arguments, expected at most {N}", args.len())));
    }
    let mut values = names.map(|_| None);
    for (index, slot) in values.iter_mut().enumerate() {
        *slot = args.get(index).cloned();
        if let Some(named) = &named
            && named.has(names[index])
        {
            *slot = Some(named.get(names[index])?);
        }
    }
    named.map_or(Ok(()), |named| named.assert_all_used())?;
    Ok(values)
}

/// A count of characters or items, at least 0.
pub(crate) fn count(value: Option<&Value>, default: usize) -> Result<usize, Error> {
    let Some(value) = value else { return Ok(default) };
    Ok(usize::try_from(i64::try_from(value.clone())?.max(0)).unwrap_or(0))
}

fn is_set(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_true)
}

fn first(args: &[Value]) -> Value {
    args.first().cloned().unwrap_or_default()
}

/// Like minijinja's, but undefined has length 0, as in Jinja2.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(value) }
}

/// `replace(old, new, count=none)`, also a string method.
pub(crate) fn replace(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, old, new, limit] = bind(args, ["s", "old", "new", "count"])?;
    let [text, old, new] = [value, old, new].map(|value| text_of(state, &value.unwrap_or_default()));
    let (text, old, new) = (text?, old?, new?);
    let limit = limit.filter(|limit| !limit.is_none()).map(i64::try_from).transpose()?;
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut out = Text::new(state);
    let mut rest = 0;
    for (at, _) in text.match_indices(&old).take(limit) {
        out.push(&text[rest..at])?;
        out.push(&new)?;
        rest = at + old.len();
    }
    out.push(&text[rest..])?;
    Ok(Value::from(out.text))
}

fn join(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [values, separator, attribute] = bind(args, ["value", "d", "attribute"])?;
    let mut values = values.unwrap_or_default();
    if let Some(attribute) = attribute.filter(|attribute| !attribute.is_none()) {
        let attribute = Value::from(Kwargs::from_iter([("attribute", attribute)]));
        values = state.apply_filter("map", &[values, attribute])?;
    }
    let separator = match separator {
        Some(separator) => text_of(state, &separator)?,
        None => String::new(),
    };
    if values.is_none() {
        return Err(failed("none is not iterable"));
    }
    let mut out = Text::new(state);
    for (index, value) in values.try_iter()?.enumerate() {
        out.push(if index > 0 { &separator } else { "" })?;
        out.value(&value)?;
    }
    Ok(Value::from(out.text))
}

/// `indent(width=4, first=false, blank=false)`
fn indent(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, width, first, blank] = bind(args, ["s", "width", "first", "blank"])?;
    let indent = match &width {
        Some(width) if width.as_str().is_some() => width.as_str().unwrap_or_default().to_owned(),
        width => match count(width.as_ref(), 4)? {
            width @ ..=MAX_WIDTH => " ".repeat(width),
            _ => return Err(failed("`indent` takes at most 1000 spaces")),
        },
    };
    let text = text_of(state, &value.unwrap_or_default())? + "\n";
    let mut out = Text::new(state);
    for (index, line) in lines(&text).into_iter().enumerate() {
        out.push(if index > 0 { "\n" } else { "" })?;
        let indented =
            if index == 0 { is_set(first.as_ref()) } else { !line.is_empty() || is_set(blank.as_ref()) };
        out.push(if indented { &indent } else { "" })?;
        out.push(line)?;
    }
    Ok(Value::from(out.text))
}

/// Lines of `text` without line breaks, like Python's `splitlines`.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    lines_with_ends(text)
        .map(|line| line.strip_suffix("\r\n").unwrap_or(line.trim_end_matches(is_line_end)))
        .collect()
}

/// Lines of `text` with line breaks.
pub(crate) fn lines_with_ends(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let ending = match &rest[end..] {
            crlf if crlf.starts_with("\r\n") => 2,
            ending => ending.chars().next().map_or(0, char::len_utf8),
        };
        let (line, after) = rest.split_at(end + ending);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `default(default_value='', boolean=false)`
fn default(_: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default, boolean] = bind(args, ["value", "default_value", "boolean"])?;
    let value = value.unwrap_or_default();
    let absent = value.is_undefined() || (is_set(boolean.as_ref()) && !value.is_true());
    Ok(if absent { default.unwrap_or_else(|| Value::from("")) } else { value })
}

/// `int(default=0, base=10)`
fn int(_: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default, base] = bind(args, ["value", "default", "base"])?;
    let value = value.unwrap_or_default();
    let Some(text) = value.as_str() else {
        let number = number(&value).filter(|number| number.is_finite());
        let whole =
            || if value.is_integer() { Some(value.clone()) } else { Some(Value::from(number? as i128)) };
        return Ok(whole().or(default).unwrap_or_else(|| Value::from(0)));
    };
    let base = u32::try_from(count(base.as_ref(), 10)?).unwrap_or(10).clamp(2, 36);
    let digits = text.trim().replace('_', "");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let prefix = match base {
        16 => ["0x", "0X"],
        8 => ["0o", "0O"],
        2 => ["0b", "0B"],
        _ => ["", ""],
    };
    let digits = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix)).unwrap_or(digits);
    let whole = i128::from_str_radix(digits, base).ok().map(|number| sign * number);
    let real =
        || text.trim().parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number as i128);
    let whole = whole
        .or_else(real)
        .map(|number| i64::try_from(number).map_or_else(|_| Value::from(number), Value::from));
    Ok(whole.or(default).unwrap_or_else(|| Value::from(0)))
}

/// `float(default=0.0)`
fn float(_: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, default] = bind(args, ["value", "default"])?;
    let value = value.unwrap_or_default();
    let real = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => number(&value),
    };
    Ok(real.map(Value::from).or(default).unwrap_or_else(|| Value::from(0.0)))
}

fn number(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn list(state: &State, value: Value) -> Result<Value, Error> {
    if value.is_none() { Err(failed("none is not iterable")) } else { filters::list(state, value) }
}

/// `dictsort(case_sensitive=false, by='key', reverse=false)`
fn dictsort(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let names = ["case_sensitive", "by", "reverse"];
    let [map, options @ ..] = bind(&args.into_values(), ["value", names[0], names[1], names[2]])?;
    let options = names.into_iter().zip(options).filter_map(|(name, value)| Some((name, value?)));
    filters::dictsort(&map.unwrap_or_default(), Kwargs::from_iter(options))
}

fn escape(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let text = text_of(state, &first(args))?;
    let mut out = Text::new(state);
    for c in text.chars() {
        match c {
            '&' => out.push("&amp;")?,
            '<' => out.push("&lt;")?,
            '>' => out.push("&gt;")?,
            '"' => out.push("&#34;")?,
            '\'' => out.push("&#39;")?,
            c => out.push(c.encode_utf8(&mut [0; 4]))?,
        }
    }
    Ok(Value::from_safe_string(out.text))
}

fn urlencode(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let value = first(args);
    if value.as_str().is_some()
        || !matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable)
    {
        return quoted(state, &value, false).map(Value::from);
    }
    let items = if value.kind() == ValueKind::Map { filters::items(&value)? } else { value };
    let mut pairs = Vec::new();
    for pair in items.try_iter()? {
        let [key, value] = [0, 1].map(|index| pair.get_item_by_index(index));
        pairs.push(quoted(state, &key?, true)? + "=" + &quoted(state, &value?, true)?);
    }
    Ok(Value::from(pairs.join("&")))
}

/// URL-encodes `value`; in a `form`, a space becomes a plus.
fn quoted(state: &mut State, value: &Value, form: bool) -> Result<String, Error> {
    let text = text_of(state, value)?;
    let mut out = Text::new(state);
    for byte in text.bytes() {
        match byte {
            b' ' if form => out.push("+")?,
            b'/' if !form => out.push("/")?,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(char::from(byte).encode_utf8(&mut [0; 4]))?
            }
            byte => out.push(&format!("%{byte:02X}"))?,
        }
    }
    Ok(out.text)
}

fn center(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, width] = bind(args, ["value", "width"])?;
    let text = text_of(state, &value.unwrap_or_default())?;
    pad(state, &text, count(width.as_ref(), 80)?, ' ', Side::Both)
}

/// The side to pad.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
    Both,
}

/// Pads `text` with `fill` to `width` characters.
pub(crate) fn pad(
    state: &mut State,
    text: &str,
    width: usize,
    fill: char,
    side: Side,
) -> Result<Value, Error> {
    let missing = width.saturating_sub(text.chars().count());
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        // As in Python, the odd character is on the left only for odd widths.
        Side::Both => missing / 2 + (missing & width & 1),
    };
    let mut out = Text::new(state);
    let fill = fill.to_string();
    out.repeat(&fill, left)?;
    out.push(text)?;
    out.repeat(&fill, missing - left)?;
    Ok(Value::from(out.text))
}

/// `truncate(length=255, killwords=false, end='...', leeway=5)`
fn truncate(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, length, kill, end, leeway] = bind(args, ["s", "length", "killwords", "end", "leeway"])?;
    let text = text_of(state, &value.unwrap_or_default())?;
    let end = end.map_or_else(|| Ok("...".to_owned()), |end| text_of(state, &end))?;
    let (length, leeway) = (count(length.as_ref(), 255)?, count(leeway.as_ref(), 5)?);
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(Value::from(text));
    }
    let room = length.checked_sub(end.chars().count());
    let room = room.ok_or_else(|| failed("`truncate` to fewer characters than its end has"))?;
    let cut: String = text.chars().take(room).collect();
    let cut = match cut.rsplit_once(' ') {
        Some((words, _)) if !is_set(kill.as_ref()) => words,
        _ => &cut,
    };
    Ok(Value::from([cut, &end].concat()))
}

/// `wordwrap(width=79, break_long_words=true, wrapstring='\n')`, breaking at white space.
fn wordwrap(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let names = ["s", "width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [value, width, long, between, _] = bind(args, names)?;
    let text = text_of(state, &value.unwrap_or_default())?;
    let width = count(width.as_ref(), 79)?.max(1);
    let between = between.map_or_else(|| Ok("\n".to_owned()), |between| text_of(state, &between))?;
    let breaks = long.is_none_or(|long| long.is_true());
    let mut out = Text::new(state);
    for (index, line) in lines(&text).into_iter().enumerate() {
        out.push(if index > 0 { &between } else { "" })?;
        let mut used = 0;
        for word in line.split(' ') {
            let mut word = word;
            let mut length = word.chars().count();
            if used > 0 && used + 1 + length <= width {
                out.push(" ")?;
                used += 1;
            } else if used > 0 {
                out.push(&between)?;
                used = 0;
            }
            while breaks && length > width {
                let cut = word.char_indices().nth(width).map_or(word.len(), |(at, _)| at);
                out.push(&word[..cut])?;
                out.push(&between)?;
                word = &word[cut..];
                length -= width;
            }
            out.push(word)?;
            used += length;
        }
    }
    Ok(Value::from(out.text))
}

/// `filesizeformat(binary=false)`
fn file_size(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let [value, binary] = bind(args, ["value", "binary"])?;
    let bytes = f64::try_from(state.apply_filter("float", &[value.unwrap_or_default()])?)?;
    let (base, infix) = if is_set(binary.as_ref()) { (1024.0, "i") } else { (1000.0, "") };
    if bytes == 1.0 {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", bytes.trunc())));
    }
    let units = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut scaled = bytes / base;
    let mut unit = 0;
    while scaled >= base && unit + 1 < units.len() {
        scaled /= base;
        unit += 1;
    }
    let prefix = if infix == "i" { units[unit].to_uppercase() } else { units[unit].to_owned() };
    Ok(Value::from(format!("{scaled:.1} {prefix}{infix}B")))
}

/// Title case; as in Jinja2, words start after white space and `-({[<`.
fn title(text: String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut starts = true;
    for c in text.chars() {
        if starts {
            out.extend(c.to_uppercase())
        } else {
            out.extend(c.to_lowercase())
        }
        starts = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    out
}

fn striptags(text: String) -> String {
    contrib::striptags(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn batch(state: &mut State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    Budget::of(state).charge(if fill.is_some() { count.saturating_mul(ITEM) } else { 0 })?;
    filters::batch(state, value, count, fill)
}

fn slice(state: &mut State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    Budget::of(state).charge(count.saturating_mul(2 * ITEM))?;
    filters::slice(state, value, count, fill)
}

/// Like minijinja's, but for numbers only.
fn sum(state: &State, values: Value, attribute: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let start: Option<Value> = options.peek("start")?;
    if start.is_some_and(|start| start.kind() != ValueKind::Number) {
        return Err(failed("`sum` starts at a number"));
    }
    let attribute = attribute.as_ref().and_then(Value::as_str);
    filters::sum(state, values, attribute, None, options)
}

/// `'%s' | format(a, b)`
pub(crate) fn format(state: &mut State, args: &[Value]) -> Result<Value, Error> {
    let (template, values) = args.split_first().ok_or_else(|| failed("`format` of nothing"))?;
    let values = formatted(state, first(args).as_str().unwrap_or_default(), '%', values)?;
    filters::format(state, template, Rest(values.into_iter().map(ValueOrKwargs::from).collect()))
}

/// Prepares the arguments for minijinja's formatting so that floats and lists print as in Python.
///
/// Fails if a field, each of which starts with `mark`, could be wider than [`MAX_WIDTH`]; charges for the fields.
pub(crate) fn formatted(
    state: &mut State,
    format: &str,
    mark: char,
    values: &[Value],
) -> Result<Vec<Value>, Error> {
    // `%%` is no field.
    let format = format.replace("%%", "");
    let fields = format.split(mark).skip(1);
    let wide = |spec: &str| {
        let mut runs = spec.split(|c: char| !c.is_ascii_digit());
        runs.any(|run| run.trim_start_matches('0').len() > 3) || (mark == '%' && spec.contains('*'))
    };
    let mut specs = fields.clone().map(|field| match mark {
        '{' => field.split('}').next().unwrap_or(field),
        _ => {
            let field = if field.starts_with('(') {
                field.split_once(')').map_or("", |(_, spec)| spec)
            } else {
                field
            };
            field.split(|c: char| c.is_alphabetic()).next().unwrap_or(field)
        }
    });
    // minijinja cuts within a character here.
    let odd = |field: &str| {
        let conversion = field.trim_start_matches(|c: char| c.is_ascii_digit() || "#- +.".contains(c));
        !conversion.starts_with('(')
            && !conversion.is_empty()
            && !conversion.starts_with(|c: char| c.is_ascii())
    };
    if mark == '%' && fields.clone().any(odd) {
        return Err(failed("a format with a conversion that does not exist"));
    }
    if specs.any(wide) {
        return Err(failed("a field of a format that may be wider than 999"));
    }
    let mut bytes = MAX_WIDTH;
    for value in values {
        bytes += text_of(state, value)?.len();
    }
    Budget::of(state).charge(bytes.saturating_mul(fields.count()))?;
    values
        .iter()
        .map(|value| match value.kind() {
            ValueKind::Map | ValueKind::Number | ValueKind::Bool => Ok(value.clone()),
            _ => text_of(state, value).map(Value::from),
        })
        .collect()
}

/// Strips with `trim`: white space, or the characters in the second argument.
pub(crate) fn strip(
    state: &mut State,
    args: &[Value],
    trim: for<'a> fn(&'a str, &dyn Fn(char) -> bool) -> &'a str,
) -> Result<Value, Error> {
    let [value, chars] = bind(args, ["value", "chars"])?;
    let text = text_of(state, &value.unwrap_or_default())?;
    let chars: Option<Vec<char>> = match chars {
        Some(chars) if !chars.is_none() => Some(text_of(state, &chars)?.chars().collect()),
        _ => None,
    };
    if chars.as_ref().is_some_and(|chars| chars.len() > MAX_WIDTH) {
        return Err(failed("more than 1000 characters to strip"));
    }
    let goes = |c: char| chars.as_ref().map_or(c.is_whitespace(), |chars| chars.contains(&c));
    Ok(Value::from(trim(&text, &goes)))
}
