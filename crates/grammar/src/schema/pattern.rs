//! Regular expressions of schemas: from ECMA-262 to the syntax of Rust.

use llguidance::regex_to_lark;
use serde_json::Value;

use super::SchemaProblem;

/// Longest regular expression in bytes: some take a time that grows with the square of their length.
const MAX_BYTES: usize = 16 << 10;

fn too_long(pattern: &str) -> String {
    format!("it has {} bytes, at most {MAX_BYTES} are supported; make it smaller", pattern.len())
}

pub(crate) fn check(pattern: &str) -> Result<(), String> {
    if pattern.len() > MAX_BYTES {
        return Err(too_long(pattern));
    }
    regex_syntax::Parser::new().parse(pattern).map(drop).map_err(|error| reason(&error))
}

/// `pattern` of ECMA-262 for llguidance: in brackets, Rust knows nested brackets and operators, which are characters there.
pub(super) fn translated(keyword: &str, pattern: &str) -> Result<String, SchemaProblem> {
    let refused = |why: String| SchemaProblem::Pattern {
        keyword: keyword.to_owned(),
        found: super::pointer::brief(&Value::from(pattern)),
        why,
    };
    if pattern.len() > MAX_BYTES {
        return Err(refused(too_long(pattern)));
    }
    let mut result = String::new();
    let mut in_class = false;
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let escaped =
                    characters.next().ok_or_else(|| refused("it ends with a backslash".to_owned()))?;
                match escaped {
                    // Beginnings and ends of words and texts in Rust only.
                    '<' | '>' => result.push(escaped),
                    'A' | 'z' | 'Z' => {
                        return Err(refused(format!(
                            "ECMA-262 has no escape \\{escaped}; write ^ for the start of a text and $ for its end"
                        )));
                    }
                    'b' | 'B' if !in_class => {
                        return Err(refused("boundaries of words (\\b, \\B) are not supported".to_owned()));
                    }
                    'b' => result.push_str("\\x08"),
                    _ => result.extend(['\\', escaped]),
                }
            }
            '[' if in_class => result.push_str("\\["),
            '&' | '~' if in_class => result.extend(['\\', character]),
            '[' => {
                in_class = true;
                result.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    result.push('^');
                }
                if characters.peek() == Some(&']') {
                    return Err(refused("empty brackets match nothing; write \\] for a bracket".to_owned()));
                }
            }
            ']' if in_class => {
                in_class = false;
                result.push(']');
            }
            other => result.push(other),
        }
    }
    // Parsed as llguidance will.
    match regex_syntax::Parser::new().parse(&regex_to_lark(&result, "dw")) {
        Ok(_) => Ok(result),
        Err(error) => Err(refused(reason(&error))),
    }
}

fn reason(error: &regex_syntax::Error) -> String {
    fn at(problem: &dyn std::fmt::Display, span: &regex_syntax::ast::Span) -> String {
        format!("{problem} (character {})", span.start.column)
    }
    match error {
        regex_syntax::Error::Parse(error) => at(error.kind(), error.span()),
        regex_syntax::Error::Translate(error) => at(error.kind(), error.span()),
        other => other.to_string(),
    }
}
