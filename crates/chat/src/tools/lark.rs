//! Writes Lark text.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::schema::{MAX_BYTES, ToolsError};
use crate::prompt::Segment;

/// Booleans in JSON and in Python.
pub(super) const BOOLS: [&str; 2] = ["(\"true\" | \"false\")", "(\"True\" | \"False\")"];

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
        let special =
            self.special.iter().find_map(|(id, token)| Some((id, token, end.find(token.as_str())?)));
        match special {
            // A text cannot contain a special token.
            Some((_, _, at)) if end[..at].trim().is_empty() => {
                let end = self.text(&end[at..]);
                self.rule(name, format!("TEXT {end}"))
            }
            _ => {
                let end = quoted(end).unwrap_or_default();
                let name = format!("{name}[suffix={end}]");
                self.rule(&name, "TEXT".into());
                name.split('[').next().unwrap_or_default().to_owned()
            }
        }
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
        if self.rules.iter().any(|(_, body)| body.contains("TEXT")) {
            text.push_str("TEXT: /(?s:.*)/\n");
        }
        Ok(text)
    }
}

fn quoted(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| Json::from(text).to_string())
}
