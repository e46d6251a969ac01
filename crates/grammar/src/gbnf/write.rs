//! Writes a grammar of Lark.

use std::collections::BTreeMap;

use super::lexemes::{self, Cut};
use super::syntax::{Expression, Grammar, Rule};

/// The grammar of Lark for `grammar`.
pub(super) fn lark(grammar: &Grammar) -> String {
    let cut = lexemes::cut(grammar);
    let mut writer = Writer { cut, terminals: BTreeMap::new(), rules: BTreeMap::new() };
    let start = writer.rule(grammar.root);
    let mut text = format!("start: {start}\n");
    // Rules mention further rules as they are written.
    while let Some((rule, None)) = writer.rules.iter().find(|(_, written)| written.is_none()) {
        let rule = *rule;
        let written = writer.expression(&grammar.rules[rule].1);
        writer.rules.insert(rule, Some(written));
    }
    for (rule, written) in &writer.rules {
        text += &format!("r{rule}: {}\n", written.as_deref().unwrap_or_default());
    }
    for (regex, number) in &writer.terminals {
        text += &format!("T{number}: /{regex}/\n");
    }
    text
}

struct Writer {
    cut: Cut,
    /// Numbers, by regular expressions.
    terminals: BTreeMap<String, usize>,
    /// The rules in use, once they are written.
    rules: BTreeMap<Rule, Option<String>>,
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
        self.terminal(self.cut.regexes.of_rule(rule).unwrap_or_default().to_owned())
    }

    fn expression(&mut self, expression: &Expression) -> String {
        match expression {
            Expression::Literal(text) if text.is_empty() => "\"\"".to_owned(),
            Expression::Literal(text) if self.cut.literals.contains(text) => {
                let each = text.chars().map(|character| self.terminal(lexemes::of_character(character)));
                each.collect::<Vec<_>>().join(" ")
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
            Expression::Sequence(parts) if parts.is_empty() => "\"\"".to_owned(),
            Expression::Sequence(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expression(part)).collect();
                format!("({})", parts.join(" "))
            }
            Expression::Alternatives(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expression(part)).collect();
                format!("({})", parts.join(" | "))
            }
            Expression::Repeat { of, least, most } => {
                let of = self.expression(of);
                match (least, most) {
                    (0, None) => format!("({of})*"),
                    (1, None) => format!("({of})+"),
                    (0, Some(1)) => format!("({of})?"),
                    (_, Some(0)) => "\"\"".to_owned(),
                    (least, None) => format!("({of}){{{least},}}"),
                    (least, Some(most)) => format!("({of}){{{least},{most}}}"),
                }
            }
        }
    }
}
