//! Splits a template into text and tags as Jinja2 does with `trim_blocks` and `lstrip_blocks`.
//!
//! The expressions follow `jinja2/lexer.py`.

use std::sync::LazyLock;

use regex::Regex;

use crate::Error;

/// Maximum length of a name: the template engine compares names on every use.
const MAX_NAME_BYTES: usize = 255;

/// A part of a template.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// Literal text after whitespace control.
    Text(&'a str),
    /// `{{ … }}`
    Print(Vec<Token<'a>>),
    /// `{% … %}`
    Block(Vec<Token<'a>>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// Its first byte in the source.
    pub(crate) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    /// A number or string.
    Literal,
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

static OPEN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\{(?<kind>[{%#])(?<sign>[-+]?)(?<raw>\s*raw\s*(?:-%\}\s*|%\}))?"));
static END_RAW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\{%(?<sign>[-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)"));
static END_COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\+#\}|-#\}\s*|#\}\n?"));
static END_PRINT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:-\}\}\s*|\}\})"));
static END_BLOCK: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:\+%\}|-%\}\s*|%\}\n?)"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?x)^(?:
        (?<name> [\p{L}_][\p{L}\p{N}_]* )
        | (?<literal>
            0[xXbBoO][[:xdigit:]_]+ | [0-9][0-9_]*(?:\.[0-9][0-9_]*)?(?:[eE][-+]?[0-9]+)?
            | '(?:\\(?s:.)|[^'\\])*' | "(?:\\(?s:.)|[^"\\])*" )
        | // | \*\* | [=!<>]= | [-+/*%~\[\](){}<>=.:|,]
        )"#,
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
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
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(open) = OPEN.captures_at(source, at) {
        let tag = open.get_match().start();
        pieces.push(Piece::Text(strip(source, at, tag, &open["kind"], &open["sign"])));
        at = open.get_match().end();
        let unclosed = |what: &str| fail(source, tag, format!("`{what}` is not closed"));
        match &open["kind"] {
            "%" if open.name("raw").is_some() => {
                let end = END_RAW.captures_at(source, at).ok_or_else(|| unclosed("{% raw %}"))?;
                let range = end.get_match().range();
                pieces.push(Piece::Text(strip(source, at, range.start, "%", &end["sign"])));
                at = range.end;
            }
            "#" => at = END_COMMENT.find_at(source, at).ok_or_else(|| unclosed("{#"))?.end(),
            "%" => pieces.push(Piece::Block(tokens(source, &mut at, &END_BLOCK, || unclosed("{%"))?)),
            _ => pieces.push(Piece::Print(tokens(source, &mut at, &END_PRINT, || unclosed("{{"))?)),
        }
    }
    pieces.push(Piece::Text(&source[at..]));
    Ok(pieces)
}

/// The text from `start` to a tag at `end`, without the whitespace that the tag strips.
fn strip<'a>(source: &'a str, start: usize, end: usize, kind: &str, sign: &str) -> &'a str {
    let text = &source[start..end];
    if sign == "-" {
        return text.trim_end();
    }
    let starts_line = start == 0 || source[..start].ends_with('\n');
    match text.rfind('\n').map(|at| at + 1).or(starts_line.then_some(0)) {
        Some(line) if sign.is_empty() && kind != "{" && text[line..].trim().is_empty() => &text[..line],
        _ => text,
    }
}

/// The tokens from `at` to the tag's `end`, which is consumed.
fn tokens<'a>(
    source: &'a str,
    at: &mut usize,
    end: &Regex,
    unclosed: impl Fn() -> Error,
) -> Result<Vec<Token<'a>>, Error> {
    let mut tokens: Vec<Token<'a>> = Vec::new();
    let mut brackets = Vec::new();
    loop {
        let rest = source[*at..].trim_start();
        *at = source.len() - rest.len();
        if let Some(end) = end.find(rest).filter(|_| brackets.is_empty()) {
            *at += end.end();
            return Ok(tokens);
        }
        let Some(found) = TOKEN.captures(rest) else {
            let unexpected = |c| fail(source, *at, format!("unexpected {c:?}"));
            return Err(rest.chars().next().map_or_else(unclosed, unexpected));
        };
        let text = found.get_match().as_str();
        match text {
            "(" => brackets.push(")"),
            "[" => brackets.push("]"),
            "{" => brackets.push("}"),
            ")" | "]" | "}" if brackets.pop() != Some(text) => {
                return Err(fail(source, *at, format!("unexpected `{text}`")));
            }
            _ => {}
        }
        let kind = match (found.name("name"), found.name("literal")) {
            (Some(_), _) if text.len() > MAX_NAME_BYTES => {
                return Err(fail(source, *at, "a name of more than 255 bytes"));
            }
            (Some(_), _) => Kind::Name,
            (_, Some(_)) if has_foreign_escape(text) => {
                return Err(fail(source, *at, format!("an escape that is not supported in {text}")));
            }
            (_, Some(_)) => Kind::Literal,
            _ => Kind::Operator,
        };
        tokens.push(Token { kind, text, at: *at });
        *at += text.len();
    }
}

/// Whether a literal has an escape of Python that minijinja reads differently.
fn has_foreign_escape(literal: &str) -> bool {
    literal
        .replace(r"\\", "")
        .split('\\')
        .skip(1)
        .any(|rest| rest.starts_with(['a', 'v', 'U', 'N', '/', '\n']))
}

/// A syntax error at byte `at` of `source`.
pub(crate) fn fail(source: &str, at: usize, message: impl Into<String>) -> Error {
    Error::Syntax { line: 1 + source[..at].matches('\n').count(), message: message.into() }
}
