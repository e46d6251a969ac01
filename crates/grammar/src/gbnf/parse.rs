//! Reads GBNF.

use std::collections::BTreeMap;

use super::GbnfError;
use super::syntax::{self, Expression, Grammar, Position, Rule};
use crate::vocabulary::Vocabulary;

const MAX_DEPTH: usize = 128;

const MAX_RULES: usize = 4096;

/// Largest number of a repetition, as in llama.cpp.
const MAX_REPEATS: u32 = 2000;

pub(super) fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Grammar, GbnfError> {
    let position = Position { line: 1, column: 1 };
    let mut parser = Parser {
        rest: text,
        position,
        vocabulary,
        names: Vec::new(),
        numbers: BTreeMap::new(),
        rules: Vec::new(),
    };
    parser.space(true);
    while !parser.rest.is_empty() {
        parser.rule()?;
    }
    parser.finish()
}

struct Parser<'a> {
    rest: &'a str,
    position: Position,
    vocabulary: &'a Vocabulary,
    names: Vec<String>,
    numbers: BTreeMap<String, Rule>,
    /// By number: where it is first mentioned, and where and what it is.
    rules: Vec<(Position, Option<(Position, Expression)>)>,
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

/// The one repetition that equals `outer` of `inner`, such as `a*` for `a+?`; `None` if the numbers have gaps (`a{2}*`).
fn product(inner: (u32, Option<u32>), outer: (u32, Option<u32>)) -> Option<(u32, Option<u32>)> {
    let ((a, b), (c, d)) = (inner, outer);
    // From `k` times to once more, [ka, kb] and [(k + 1)a, (k + 1)b] leave no gap; it is widest for the smallest `k`.
    let has_gaps = match b {
        _ if d == Some(c) => false,
        Some(b) => u64::from(c) * u64::from(b.saturating_sub(a)) + 1 < u64::from(a),
        None => c == 0 && a > 1,
    };
    let most = match (b, d) {
        (Some(0), _) | (_, Some(0)) => Some(0),
        (Some(b), Some(d)) => Some(b.checked_mul(d).filter(|most| *most <= MAX_REPEATS)?),
        _ => None,
    };
    let least = a.checked_mul(c).filter(|least| *least <= MAX_REPEATS)?;
    (!has_gaps).then_some((least, most))
}

impl<'a> Parser<'a> {
    fn error(&self, problem: impl Into<String>) -> GbnfError {
        GbnfError { position: self.position, problem: problem.into() }
    }

    fn found(&self) -> String {
        match self.rest.chars().next() {
            None => "the end of the grammar".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(character) => format!("{character:?}"),
        }
    }

    fn expected(&self, expected: &str) -> GbnfError {
        self.error(format!("found {}, expected {expected}", self.found()))
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        self.position = match character {
            '\n' => Position { line: self.position.line + 1, column: 1 },
            _ => Position { column: self.position.column + 1, ..self.position },
        };
        Some(character)
    }

    fn skip(&mut self, text: &str) -> bool {
        let is_next = self.rest.starts_with(text);
        if is_next {
            text.chars().for_each(|_| _ = self.next());
        }
        is_next
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !is_part(character)).unwrap_or(self.rest.len());
        let taken = &self.rest[..end];
        taken.chars().for_each(|_| _ = self.next());
        taken
    }

    /// Skips white space and comments, and the ends of lines if `lines`.
    fn space(&mut self, lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => drop(self.next()),
                Some('\r' | '\n') if lines => drop(self.next()),
                Some('#') => drop(self.take_while(|character| !matches!(character, '\r' | '\n'))),
                _ => return,
            }
        }
    }

    fn name(&mut self) -> Result<&'a str, GbnfError> {
        let name = self.take_while(is_name);
        if name.is_empty() {
            Err(self.expected("the name of a rule (letters, digits, - and _)"))
        } else {
            Ok(name)
        }
    }

    fn rule_number(&mut self, name: &str, position: Position) -> Rule {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        self.rules.push((position, None));
        number
    }

    fn rule(&mut self) -> Result<(), GbnfError> {
        let position = self.position;
        let name = self.name()?;
        self.space(false);
        if !self.skip("::=") {
            return Err(self.expected(&format!("::= after the rule's name `{name}`")));
        }
        self.space(true);
        let expression = self.alternatives(0)?;
        if !matches!(self.peek(), None | Some('\r' | '\n')) {
            return Err(self.expected("a symbol, | or the end of the line"));
        }
        self.space(true);
        let number = self.rule_number(name, position);
        if self.rules.len() > MAX_RULES {
            return Err(self.error(format!("found more than {MAX_RULES} rules; merge some of them")));
        }
        if let Some((first, _)) = self.rules[number].1.replace((position, expression)) {
            let problem = format!("the rule `{name}` is already defined at {first}; join them with |");
            return Err(GbnfError { position, problem });
        }
        Ok(())
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expression, GbnfError> {
        if depth > MAX_DEPTH {
            return Err(
                self.error(format!("groups are nested deeper than {MAX_DEPTH}; give the inner ones a rule"))
            );
        }
        let mut all = vec![self.sequence(depth)?];
        while self.skip("|") {
            self.space(true);
            all.push(self.sequence(depth)?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => syntax::factored(all),
        })
    }

    fn sequence(&mut self, depth: usize) -> Result<Expression, GbnfError> {
        let mut parts = Vec::new();
        loop {
            let part = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.next();
                    Expression::Class { negated: true, ranges: Vec::new() }
                }
                Some('<' | '!') => self.token()?,
                Some('(') => {
                    self.next();
                    self.space(true);
                    let inner = self.alternatives(depth + 1)?;
                    if !self.skip(")") {
                        return Err(self.expected("a symbol, | or )"));
                    }
                    inner
                }
                Some(character) if is_name(character) => {
                    let position = self.position;
                    let name = self.name()?;
                    Expression::Rule(self.rule_number(name, position))
                }
                Some('*' | '+' | '?' | '{') => {
                    return Err(self.expected("a symbol before it, which is repeated"));
                }
                _ => break,
            };
            self.space(depth > 0);
            parts.push(self.repeated(part, depth)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Expression::Sequence(parts),
        })
    }

    fn repeated(&mut self, mut part: Expression, depth: usize) -> Result<Expression, GbnfError> {
        let mut nested = depth;
        loop {
            let position = self.position;
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.bounds()?,
                _ => return Ok(part),
            };
            // The last character of the repetition.
            self.next();
            self.space(depth > 0);
            part = match part {
                Expression::Repeat { of, least: inner_least, most: inner_most } => {
                    match product((inner_least, inner_most), (least, most)) {
                        Some((least, most)) => Expression::Repeat { of, least, most },
                        None => {
                            nested += 1;
                            let part = Expression::Repeat { of, least: inner_least, most: inner_most };
                            Expression::Repeat { of: Box::new(part), least, most }
                        }
                    }
                }
                part => Expression::Repeat { of: Box::new(part), least, most },
            };
            if nested > MAX_DEPTH {
                let problem =
                    format!("repetitions are nested deeper than {MAX_DEPTH}; give the inner ones a rule");
                return Err(GbnfError { position, problem });
            }
        }
    }

    /// Reads {m}, {m,} or {m,n} up to the closing brace.
    fn bounds(&mut self) -> Result<(u32, Option<u32>), GbnfError> {
        self.next();
        self.space(false);
        let least = self.integer()?;
        self.space(false);
        let mut most = Some(least);
        if self.skip(",") {
            self.space(false);
            most = if self.peek() == Some('}') { None } else { Some(self.integer()?) };
            self.space(false);
        }
        match self.peek() {
            Some('}') if most.is_some_and(|most| most < least) => Err(self.error(format!(
                "found {{{least},{}}}, expected the smaller number first",
                most.unwrap_or(0)
            ))),
            Some('}') => Ok((least, most)),
            _ => Err(self.expected("} after the numbers of a repetition, such as {2,5}")),
        }
    }

    fn integer(&mut self) -> Result<u32, GbnfError> {
        let error = self.expected(&format!("a number up to {MAX_REPEATS}"));
        let digits = self.take_while(|character| character.is_ascii_digit());
        digits.parse().ok().filter(|number| *number <= MAX_REPEATS).ok_or(error)
    }

    fn literal(&mut self) -> Result<Expression, GbnfError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => break,
                None | Some('\n') => return Err(self.expected("a closing quotation mark")),
                Some(_) => text.push(self.character()?),
            }
        }
        self.next();
        Ok(Expression::Literal(text))
    }

    fn class(&mut self) -> Result<Expression, GbnfError> {
        self.next();
        let negated = self.skip("^");
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            if matches!(self.peek(), None | Some('\n')) {
                return Err(self.expected("a closing bracket"));
            }
            let position = self.position;
            let first = self.character()?;
            let last = match self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                true => {
                    self.next();
                    self.character()?
                }
                false => first,
            };
            if last < first {
                let problem =
                    format!("the range {first:?} to {last:?} is empty; write the smaller character first");
                return Err(GbnfError { position, problem });
            }
            ranges.push((first, last));
        }
        if ranges.is_empty() && !negated {
            return Err(self.expected("characters between the brackets"));
        }
        self.next();
        Ok(Expression::Class { negated, ranges })
    }

    fn character(&mut self) -> Result<char, GbnfError> {
        let position = self.position;
        let end = || self.expected("a character");
        if self.peek() != Some('\\') {
            let error = end();
            return self.next().ok_or(error);
        }
        self.next();
        let error =
            self.expected("an escape: \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH or \\UHHHHHHHH");
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some(escaped @ ('\\' | '"' | '[' | ']' | '-' | '^')) => return Ok(escaped),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(error),
        };
        let text: String = (0..digits).filter_map(|_| self.next()).collect();
        let number = u32::from_str_radix(&text, 16).ok().filter(|_| text.len() == digits);
        let character = number.and_then(char::from_u32);
        character.ok_or_else(|| GbnfError {
            position,
            problem: format!("found {text:?}, expected {digits} hexadecimal digits of a Unicode character"),
        })
    }

    /// Reads `<[id]>` or `<text>`, or any other token after `!`.
    fn token(&mut self) -> Result<Expression, GbnfError> {
        let position = self.position;
        let negated = self.skip("!");
        if !self.skip("<") {
            return Err(self.expected("a token such as <[17]> or <think> after !"));
        }
        let inner = self.take_while(|character| !matches!(character, '>' | '\n'));
        if !self.skip(">") {
            return Err(self.expected("> at the end of a token"));
        }
        let id = match inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(digits) => {
                digits.parse().ok().filter(|id| (*id as usize) < self.vocabulary.len()).ok_or_else(|| {
                    let most = self.vocabulary.len().saturating_sub(1);
                    format!("found the token <{inner}>, expected an id from 0 to {most}")
                })
            }
            None => self.vocabulary.special(&format!("<{inner}>")).ok_or_else(|| {
                format!("the vocabulary has no token <{inner}>; write its text in quotation marks, or a token's id as <[17]>")
            }),
        };
        let id = id.map_err(|problem| GbnfError { position, problem })?;
        // Tokens that end generation end the text.
        let others = if negated { self.vocabulary.ends() } else { &[] };
        Ok(Expression::Token { ids: [&[id], others].concat(), negated })
    }

    fn finish(self) -> Result<Grammar, GbnfError> {
        let Some(&root) = self.numbers.get("root") else {
            return Err(self.error("found no rule `root`, which a text must match; add root ::= …"));
        };
        let mut rules = Vec::new();
        for (name, (position, rule)) in self.names.iter().zip(self.rules) {
            let problem = format!("found no rule `{name}`; add {name} ::= …");
            rules.push(rule.ok_or(GbnfError { position, problem })?);
        }
        Ok(Grammar { names: self.names, rules, root })
    }
}
