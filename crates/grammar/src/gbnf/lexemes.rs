//! Which parts of a grammar may be lexemes.
//!
//! llguidance takes the longest lexeme. That changes nothing if no lexeme is the beginning of another one, or of itself with
//! more characters: the set of all their texts is prefix-free. Single characters always are, so that a grammar can be cut into
//! those; larger lexemes make it faster.

use std::collections::BTreeSet;

use regex_automata::MatchKind;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;

use super::syntax::{Expression, Grammar, Rule};

/// Longest regular expression of a lexeme, in bytes.
const MAX_REGEX: usize = 16 << 10;

/// The most lexemes that are compared with each other.
const MAX_COMPARED: usize = 100;

/// Most memory of the automaton of some lexemes, in bytes.
const MAX_AUTOMATON: usize = 8 << 20;

/// What is cut into characters.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) regexes: Regexes,
    /// Rules that are not lexemes.
    pub(super) rules: BTreeSet<Rule>,
    /// Literals that are not lexemes.
    pub(super) literals: BTreeSet<String>,
}

/// A part of a rule that could be a lexeme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lexeme {
    Rule(Rule),
    Literal(String),
    /// A regular expression of one character.
    Character(String),
}

/// Finds what to cut so that the lexemes are prefix-free.
pub(super) fn cut(grammar: &Grammar) -> Cut {
    let regexes = Regexes::new(grammar);
    let rules = (0..grammar.rules.len()).filter(|rule| regexes.of_rule(*rule).is_none());
    let mut cut = Cut { rules: rules.collect(), literals: BTreeSet::new(), regexes };
    // A grammar that is one lexeme has no other that could be confused with it.
    if !cut.rules.contains(&grammar.root) {
        return cut;
    }
    loop {
        let lexemes = used(grammar, &cut);
        let mut wrong: BTreeSet<&Lexeme> = BTreeSet::new();
        let regexes: Vec<(&Lexeme, String)> =
            lexemes.iter().map(|lexeme| (lexeme, lexeme.regex(&cut.regexes))).collect();
        if is_prefix_free(regexes.iter().map(|(_, regex)| regex.as_str())) {
            return cut;
        }
        let is_fixed = |lexeme: &Lexeme| matches!(lexeme, Lexeme::Character(_));
        for (number, (lexeme, regex)) in regexes.iter().enumerate() {
            for (other, with) in &regexes[number..] {
                let in_the_way = || !is_prefix_free([regex.as_str(), with.as_str()]);
                if !(is_fixed(lexeme) && is_fixed(other)) && (regexes.len() > MAX_COMPARED || in_the_way()) {
                    wrong.extend([*lexeme, *other]);
                }
            }
        }
        let before = cut.rules.len() + cut.literals.len();
        for lexeme in wrong {
            match lexeme {
                Lexeme::Rule(rule) => drop(cut.rules.insert(*rule)),
                Lexeme::Literal(text) => drop(cut.literals.insert(text.clone())),
                Lexeme::Character(_) => {}
            }
        }
        if cut.rules.len() + cut.literals.len() == before {
            // Only characters are left that are in each other's way: they are not.
            return cut;
        }
    }
}

/// The lexemes of the rules that are cut and that the root leads to.
fn used(grammar: &Grammar, cut: &Cut) -> BTreeSet<Lexeme> {
    let (mut lexemes, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![grammar.root]);
    while let Some(rule) = next.pop() {
        if !seen.insert(rule) {
            continue;
        }
        let (_, expression) = &grammar.rules[rule];
        expression.leaves(&mut |leaf| match leaf {
            Expression::Rule(rule) if cut.rules.contains(rule) => next.push(*rule),
            Expression::Rule(rule) => drop(lexemes.insert(Lexeme::Rule(*rule))),
            Expression::Literal(text) if cut.literals.contains(text) => {
                lexemes.extend(text.chars().map(|character| Lexeme::Character(of_character(character))));
            }
            Expression::Literal(text) if text.chars().nth(1).is_some() => {
                lexemes.insert(Lexeme::Literal(text.clone()));
            }
            Expression::Literal(text) => {
                lexemes.extend(text.chars().map(|character| Lexeme::Character(of_character(character))));
            }
            leaf @ Expression::Class { .. } => {
                lexemes.extend(cut.regexes.of(leaf).map(Lexeme::Character));
            }
            _ => {}
        });
    }
    lexemes
}

impl Lexeme {
    fn regex(&self, regexes: &Regexes) -> String {
        match self {
            Lexeme::Rule(rule) => regexes.of_rule(*rule).unwrap_or_default().to_owned(),
            Lexeme::Literal(text) => text.chars().map(of_character).collect(),
            Lexeme::Character(regex) => regex.clone(),
        }
    }
}

/// Whether no text of these regular expressions is the beginning of another one.
fn is_prefix_free<'a>(regexes: impl IntoIterator<Item = &'a str>) -> bool {
    let joined: Vec<String> = regexes.into_iter().map(|regex| format!("(?:{regex})")).collect();
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .accelerate(false)
        .dfa_size_limit(Some(MAX_AUTOMATON))
        .determinize_size_limit(Some(MAX_AUTOMATON));
    let Ok(automaton) = dense::Builder::new().configure(config).build(&joined.join("|")) else {
        return false;
    };
    let anchored = start::Config::new().anchored(regex_automata::Anchored::Yes);
    let Ok(begin) = automaton.start_state(&anchored) else { return false };
    let accepts = |state: StateID| automaton.is_match_state(automaton.next_eoi_state(state));
    // States, and whether a text ends on the way to them.
    let (mut seen, mut next) = (BTreeSet::new(), vec![(begin, false)]);
    while let Some((state, has_ended)) = next.pop() {
        if automaton.is_dead_state(state) || !seen.insert((state, has_ended)) {
            continue;
        }
        let ends = accepts(state);
        if ends && has_ended {
            return false;
        }
        next.extend((0..=u8::MAX).map(|byte| (automaton.next_state(state, byte), ends || has_ended)));
    }
    true
}

/// The regular expressions of the rules; none of a rule that is recursive, has tokens, or is too long.
#[derive(Debug)]
pub(super) struct Regexes(Vec<Option<String>>);

impl Regexes {
    fn new(grammar: &Grammar) -> Regexes {
        let mut regexes = Regexes(vec![None; grammar.rules.len()]);
        // A rule's expression follows those of the rules that it refers to.
        for rule in grammar.regular() {
            regexes.0[rule] = regexes.of(&grammar.rules[rule].1);
        }
        regexes
    }

    /// That of a rule.
    pub(super) fn of_rule(&self, rule: Rule) -> Option<&str> {
        self.0.get(rule)?.as_deref()
    }

    /// That of an expression.
    pub(super) fn of(&self, expression: &Expression) -> Option<String> {
        let joined = |parts: &[Expression], separator: &str| {
            let mut joined = String::new();
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    joined += separator;
                }
                joined += &self.of(part)?;
                if joined.len() > MAX_REGEX {
                    return None;
                }
            }
            Some(joined)
        };
        Some(match expression {
            Expression::Literal(text) => text.chars().map(of_character).collect(),
            Expression::Class { negated: true, ranges } if ranges.is_empty() => "(?s:.)".to_owned(),
            Expression::Class { negated, ranges } => {
                let range = |(first, last): &(char, char)| {
                    format!("{}-{}", of_character(*first), of_character(*last))
                };
                let ranges: String = ranges.iter().map(range).collect();
                format!("[{}{ranges}]", if *negated { "^" } else { "" })
            }
            Expression::Token { .. } => return None,
            Expression::Rule(rule) => self.of_rule(*rule)?.to_owned(),
            Expression::Sequence(parts) => joined(parts, "")?,
            Expression::Alternatives(parts) => format!("(?:{})", joined(parts, "|")?),
            Expression::Repeat { of, least, most } => {
                let most = most.map_or(String::new(), |most| most.to_string());
                format!("(?:{}){{{least},{most}}}", self.of(of)?)
            }
        })
    }
}

/// The regular expression of a character.
pub(super) fn of_character(character: char) -> String {
    match character {
        plain if plain.is_ascii_alphanumeric() => plain.to_string(),
        other => format!("\\x{{{:X}}}", u32::from(other)),
    }
}
