//! Splits a template into text and tags, like Jinja2's lexer with `trim_blocks` and `lstrip_blocks`.

use crate::Error;

/// Maximum length of a name: the template engine compares names on every use.
const MAX_NAME_BYTES: usize = 255;

/// A part of a template.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Literal text, after white space control.
    Text {
        /// The text.
        text: &'a str,
        /// Its first line, from 1.
        line: usize,
    },
    /// `{{ … }}`
    Print(Vec<Token<'a>>),
    /// `{% … %}`
    Block(Vec<Token<'a>>),
}

/// A token of a tag.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    /// As spelled in the source.
    pub(crate) text: &'a str,
    /// Its line, from 1.
    pub(crate) line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Number,
    /// A string literal's value.
    String(String),
    Operator,
}

impl Token<'_> {
    pub(crate) fn is(&self, operator: &str) -> bool {
        self.kind == Kind::Operator && self.text == operator
    }

    pub(crate) fn is_name(&self, name: &str) -> bool {
        self.kind == Kind::Name && self.text == name
    }
}

/// Normalises line breaks to `\n` and removes the last one.
pub(crate) fn normalize(source: &str) -> String {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    source
}

/// Splits a [normalized](normalize) source into pieces.
pub(crate) fn lex(source: &str) -> Result<Vec<Piece<'_>>, Error> {
    Lexer { source, at: 0, line: 1, line_at: 0 }.pieces()
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    /// Line of byte `line_at`.
    line: usize,
    line_at: usize,
}

impl<'a> Lexer<'a> {
    fn pieces(mut self) -> Result<Vec<Piece<'a>>, Error> {
        let mut pieces = Vec::new();
        loop {
            let start = self.at;
            let opens = |at: &usize| matches!(self.source.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#'));
            let tag = self.rest().match_indices('{').map(|(at, _)| start + at).find(opens);
            let Some(tag) = tag else {
                self.text(&mut pieces, start, self.source.len());
                return Ok(pieces);
            };
            let delimiter = &self.source[tag..tag + 2];
            self.at = tag + 2;
            let sign = self.take_any(&["-", "+"]);
            let end = self.strip(start, tag, delimiter, sign);
            self.text(&mut pieces, start, end);
            match delimiter {
                "{{" => pieces.push(Piece::Print(self.tag(&["-}}", "}}"], tag)?)),
                "{#" => {
                    let end = self.rest().find("#}");
                    let end = self.at + end.ok_or_else(|| self.fail(tag, "`{#` without `#}`"))?;
                    let signed = self.source[self.at..end].ends_with(['-', '+']);
                    self.at = end - usize::from(signed);
                    self.close(&["-#}", "+#}", "#}"]);
                }
                _ if self.raw_tag("raw", &["-%}", "%}"]) => {
                    // Unlike after other tags, a line break after this one is kept.
                    if self.source[..self.at].ends_with("%}\n") {
                        self.at -= 1;
                    }
                    self.raw(&mut pieces, tag)?;
                }
                _ => pieces.push(Piece::Block(self.tag(&["-%}", "+%}", "%}"], tag)?)),
            }
        }
    }

    /// End of the text from `start` to the tag at `end`, after stripping white space before the tag.
    fn strip(&self, start: usize, end: usize, delimiter: &str, sign: Option<&str>) -> usize {
        let text = &self.source[start..end];
        if sign == Some("-") {
            return start + text.trim_end().len();
        }
        let line = text.rfind('\n').map(|at| at + 1);
        let starts_line = start == 0 || self.source[..start].ends_with('\n');
        match line.or(starts_line.then_some(0)) {
            Some(line) if sign.is_none() && delimiter != "{{" && text[line..].trim().is_empty() => {
                start + line
            }
            _ => end,
        }
    }

    /// The text between `{% raw %}` and `{% endraw %}`.
    fn raw(&mut self, pieces: &mut Vec<Piece<'a>>, tag: usize) -> Result<(), Error> {
        let start = self.at;
        loop {
            let found = self.rest().find("{%").map(|at| self.at + at);
            let found = found.ok_or_else(|| self.fail(tag, "`raw` without `endraw`"))?;
            self.at = found + 2;
            let sign = self.take_any(&["-", "+"]);
            if self.raw_tag("endraw", &["-%}", "+%}", "%}"]) {
                let end = self.strip(start, found, "{%", sign);
                self.text(pieces, start, end);
                return Ok(());
            }
            self.at = found + 2;
        }
    }

    /// Consumes `name` and one of `ends` if they are next.
    fn raw_tag(&mut self, name: &str, ends: &[&str]) -> bool {
        let start = self.at;
        self.at = self.skip_space();
        if self.take_any(&[name]).is_some() {
            self.at = self.skip_space();
            if self.close(ends) {
                return true;
            }
        }
        self.at = start;
        false
    }

    /// The tokens up to one of `ends`.
    fn tag(&mut self, ends: &[&str], start: usize) -> Result<Vec<Token<'a>>, Error> {
        let mut tokens: Vec<Token<'a>> = Vec::new();
        let mut closing = Vec::new();
        loop {
            self.at = self.skip_space();
            if closing.is_empty() && self.close(ends) {
                return Ok(tokens);
            }
            let from = self.at;
            let after_dot = tokens.last().is_some_and(|token| token.is("."));
            let Some(first) = self.rest().chars().next() else {
                return Err(self.fail(start, "a tag that does not end"));
            };
            let kind = match first {
                '\'' | '"' => self.string(first)?,
                '0'..='9' => {
                    self.at += number(self.rest(), after_dot);
                    Kind::Number
                }
                c if c == '_' || c.is_alphabetic() => {
                    let rest = self.rest();
                    self.at += rest.find(|c: char| !(c == '_' || c.is_alphanumeric())).unwrap_or(rest.len());
                    Kind::Name
                }
                _ => {
                    const OPERATORS: [&str; 27] = [
                        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")",
                        "{", "}", ">", "<", "=", ".", ":", "|", ",", ";", "!",
                    ];
                    let operator = self.take_any(&OPERATORS);
                    let operator =
                        operator.ok_or_else(|| self.fail(from, &format!("unexpected {first:?}")))?;
                    match operator {
                        "(" => closing.push(")"),
                        "[" => closing.push("]"),
                        "{" => closing.push("}"),
                        ")" | "]" | "}" if closing.pop() != Some(operator) => {
                            return Err(self.fail(from, &format!("unexpected `{operator}`")));
                        }
                        _ => {}
                    }
                    Kind::Operator
                }
            };
            let text = &self.source[from..self.at];
            if kind == Kind::Name && text.len() > MAX_NAME_BYTES {
                return Err(self.fail(from, "a name of more than 255 bytes"));
            }
            let line = self.line_of(from);
            tokens.push(Token { kind, text, line });
        }
    }

    /// The string literal that starts here with `quote`, with Python's escapes.
    fn string(&mut self, quote: char) -> Result<Kind, Error> {
        let start = self.at;
        let mut value = String::new();
        let mut chars = self.source[start + 1..].char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at = start + 1 + at + 1;
                    return Ok(Kind::String(value));
                }
                '\\' => {
                    let Some((at, escape)) = chars.next() else { break };
                    let (digits, radix) = match escape {
                        'x' => (2, 16),
                        'u' => (4, 16),
                        'U' => (8, 16),
                        '0'..='7' => (3, 8),
                        _ => (0, 0),
                    };
                    if radix == 0 {
                        match simple_escape(escape) {
                            Some(c) => value.push(c),
                            None if escape == '\n' => {}
                            None => value.extend(['\\', escape]),
                        }
                        continue;
                    }
                    let from = start + 1 + at + usize::from(radix == 16);
                    let text = &self.source[from..];
                    let length = text.chars().take(digits).take_while(|c| c.is_digit(radix)).count();
                    if radix == 16 && length < digits {
                        return Err(self.fail(start, "a string with an incomplete escape"));
                    }
                    let code = u32::from_str_radix(&text[..length], radix).ok().and_then(char::from_u32);
                    value.push(code.ok_or_else(|| self.fail(start, "a string with no character's number"))?);
                    while chars.next_if(|&(at, _)| start + 1 + at < from + length).is_some() {}
                }
                c => value.push(c),
            }
        }
        Err(self.fail(start, "a string that does not end"))
    }

    /// Consumes the end of a tag and the white space it strips.
    fn close(&mut self, ends: &[&str]) -> bool {
        match self.take_any(ends) {
            None => return false,
            Some(end) if end.starts_with('-') => self.at = self.skip_space(),
            Some("%}" | "#}") if self.rest().starts_with('\n') => self.at += 1,
            Some(_) => {}
        }
        true
    }

    fn text(&mut self, pieces: &mut Vec<Piece<'a>>, start: usize, end: usize) {
        if start < end {
            let line = self.line_of(start);
            pieces.push(Piece::Text { text: &self.source[start..end], line });
        }
    }

    fn take_any<'b>(&mut self, texts: &[&'b str]) -> Option<&'b str> {
        let found = texts.iter().find(|text| self.rest().starts_with(**text))?;
        self.at += found.len();
        Some(found)
    }

    fn skip_space(&self) -> usize {
        self.source.len() - self.rest().trim_start().len()
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// Line of byte `at`, which must not precede the last query.
    fn line_of(&mut self, at: usize) -> usize {
        self.line += self.source[self.line_at..at].matches('\n').count();
        self.line_at = at;
        self.line
    }

    fn fail(&self, at: usize, message: &str) -> Error {
        let line = 1 + self.source[..at].matches('\n').count();
        Error::Syntax { line, message: message.to_owned() }
    }
}

/// The character of a single-character escape.
fn simple_escape(escape: char) -> Option<char> {
    Some(match escape {
        '\\' | '\'' | '"' => escape,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        _ => return None,
    })
}

/// Length in bytes of the number at the start of `text`.
fn number(text: &str, whole: bool) -> usize {
    let run = |from: usize| {
        let rest = &text[from..];
        from + rest.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(rest.len())
    };
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    if text.len() > 2 && matches!(&text.as_bytes()[..2], b"0x" | b"0X" | b"0b" | b"0B" | b"0o" | b"0O") {
        return 2 + text[2..].find(|c: char| !(c.is_ascii_hexdigit() || c == '_')).unwrap_or(text.len() - 2);
    }
    let mut end = run(0);
    if whole {
        return end;
    }
    if text[end..].starts_with('.') && digit(end + 1) {
        end = run(end + 1);
    }
    let signed = usize::from(text[end..].len() > 1 && matches!(text.as_bytes()[end + 1], b'+' | b'-'));
    if text[end..].starts_with(['e', 'E']) && digit(end + 1 + signed) {
        end = run(end + 1 + signed);
    }
    end
}
