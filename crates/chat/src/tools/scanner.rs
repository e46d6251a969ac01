//! Checks JSON character by character: the arguments of a call are passed on while they are generated.

use serde_json::Value as Json;

/// Deepest nesting. That of `serde_json`, which reads arguments again.
pub(crate) const MAX_DEPTH: usize = 127;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Value,
    /// A value or the end of the list.
    FirstItem,
    /// A key or the end of the object.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of the list or object.
    After,
    Text,
    Escape,
    /// Digits of `\u`, of which `left` are missing.
    Hex {
        left: u8,
        code: u16,
    },
    Number(Number),
    /// The rest of `true`, `false` or `null`.
    Word(&'static str),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    state: State,
    /// For each open list or object, whether it is an object.
    open: Vec<bool>,
    /// Whether the string that is read is a key.
    in_key: bool,
    /// The first half of a surrogate pair.
    high: bool,
}

impl Scanner {
    pub(crate) fn new() -> Scanner {
        Scanner { state: State::Value, open: Vec::new(), in_key: false, high: false }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn in_key(&self) -> bool {
        self.in_key && matches!(self.state, State::Text | State::Escape | State::Hex { .. })
    }

    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads `c`. On error, nothing has changed.
    pub(crate) fn push(&mut self, c: char) -> Result<(), Invalid> {
        let next = match self.state {
            State::Number(number) => match number.then(c) {
                Some(number) => State::Number(number),
                None if number.may_end() => {
                    let after = self.after();
                    // A comma or the end of what contains the number.
                    return self.structure(after, c).map(|next| self.state = next);
                }
                None => return Err(Invalid),
            },
            State::Text | State::Escape | State::Hex { .. } => self.text(c)?,
            State::Word(rest) => match rest.strip_prefix(c) {
                Some("") => self.after(),
                Some(rest) => State::Word(rest),
                None => return Err(Invalid),
            },
            state => self.structure(state, c)?,
        };
        self.state = next;
        Ok(())
    }

    /// The text that ends all that is open here; `None` within a key, an escape or where a value must follow.
    fn closing(&self) -> Option<String> {
        let end = match self.state {
            State::Text if !self.in_key && !self.high => "\"",
            State::Number(number) if number.may_end() => "",
            State::Word(rest) => rest,
            State::After | State::FirstItem | State::FirstKey => "",
            _ => return None,
        };
        let brackets = self.open.iter().rev().map(|is_object| if *is_object { '}' } else { ']' });
        Some(end.chars().chain(brackets).collect())
    }

    fn after(&self) -> State {
        if self.open.is_empty() { State::Done } else { State::After }
    }

    fn text(&mut self, c: char) -> Result<State, Invalid> {
        match self.state {
            State::Escape if c == 'u' => Ok(State::Hex { left: 4, code: 0 }),
            State::Escape if "\"\\/bfnrt".contains(c) && !self.high => Ok(State::Text),
            State::Hex { left, code, .. } => {
                let digit = c.to_digit(16).and_then(|digit| u16::try_from(digit).ok()).ok_or(Invalid)?;
                let (left, code) = (left - 1, code << 4 | digit);
                if left > 0 {
                    return Ok(State::Hex { left, code });
                }
                // Half of a pair is no character.
                let (is_high, is_low) = ((0xd800..0xdc00).contains(&code), (0xdc00..0xe000).contains(&code));
                if is_low != self.high {
                    return Err(Invalid);
                }
                self.high = is_high;
                Ok(State::Text)
            }
            State::Text if c == '\\' => Ok(State::Escape),
            State::Text if self.high => Err(Invalid),
            State::Text if c == '"' => Ok(if self.in_key { State::Colon } else { self.after() }),
            State::Text => Ok(State::Text),
            _ => Err(Invalid),
        }
    }

    fn structure(&mut self, state: State, c: char) -> Result<State, Invalid> {
        match (state, c) {
            (_, ' ' | '\t' | '\n' | '\r') => Ok(state),
            (State::Value | State::FirstItem, _) if c != ']' => self.value(c),
            (State::FirstKey | State::Key, '"') => {
                self.in_key = true;
                Ok(State::Text)
            }
            (State::Colon, ':') => Ok(State::Value),
            (State::After, ',') => {
                Ok(if self.open.last() == Some(&true) { State::Key } else { State::Value })
            }
            (State::FirstItem | State::After, ']') => self.close(false),
            (State::FirstKey | State::After, '}') => self.close(true),
            _ => Err(Invalid),
        }
    }

    fn close(&mut self, is_object: bool) -> Result<State, Invalid> {
        self.open.pop_if(|open| *open == is_object).ok_or(Invalid)?;
        Ok(self.after())
    }

    fn value(&mut self, c: char) -> Result<State, Invalid> {
        let state = match c {
            '{' | '[' if self.open.len() == MAX_DEPTH => return Err(Invalid),
            '{' => State::FirstKey,
            '[' => State::FirstItem,
            '"' => State::Text,
            't' => State::Word("rue"),
            'f' => State::Word("alse"),
            'n' => State::Word("ull"),
            '-' => State::Number(Number::Minus),
            '0' => State::Number(Number::Zero),
            '1'..='9' => State::Number(Number::Whole),
            _ => return Err(Invalid),
        };
        if matches!(c, '{' | '[') {
            self.open.push(c == '{');
        }
        self.in_key = false;
        Ok(state)
    }
}

/// The object of which `text` is the beginning, as far as it goes; `None` if it begins none.
pub(crate) fn completed_object(text: &str) -> Option<Json> {
    let (mut scanner, mut whole) = (Scanner::new(), None);
    for (at, c) in text.char_indices() {
        if scanner.push(c).is_err() || scanner.is_done() {
            break;
        }
        if let Some(closing) = scanner.closing() {
            whole = Some((at + c.len_utf8(), closing));
        }
    }
    let (end, closing) = whole?;
    serde_json::from_str(&(text[..end].to_owned() + &closing)).ok().filter(Json::is_object)
}

impl Number {
    fn then(self, c: char) -> Option<Number> {
        match (self, c) {
            (Number::Minus, '0') => Some(Number::Zero),
            (Number::Minus, '1'..='9') | (Number::Whole, '0'..='9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, '.') => Some(Number::Point),
            (Number::Point | Number::Fraction, '0'..='9') => Some(Number::Fraction),
            (Number::Zero | Number::Whole | Number::Fraction, 'e' | 'E') => Some(Number::Exponent),
            (Number::Exponent, '+' | '-') => Some(Number::Sign),
            (Number::Exponent | Number::Sign | Number::Power, '0'..='9') => Some(Number::Power),
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::Power)
    }
}

/// `c` as it must be in a JSON string: models write line breaks that are not escaped.
pub(crate) fn escaped(c: char, in_text: bool, out: &mut String) {
    match c {
        '\n' if in_text => out.push_str("\\n"),
        '\r' if in_text => out.push_str("\\r"),
        '\t' if in_text => out.push_str("\\t"),
        c if in_text && c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}
