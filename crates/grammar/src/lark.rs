//! Grammars of Lark in llguidance's dialect, checked before llguidance reads them.

use serde_json::Value;

use crate::schema::{self, SchemaError};

/// Deepest nesting of parentheses: llguidance's parser is recursive.
const MAX_DEPTH: usize = 128;

/// Where in a grammar of Lark, and what is wrong there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum LarkError {
    #[error(
        "line {line}: parentheses are nested deeper than {MAX_DEPTH}; give the inner ones a rule of their own"
    )]
    Depth { line: usize },
    #[error("line {line}: what follows %json is no JSON: {why}")]
    NotJson { line: usize, why: String },
    #[error("line {line}: the schema after %json {source}")]
    Schema { line: usize, source: SchemaError },
}

/// `grammar` with the JSON schemas in it as [`schema::normalized`] returns them.
pub(crate) fn check(grammar: &str) -> Result<String, LarkError> {
    let (mut result, mut rest) = (String::new(), grammar);
    let (mut depth, mut line) = (0_usize, 1);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => quoted(rest, '"'),
            '/' if !rest.starts_with("//") => quoted(rest, '/'),
            '#' | '/' => rest.find('\n').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        match first {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(LarkError::Depth { line });
        }
        if let Some(after) = rest.strip_prefix("%json") {
            let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
            let value = values.next().unwrap_or(Ok(Value::Null));
            let value = value.map_err(|why| LarkError::NotJson { line, why: why.to_string() })?;
            let schema = schema::normalized(&value).map_err(|source| LarkError::Schema { line, source })?;
            result += "%json ";
            result += &schema.to_string();
            let (read, after) = after.split_at(values.byte_offset());
            line += read.matches('\n').count();
            rest = after;
            continue;
        }
        let (taken, after) = rest.split_at(length);
        line += taken.matches('\n').count();
        result += taken;
        rest = after;
    }
    Ok(result)
}

/// Bytes of the text or regular expression at the beginning of `text`; of one that is not closed, to the end of the line.
fn quoted(text: &str, end: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '\n' => return at,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            other if other == end => return at + 1,
            _ => {}
        }
    }
    text.len()
}

pub(crate) fn from_regex(pattern: &str) -> Result<String, String> {
    schema::check_regex(pattern)?;
    Ok(format!("start: TEXT\nTEXT: /{}/\n", llguidance::regex_to_lark(&format!("(?:{pattern})"), "")))
}
