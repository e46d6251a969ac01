//! Writes a grammar of Lark.

use std::collections::BTreeMap;

use super::lexemes::{self, Cut};
use super::syntax::{Expression, Grammar, Rule};

/// Deepest nesting of a rule that is written; llguidance reads 28 levels.
const MAX_DEPTH: usize = 16;

pub(super) fn lark(grammar: &Grammar) -> String {
    let cut = lexemes::cut(grammar);
    let mut writer = Writer { cut, terminals: BTreeMap::new(), rules: BTreeMap::new(), groups: Vec::new() };
    let start = writer.rule(grammar.root);
    let mut text = format!("start: {start}\n");
    // Rules mention further rules as they are written.
    while let Some((rule, None)) = writer.rules.iter().find(|(_, written)| written.is_none()) {
        let rule = *rule;
        let written = writer.expression(&grammar.rules[rule].1, 0);
        writer.rules.insert(rule, Some(written));
    }
    for (rule, written) in &writer.rules {
        text += &format!("r{rule}: {}\n", written.as_deref().unwrap_or_default());
    }
    for (number, written) in writer.groups.iter().enumerate() {
        text += &format!("g{number}: {written}\n");
    }
    for (regex, number) in &writer.terminals {
        text += &format!("T{number}: /{regex}/\n");
    }
    text
}

struct Writer {
    cut: Cut,
    terminals: BTreeMap<String, usize>,
    /// The rules in use, once they are written.
    rules: BTreeMap<Rule, Option<String>>,
    /// Groups that are nested too deep, as rules of their own.
    groups: Vec<String>,
}

impl Writer {
    /// The name of a terminal; `""` for one without characters.
    fn terminal(&mut self, regex: String) -> String {
        if regex.is_empty() {
            return "\"\"".to_owned();
        }
        let next = self.terminals.len();
        format!("T{}", self.terminals.entry(regex).or_insert(next))
    }

    fn rule(&mut self, rule: Rule) -> String {
        if self.cut.rules.contains(&rule) {
            self.rules.entry(rule).or_insert(None);
            return format!("r{rule}");
        }
        self.terminal(self.cut.regexes.rule_regex(rule).unwrap_or_default().to_owned())
    }

    fn expression(&mut self, expression: &Expression, depth: usize) -> String {
        match expression {
            Expression::Literal(text) if text.is_empty() => "\"\"".to_owned(),
            Expression::Literal(text) if self.cut.literals.contains(text) => {
                let each = text.chars().map(|character| self.terminal(lexemes::char_regex(character)));
                format!("({})", each.collect::<Vec<_>>().join(" "))
            }
            leaf @ (Expression::Literal(_) | Expression::Class { .. }) => {
                let regex = self.cut.regexes.of(leaf).unwrap_or_default();
                self.terminal(regex)
            }
            Expression::Token { ids, negated } => {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                format!("<[{}{}]>", if *negated { "^" } else { "" }, ids.join(","))
            }
            Expression::Rule(rule) => self.rule(*rule),
            group if depth == MAX_DEPTH => {
                let written = self.group(group, 0);
                self.groups.push(written);
                format!("g{}", self.groups.len() - 1)
            }
            group => self.group(group, depth + 1),
        }
    }

    fn group(&mut self, expression: &Expression, depth: usize) -> String {
        match expression {
            Expression::Sequence(parts) if parts.is_empty() => "\"\"".to_owned(),
            Expression::Sequence(parts) => format!("({})", self.joined(parts, " ", depth)),
            Expression::Alternatives(parts) => format!("({})", self.joined(parts, " | ", depth)),
            Expression::Repeat { most: Some(0), .. } => "\"\"".to_owned(),
            Expression::Repeat { of, least, most } => {
                let of = self.expression(of, depth);
                match (least, most) {
                    (0, None) => format!("({of})*"),
                    (1, None) => format!("({of})+"),
                    (0, Some(1)) => format!("({of})?"),
                    (least, None) => format!("({of}){{{least},}}"),
                    (least, Some(most)) => format!("({of}){{{least},{most}}}"),
                }
            }
            leaf => self.expression(leaf, depth),
        }
    }

    fn joined(&mut self, parts: &[Expression], separator: &str, depth: usize) -> String {
        let parts: Vec<String> = parts.iter().map(|part| self.expression(part, depth)).collect();
        parts.join(separator)
    }
}
