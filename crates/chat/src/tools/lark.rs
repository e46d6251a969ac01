//! Writes Lark text.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::schema::{MAX_BYTES, ToolsError};
use crate::prompt::Segment;

/// Booleans in JSON and in Python.
pub(super) const BOOLS: [&str; 2] = ["(\"true\" | \"false\")", "(\"True\" | \"False\")"];

/// Any text, and that without a quotation mark at its end.
const LEXEMES: [(&str, &str); 2] = [("TEXT", "(?s:.*)"), ("UNQUOTED", r#"(?s:(.*[^`"'‘“«])?)"#)];

/// Most parts of which the order is free: a rule's number has 64 bits.
const MAX_UNORDERED: usize = 63;

#[derive(Debug)]
pub(super) struct Lark<'a> {
    special: Vec<&'a (u32, String)>,
    rules: Vec<(String, String)>,
    names: HashSet<String>,
    bytes: usize,
}

impl<'a> Lark<'a> {
    pub(super) fn new(special: &'a [(u32, String)]) -> Lark<'a> {
        let mut special: Vec<_> = special.iter().filter(|(_, text)| !text.is_empty()).collect();
        special.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
        Lark { special, rules: Vec::new(), names: HashSet::new(), bytes: 0 }
    }

    pub(super) fn rule(&mut self, name: &str, body: String) -> String {
        if !self.is_full() && self.names.insert(name.to_owned()) {
            self.bytes += body.len();
            self.rules.push((name.to_owned(), body));
        }
        name.to_owned()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether it is too long. Then nothing more is written: schemas may refer to large parts many times.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > MAX_BYTES
    }

    pub(super) fn text(&self, text: &str) -> String {
        let part = |segment: Segment| match segment {
            Segment::Text(text) => quoted(&text).unwrap_or_default(),
            Segment::Token { id, .. } => format!("<[{id}]>"),
        };
        self.segments(text).into_iter().map(part).collect::<Vec<_>>().join(" ")
    }

    /// The special tokens in `text`, and what is between them.
    pub(super) fn segments(&self, text: &str) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let token = self.special.iter().find(|(_, token)| rest.starts_with(token));
            let length = token.map_or(c.len_utf8(), |(_, token)| token.len());
            let (part, after) = rest.split_at(length);
            match (token, segments.last_mut()) {
                (Some((id, _)), _) => segments.push(Segment::Token { id: *id, text: part.to_owned() }),
                (None, Some(Segment::Text(plain))) => plain.push_str(part),
                (None, _) => segments.push(Segment::Text(part.to_owned())),
            }
            rest = after;
        }
        segments
    }

    /// Any text up to and with `end`, as the rule `name`.
    pub(super) fn text_until(&mut self, name: &str, end: &str) -> String {
        self.lexeme_until(name, "TEXT", end)
    }

    /// Any text up to and with the first `end` before which there is no quotation mark, as the rule `name`.
    pub(super) fn unquoted_until(&mut self, name: &str, end: &str) -> String {
        self.lexeme_until(name, "UNQUOTED", end)
    }

    fn lexeme_until(&mut self, name: &str, lexeme: &str, end: &str) -> String {
        let special =
            self.special.iter().find_map(|(id, token)| Some((id, token, end.find(token.as_str())?)));
        match special {
            // A text cannot contain a special token.
            Some((_, _, at)) if end[..at].trim().is_empty() => {
                let end = self.text(&end[at..]);
                self.rule(name, format!("{lexeme} {end}"))
            }
            _ => {
                let end = quoted(end).unwrap_or_default();
                let name = format!("{name}[suffix={end}]");
                self.rule(&name, lexeme.into());
                name.split('[').next().unwrap_or_default().to_owned()
            }
        }
    }

    /// As the rule `name`: `parts` in any order, each at most once, with `separator` between them. Those that are required must be
    /// there. More than [`MAX_UNORDERED`] keep their order.
    pub(super) fn any_order(
        &mut self,
        name: &str,
        mut parts: Vec<(String, bool)>,
        separator: &str,
    ) -> String {
        match &parts[..] {
            [] => return String::new(),
            [(part, true)] => return part.clone(),
            [(part, false)] => return format!("({part})?"),
            _ if parts.len() > MAX_UNORDERED => return self.in_order(name, parts, separator),
            _ => {}
        }
        parts.sort_by_key(|(_, is_required)| !is_required);
        let required = parts.iter().filter(|(_, is_required)| *is_required).count();
        let parts: Vec<String> = parts
            .into_iter()
            .enumerate()
            .map(|(number, (part, _))| self.rule(&format!("{name}_{number}"), part))
            .collect();
        // A rule with a number of which each bit stands for a part that has been written.
        let end = if required == 0 { "\"\"".to_owned() } else { format!("\"\" %if is_ones([0:{required}])") };
        let next = parts.iter().enumerate().map(|(bit, part)| {
            format!(" | {separator} {part} {name}_rest::set_bit({bit}) %if bit_clear({bit})")
        });
        let rest = end + &next.collect::<String>();
        self.rule(&format!("{name}_rest::_"), rest);
        if separator.is_empty() {
            return format!("{name}_rest::0x0");
        }
        let first =
            parts.iter().enumerate().map(|(bit, part)| format!("{part} {name}_rest::{:#x}", 1_u64 << bit));
        let mut first: Vec<String> = first.collect();
        first.extend((required == 0).then(|| "\"\"".to_owned()));
        self.rule(name, first.join(" | "))
    }

    fn in_order(&mut self, name: &str, parts: Vec<(String, bool)>, separator: &str) -> String {
        // Rules for what follows some parts, and for what follows none.
        let (mut some, mut none) = (String::new(), String::new());
        for (number, (part, is_required)) in parts.into_iter().enumerate().rev() {
            let part = self.rule(&format!("{name}_{number}"), part);
            let first = format!("{part} {some}");
            none = match (is_required, none.is_empty()) {
                (true, _) => first,
                (false, true) => format!("({first})?"),
                (false, false) => format!("({first} | {none})"),
            };
            let next = format!("{separator} {part}");
            some = if is_required { format!("{next} {some}") } else { format!("({next})? {some}") };
            some = self.rule(&format!("{name}_rest_{number}"), some);
            none = self.rule(&format!("{name}_from_{number}"), none);
        }
        none
    }

    pub(super) fn json(&mut self, name: &str, schema: &Json) -> String {
        self.rule(name, format!("%json {schema}"))
    }

    /// The whole text. An answer is one of `starts`.
    pub(super) fn finish(self, starts: &[String]) -> Result<String, ToolsError> {
        if self.is_full() {
            return Err(ToolsError::Grammar);
        }
        let mut text = format!("start: {}\n", starts.join(" | "));
        for (name, body) in &self.rules {
            text.push_str(&format!("{name}: {body}\n"));
        }
        for (lexeme, pattern) in LEXEMES {
            if self.rules.iter().any(|(_, body)| body.contains(lexeme)) {
                text.push_str(&format!("{lexeme}: /{pattern}/\n"));
            }
        }
        Ok(text)
    }
}

fn quoted(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| Json::from(text).to_string())
}
