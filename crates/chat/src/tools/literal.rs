//! Literals of Python and of Gemma, and calls with them as arguments.

use serde_json::{Map, Number, Value as Json};

use super::schema::{Tool, Types};

const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// `name(key=value, …)`.
    Python,
    /// `name{key:value,…}` with strings between two of these marks.
    Gemma { quote: &'static str },
}

impl Syntax {
    pub(crate) fn brackets(self) -> (char, char) {
        match self {
            Syntax::Python => ('(', ')'),
            Syntax::Gemma { .. } => ('{', '}'),
        }
    }

    pub(crate) fn assigns(self) -> char {
        match self {
            Syntax::Python => '=',
            Syntax::Gemma { .. } => ':',
        }
    }

    /// How a value is written; `None` for lists and objects.
    pub(super) fn written(self, value: &Json) -> Option<String> {
        Some(match (self, value) {
            (_, Json::Array(_) | Json::Object(_)) => return None,
            (Syntax::Gemma { quote }, Json::String(text)) => format!("{quote}{text}{quote}"),
            (Syntax::Python, Json::Null) => "None".into(),
            (Syntax::Python, Json::Bool(true)) => "True".into(),
            (Syntax::Python, Json::Bool(false)) => "False".into(),
            (_, value) => value.to_string(),
        })
    }

    pub(crate) fn read(self, text: &str) -> Option<Json> {
        let mut reader = Reader { syntax: self, rest: text.trim() };
        let value = reader.value(MAX_DEPTH)?;
        reader.space();
        reader.rest.is_empty().then_some(value)
    }

    /// The arguments between the brackets of a call of `tool`.
    pub(crate) fn arguments(self, text: &str, tool: &Tool) -> Option<Map<String, Json>> {
        let mut reader = Reader { syntax: self, rest: text };
        let mut arguments = Map::new();
        loop {
            reader.space();
            if reader.rest.is_empty() {
                return Some(arguments);
            }
            let key = reader.key()?;
            reader.eat(self.assigns())?;
            reader.space();
            let before = reader.rest;
            let types = Types::of(tool, &key);
            let value = match reader.value(MAX_DEPTH).filter(|_| reader.ends()) {
                // Not quoted, but a string by the schema.
                Some(Json::String(text)) => text.into(),
                Some(_) if types.is_only("string") => {
                    before[..before.len() - reader.rest.len()].trim_end().into()
                }
                Some(value) => value,
                None if matches!(self, Syntax::Gemma { .. }) => {
                    // Up to the next key.
                    let end = before.find([',', '}', ']']).unwrap_or(before.len());
                    reader.rest = &before[end..];
                    before[..end].trim_end().into()
                }
                None => return None,
            };
            arguments.insert(key, value);
            if reader.eat(',').is_none() {
                reader.space();
                return reader.rest.is_empty().then_some(arguments);
            }
        }
    }
}

/// Finds the end of arguments while they are generated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    depth: usize,
    quote: Option<&'static str>,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The bytes of the arguments, with the bracket that closes them.
    Found(usize),
    /// The bytes that need not be seen again.
    Seen(usize),
    Invalid,
}

impl Ends {
    /// Looks for the end of arguments in `text`, which goes on if `more`. The opening bracket has been read.
    pub(crate) fn find(&mut self, syntax: Syntax, text: &str, more: bool) -> End {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            if self.escaped {
                self.escaped = false;
            } else if let Some(quote) = self.quote {
                if rest.starts_with(quote) {
                    (self.quote, at) = (None, at + quote.len());
                    continue;
                }
                if more && quote.starts_with(rest) {
                    return End::Seen(at);
                }
                self.escaped = c == '\\' && syntax == Syntax::Python;
            } else {
                let quotes = match syntax {
                    Syntax::Python => ["'", "\""],
                    Syntax::Gemma { quote } => [quote; 2],
                };
                if let Some(quote) = quotes.into_iter().find(|quote| rest.starts_with(quote)) {
                    (self.quote, at) = (Some(quote), at + quote.len());
                    continue;
                }
                if more && quotes.iter().any(|quote| quote.starts_with(rest)) {
                    return End::Seen(at);
                }
                match c {
                    '(' | '[' | '{' if self.depth == MAX_DEPTH => return End::Invalid,
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' if self.depth == 0 => {
                        return if c == syntax.brackets().1 { End::Found(at + 1) } else { End::Invalid };
                    }
                    ')' | ']' | '}' => self.depth -= 1,
                    _ => {}
                }
            }
            at += c.len_utf8();
        }
        End::Seen(at)
    }
}

struct Reader<'a> {
    syntax: Syntax,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, c: char) -> Option<()> {
        self.space();
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn ends(&self) -> bool {
        let rest = self.rest.trim_start();
        rest.is_empty() || rest.starts_with(',')
    }

    /// The text while `is_part` holds.
    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn key(&mut self) -> Option<String> {
        self.space();
        if let Syntax::Gemma { quote } = self.syntax
            && self.rest.starts_with(quote)
        {
            return self.text();
        }
        if self.rest.starts_with(['"', '\'']) {
            return self.text();
        }
        let key = match self.syntax {
            Syntax::Python => self.take_while(|c| c.is_alphanumeric() || c == '_'),
            Syntax::Gemma { .. } => self.take_while(|c| !",:{}[]\n".contains(c)).trim(),
        };
        (!key.is_empty()).then(|| key.to_owned())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let depth = depth.checked_sub(1)?;
        self.space();
        match self.rest.chars().next()? {
            '[' => self.items(']', depth).map(Json::Array),
            '(' if self.syntax == Syntax::Python => self.items(')', depth).map(Json::Array),
            '{' => self.entries(depth).map(Json::Object),
            '"' | '\'' => self.text().map(Json::String),
            _ if matches!(self.syntax, Syntax::Gemma { quote } if self.rest.starts_with(quote)) => {
                self.text().map(Json::String)
            }
            _ => match self.take_while(|c| c.is_ascii_alphanumeric() || "+-._".contains(c)) {
                "None" | "null" | "none" => Some(Json::Null),
                "True" | "true" => Some(true.into()),
                "False" | "false" => Some(false.into()),
                word => number(word),
            },
        }
    }

    fn items(&mut self, close: char, depth: usize) -> Option<Vec<Json>> {
        let mut items = Vec::new();
        self.rest = &self.rest[1..];
        while self.eat(close).is_none() {
            items.push(self.value(depth)?);
            if self.eat(',').is_none() {
                self.eat(close)?;
                break;
            }
        }
        Some(items)
    }

    fn entries(&mut self, depth: usize) -> Option<Map<String, Json>> {
        let mut entries = Map::new();
        self.rest = &self.rest[1..];
        while self.eat('}').is_none() {
            self.space();
            // Python's keys are values.
            let key = match self.syntax {
                Syntax::Python => self.text()?,
                Syntax::Gemma { .. } => self.key()?,
            };
            self.eat(':')?;
            entries.insert(key, self.value(depth)?);
            if self.eat(',').is_none() {
                self.eat('}')?;
                break;
            }
        }
        Some(entries)
    }

    fn text(&mut self) -> Option<String> {
        if let Syntax::Gemma { quote } = self.syntax
            && let Some(rest) = self.rest.strip_prefix(quote)
        {
            let (text, rest) = rest.split_once(quote)?;
            self.rest = rest;
            return Some(text.to_owned());
        }
        let quote = self.rest.chars().next().filter(|c| "\"'".contains(*c))?;
        let mut text = String::new();
        let mut rest = self.rest[1..].chars();
        loop {
            match rest.next()? {
                c if c == quote => break,
                '\\' => escape(&mut rest, &mut text)?,
                c => text.push(c),
            }
        }
        self.rest = rest.as_str();
        Some(text)
    }
}

/// Reads what a backslash escapes in Python.
fn escape(rest: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    let c = match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'a' => '\u{7}',
        'v' => '\u{b}',
        '0' => '\0',
        '\n' => return Some(()),
        'x' => char::from_u32(code(rest, 2)?)?,
        'U' => char::from_u32(code(rest, 8)?)?,
        'u' => {
            let high = code(rest, 4)?;
            if !(0xd800..0xdc00).contains(&high) {
                char::from_u32(high)?
            } else {
                // Python has no pairs, but JSON, which models mix it up with, has.
                *rest = rest.as_str().strip_prefix("\\u")?.chars();
                let low = code(rest, 4).filter(|low| (0xdc00..0xe000).contains(low))?;
                char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?
            }
        }
        c @ ('\\' | '\'' | '"' | '/') => c,
        other => {
            text.push('\\');
            other
        }
    };
    text.push(c);
    Some(())
}

/// A character code of so many hexadecimal digits.
fn code(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    let text = rest.as_str().get(..digits)?;
    *rest = rest.as_str()[digits..].chars();
    text.chars().all(|c| c.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok())?
}

fn number(word: &str) -> Option<Json> {
    let plain = word.strip_prefix('+').unwrap_or(word).replace('_', "");
    if let Ok(number) = serde_json::from_str::<Number>(&plain) {
        return Some(number.into());
    }
    // `.5` and `5.`, but no names such as `inf`.
    let is_number =
        plain.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) && plain.contains(['.', 'e', 'E']);
    let number: f64 = plain.parse().ok().filter(|_| is_number)?;
    Number::from_f64(number).map(Json::Number)
}
