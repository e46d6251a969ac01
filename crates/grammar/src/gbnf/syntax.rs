//! The rules of a grammar.

use std::collections::BTreeMap;
use std::fmt;

use super::GbnfError;

/// A place in a text; both numbers are from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

pub(super) type Rule = usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    Literal(String),
    /// One character of these ranges, or one of no range.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    Token {
        ids: Vec<u32>,
        negated: bool,
    },
    Rule(Rule),
    Sequence(Vec<Expression>),
    Alternatives(Vec<Expression>),
    Repeat {
        of: Box<Expression>,
        least: u32,
        most: Option<u32>,
    },
}

/// A grammar without undefined rules.
#[derive(Debug)]
pub(super) struct Grammar {
    pub(super) names: Vec<String>,
    pub(super) rules: Vec<(Position, Expression)>,
    pub(super) root: Rule,
}

impl Expression {
    /// Calls `each` for every expression in this one that contains no other.
    pub(super) fn leaves<'a>(&'a self, each: &mut impl FnMut(&'a Expression)) {
        match self {
            Expression::Sequence(parts) | Expression::Alternatives(parts) => {
                parts.iter().for_each(|part| part.leaves(each));
            }
            Expression::Repeat { of, .. } => of.leaves(each),
            leaf => each(leaf),
        }
    }

    fn is_nullable(&self, rules: &[bool]) -> bool {
        match self {
            Expression::Literal(text) => text.is_empty(),
            Expression::Class { .. } | Expression::Token { .. } => false,
            Expression::Rule(rule) => rules[*rule],
            Expression::Sequence(parts) => parts.iter().all(|part| part.is_nullable(rules)),
            Expression::Alternatives(parts) => parts.iter().any(|part| part.is_nullable(rules)),
            Expression::Repeat { of, least, .. } => *least == 0 || of.is_nullable(rules),
        }
    }

    /// Adds the rules with which a text of this expression may begin.
    fn first_rules(&self, nullable: &[bool], found: &mut Vec<Rule>) {
        match self {
            Expression::Literal(_) | Expression::Class { .. } | Expression::Token { .. } => {}
            Expression::Rule(rule) => found.push(*rule),
            Expression::Sequence(parts) => {
                for part in parts {
                    part.first_rules(nullable, found);
                    if !part.is_nullable(nullable) {
                        break;
                    }
                }
            }
            Expression::Alternatives(parts) => {
                parts.iter().for_each(|part| part.first_rules(nullable, found))
            }
            Expression::Repeat { of, .. } => of.first_rules(nullable, found),
        }
    }
}

impl Grammar {
    /// The rules that are regular expressions of characters, after those that they refer to: neither recursive nor with tokens.
    pub(super) fn regular(&self) -> Vec<Rule> {
        // How many mentions of rules each rule waits for, and who mentions it.
        let mut waits = vec![0_usize; self.rules.len()];
        let mut mentioned_by = vec![Vec::new(); self.rules.len()];
        for (number, (_, expression)) in self.rules.iter().enumerate() {
            expression.leaves(&mut |leaf| match leaf {
                Expression::Rule(rule) => {
                    waits[number] += 1;
                    mentioned_by[*rule].push(number);
                }
                // For ever.
                Expression::Token { .. } => waits[number] += 1,
                _ => {}
            });
        }
        let mut regular: Vec<Rule> = (0..waits.len()).filter(|rule| waits[*rule] == 0).collect();
        let mut next = 0;
        while let Some(&rule) = regular.get(next) {
            next += 1;
            for &by in &mentioned_by[rule] {
                waits[by] -= 1;
                if waits[by] == 0 {
                    regular.push(by);
                }
            }
        }
        regular
    }

    pub(super) fn check(&self) -> Result<(), GbnfError> {
        let nullable = self.nullable();
        let mut first: BTreeMap<Rule, Vec<Rule>> = BTreeMap::new();
        for (number, (_, expression)) in self.rules.iter().enumerate() {
            expression.first_rules(&nullable, first.entry(number).or_default());
        }
        for (number, (position, _)) in self.rules.iter().enumerate() {
            let mut seen = vec![false; self.rules.len()];
            let mut next = first[&number].clone();
            while let Some(rule) = next.pop() {
                if rule == number {
                    let name = &self.names[number];
                    let problem = format!(
                        "the rule `{name}` begins with itself (left recursion); write what it begins with first, and repeat the \
                         rest, such as {name} ::= first (\"+\" first)*"
                    );
                    return Err(GbnfError { position: *position, problem });
                }
                if !std::mem::replace(&mut seen[rule], true) {
                    next.extend(&first[&rule]);
                }
            }
        }
        Ok(())
    }

    fn nullable(&self) -> Vec<bool> {
        let mut nullable = vec![false; self.rules.len()];
        loop {
            let next: Vec<bool> =
                self.rules.iter().map(|(_, expression)| expression.is_nullable(&nullable)).collect();
            if next == nullable {
                return nullable;
            }
            nullable = next;
        }
    }
}

/// Fewest literals of which common beginnings are written once.
const MANY: usize = 64;

/// One of `parts`. Of many literals, those that begin alike share their beginning: each alternative is an item of the parser's row.
pub(super) fn factored(parts: Vec<Expression>) -> Expression {
    let literal = |part: &Expression| match part {
        Expression::Literal(text) => Some(text.clone()),
        _ => None,
    };
    let texts: Option<Vec<String>> =
        if parts.len() < MANY { None } else { parts.iter().map(literal).collect() };
    let Some(mut texts) = texts else { return Expression::Alternatives(parts) };
    texts.sort_unstable();
    texts.dedup();
    tree(&texts.iter().map(String::as_str).collect::<Vec<_>>(), 0)
}

/// Deepest tree of beginnings: below, literals stand side by side.
const MAX_BEGINNINGS: usize = 8;

/// One of `texts`, which are sorted.
fn tree(texts: &[&str], depth: usize) -> Expression {
    let mut alternatives = Vec::new();
    let mut rest = texts;
    while let Some(first) = rest.first() {
        let begin = first.chars().next();
        let same = rest.iter().take_while(|text| text.chars().next() == begin).count();
        let (group, after) = rest.split_at(same);
        rest = after;
        let shared = |other: &str| {
            let same = first.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b);
            same.last().map_or(0, |((at, c), _)| at + c.len_utf8())
        };
        let length = group.iter().map(|text| shared(text)).min().unwrap_or(0);
        if group.len() == 1 || depth == MAX_BEGINNINGS || length == 0 {
            alternatives.extend(group.iter().map(|text| Expression::Literal((*text).to_owned())));
            continue;
        }
        let ends: Vec<&str> = group.iter().map(|text| &text[length..]).collect();
        let begin = Expression::Literal(first[..length].to_owned());
        alternatives.push(Expression::Sequence(vec![begin, tree(&ends, depth + 1)]));
    }
    match alternatives.len() {
        1 => alternatives.remove(0),
        _ => Expression::Alternatives(alternatives),
    }
}
