//! Which parts of a grammar may be lexemes. llguidance takes the longest lexeme, which changes nothing if no lexeme is the beginning
//! of another one, or of itself with more characters: the set of all their texts is prefix-free. Single characters always are;
//! larger lexemes make a grammar faster.

use std::collections::BTreeSet;

use regex_automata::MatchKind;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;

use super::syntax::{Expression, Grammar, Rule};

/// Longest regular expression of a lexeme, in bytes.
const MAX_REGEX: usize = 16 << 10;

/// Maximum number of lexemes that are compared with each other.
const MAX_COMPARED: usize = 100;

/// Deepest nesting of a lexeme's regular expression, as regex-syntax counts it; that allows 250, and llguidance adds some.
const MAX_NESTING: usize = 200;

/// Most memory of the automaton of some lexemes, in bytes.
const MAX_AUTOMATON: usize = 8 << 20;

/// Maximum work of all comparisons, about the bytes of their automata: up to a second or two.
const MAX_WORK: usize = 16 << 20;

/// The parts of a grammar that are cut into characters.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) regexes: Regexes,
    pub(super) rules: BTreeSet<Rule>,
    pub(super) literals: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lexeme {
    Rule(Rule),
    Literal(String),
    /// A regular expression of one character.
    Character(String),
}

/// The work of a look at a part of a rule.
const LEAF: usize = 64;

/// Finds what to cut so that the lexemes are prefix-free: everything if that takes too much work.
pub(super) fn cut(grammar: &Grammar) -> Cut {
    let regexes = Regexes::new(grammar);
    let rules = (0..grammar.rules.len()).filter(|rule| regexes.rule_regex(*rule).is_none());
    let mut cut = Cut { rules: rules.collect(), literals: BTreeSet::new(), regexes };
    // A grammar that is one lexeme has no other that could be confused with it.
    if !cut.rules.contains(&grammar.root) {
        return cut;
    }
    let mut work = Work { left: MAX_WORK };
    while work.left > 0 {
        let lexemes = used(grammar, &cut, &mut work);
        let mut wrong: BTreeSet<&Lexeme> = BTreeSet::new();
        let regexes: Vec<(&Lexeme, String)> =
            lexemes.iter().map(|lexeme| (lexeme, lexeme.regex(&cut.regexes))).collect();
        if work.is_prefix_free(regexes.iter().map(|(_, regex)| regex.as_str())) {
            return cut;
        }
        let is_fixed = |lexeme: &Lexeme| matches!(lexeme, Lexeme::Character(_));
        let compared = if regexes.len() > MAX_COMPARED { &[] } else { regexes.as_slice() };
        if compared.is_empty() {
            wrong.extend(&lexemes);
        }
        for (number, (lexeme, regex)) in compared.iter().enumerate() {
            for (other, with) in &compared[number..] {
                let mut in_the_way = || !work.is_prefix_free([regex.as_str(), with.as_str()]);
                if !(is_fixed(lexeme) && is_fixed(other)) && in_the_way() {
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
            // Only characters are left, and one character is never the beginning of another.
            return cut;
        }
    }
    everything(grammar, cut.regexes)
}

fn everything(grammar: &Grammar, regexes: Regexes) -> Cut {
    let mut literals = BTreeSet::new();
    for (_, expression) in &grammar.rules {
        expression.leaves(&mut |leaf| {
            if let Expression::Literal(text) = leaf {
                literals.insert(text.clone());
            }
        });
    }
    Cut { regexes, rules: (0..grammar.rules.len()).collect(), literals }
}

/// The lexemes of the rules that are cut and that the root leads to.
fn used(grammar: &Grammar, cut: &Cut, work: &mut Work) -> BTreeSet<Lexeme> {
    let (mut lexemes, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![grammar.root]);
    while let Some(rule) = next.pop() {
        if !seen.insert(rule) {
            continue;
        }
        let (_, expression) = &grammar.rules[rule];
        expression.leaves(&mut |_| work.takes(LEAF));
        expression.leaves(&mut |leaf| match leaf {
            Expression::Rule(rule) if cut.rules.contains(rule) => next.push(*rule),
            Expression::Rule(rule) => drop(lexemes.insert(Lexeme::Rule(*rule))),
            Expression::Literal(text) if text.chars().nth(1).is_some() && !cut.literals.contains(text) => {
                lexemes.insert(Lexeme::Literal(text.clone()));
            }
            Expression::Literal(text) => {
                lexemes.extend(text.chars().map(|character| Lexeme::Character(char_regex(character))));
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
            Lexeme::Rule(rule) => regexes.rule_regex(*rule).unwrap_or_default().to_owned(),
            Lexeme::Literal(text) => text.chars().map(char_regex).collect(),
            Lexeme::Character(regex) => regex.clone(),
        }
    }
}

struct Work {
    left: usize,
}

impl Work {
    fn takes(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Whether no text of these regular expressions is the beginning of another one; false if that takes too much work.
    fn is_prefix_free<'a>(&mut self, regexes: impl IntoIterator<Item = &'a str>) -> bool {
        let joined: Vec<String> = regexes.into_iter().map(|regex| format!("(?:{regex})")).collect();
        let joined = joined.join("|");
        let most = MAX_AUTOMATON.min(self.left);
        self.takes(joined.len());
        match automaton(&joined, most) {
            None => {
                self.takes(most);
                false
            }
            Some(automaton) => {
                self.takes(automaton.memory_usage());
                has_prefix_free_texts(&automaton)
            }
        }
    }
}

/// An automaton for `regex`, if it takes at most `most` bytes, and so do its states before they are deterministic.
fn automaton(regex: &str, most: usize) -> Option<dense::DFA<Vec<u32>>> {
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .accelerate(false)
        .dfa_size_limit(Some(most))
        .determinize_size_limit(Some(most));
    let states = thompson::Config::new().nfa_size_limit(Some(most));
    dense::Builder::new().configure(config).thompson(states).build(regex).ok()
}

/// Whether no text that `automaton` accepts is the beginning of another one.
fn has_prefix_free_texts(automaton: &dense::DFA<Vec<u32>>) -> bool {
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

/// The regular expressions of the rules; none of a rule that is recursive, has tokens, or is too long or too deep.
#[derive(Debug)]
pub(super) struct Regexes(Vec<Option<Regex>>);

#[derive(Clone, Debug)]
struct Regex {
    text: String,
    depth: usize,
}

impl Regexes {
    fn new(grammar: &Grammar) -> Regexes {
        let mut regexes = Regexes(vec![None; grammar.rules.len()]);
        // A rule's expression follows those of the rules that it refers to.
        for rule in grammar.regular() {
            regexes.0[rule] = regexes.regex(&grammar.rules[rule].1);
        }
        regexes
    }

    pub(super) fn rule_regex(&self, rule: Rule) -> Option<&str> {
        Some(&self.0.get(rule)?.as_ref()?.text)
    }

    pub(super) fn of(&self, expression: &Expression) -> Option<String> {
        Some(self.regex(expression)?.text)
    }

    fn regex(&self, expression: &Expression) -> Option<Regex> {
        let leaf = |text: String| Some(Regex { text, depth: 2 });
        let regex = match expression {
            Expression::Literal(text) => return leaf(text.chars().map(char_regex).collect()),
            Expression::Class { negated: true, ranges } if ranges.is_empty() => {
                return leaf("(?s:.)".to_owned());
            }
            Expression::Class { negated, ranges } => {
                let range =
                    |(first, last): &(char, char)| format!("{}-{}", char_regex(*first), char_regex(*last));
                let ranges: String = ranges.iter().map(range).collect();
                return leaf(format!("[{}{ranges}]", if *negated { "^" } else { "" }));
            }
            Expression::Token { .. } => return None,
            Expression::Rule(rule) => self.0.get(*rule)?.clone()?,
            Expression::Sequence(parts) => self.joined(parts, "")?,
            Expression::Alternatives(parts) => {
                let Regex { text, depth } = self.joined(parts, "|")?;
                Regex { text: format!("(?:{text})"), depth: depth + 1 }
            }
            Expression::Repeat { of, least, most } => {
                let most = most.map_or(String::new(), |most| most.to_string());
                let Regex { text, depth } = self.regex(of)?;
                Regex { text: format!("(?:{text}){{{least},{most}}}"), depth: depth + 2 }
            }
        };
        (regex.text.len() <= MAX_REGEX && regex.depth <= MAX_NESTING).then_some(regex)
    }

    fn joined(&self, parts: &[Expression], separator: &str) -> Option<Regex> {
        let mut joined = Regex { text: String::new(), depth: 0 };
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                joined.text += separator;
            }
            let part = self.regex(part)?;
            joined.text += &part.text;
            joined.depth = joined.depth.max(part.depth);
            if joined.text.len() > MAX_REGEX {
                return None;
            }
        }
        joined.depth += 1;
        Some(joined)
    }
}

pub(super) fn char_regex(character: char) -> String {
    match character {
        plain if plain.is_ascii_alphanumeric() => plain.to_string(),
        other => format!("\\x{{{:X}}}", u32::from(other)),
    }
}
