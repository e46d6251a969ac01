//! A call that is one JSON object: `{"name": …, "arguments": {…}}`.

use serde_json::Value as Json;

use super::format::Keys;
use super::scanner::{Scanner, State, escaped};
use super::schema::Tools;

#[derive(Clone, Debug)]
pub(crate) struct Object {
    keys: &'static Keys,
    scanner: Scanner,
    field: Field,
    text: String,
    /// Whether an id counts that follows the arguments.
    takes_late_id: bool,
    has_begun: bool,
    /// Whether the value is an object of arguments, which need not be complete to be passed on.
    in_arguments: bool,
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    /// Arguments that are not passed on.
    pub(crate) arguments: String,
    pub(crate) has_arguments: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Id,
    Arguments,
    Other,
}

pub(crate) struct NoCall;

impl Object {
    pub(crate) fn new(keys: &'static Keys, takes_late_id: bool) -> Object {
        Object {
            keys,
            scanner: Scanner::new(),
            field: Field::Other,
            text: String::new(),
            takes_late_id,
            has_begun: false,
            in_arguments: false,
            name: None,
            id: None,
            arguments: String::new(),
            has_arguments: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.scanner.is_done()
    }

    /// Reads `c`. On error, nothing has changed but what does not matter then.
    pub(crate) fn push(&mut self, c: char, tools: &Tools) -> Result<(), NoCall> {
        let (before, depth, in_key) = (self.scanner.state(), self.scanner.depth(), self.scanner.in_key());
        if depth == 0 && c != '{' && !c.is_whitespace() {
            return Err(NoCall);
        }
        self.scanner.push(c).map_err(|_| NoCall)?;
        let (state, is_top) = (self.scanner.state(), depth == 1);
        match before {
            State::FirstKey | State::Key if is_top && c == '"' => self.text = "\"".into(),
            _ if in_key && is_top => {
                self.text.push(c);
                if state == State::Colon {
                    self.key(tools)?;
                }
            }
            State::Colon if state == State::Value && is_top => self.text.clear(),
            // White space before a value, and what precedes the first key.
            State::Value if state == State::Value && is_top => {}
            _ if depth == 0 || before == State::After && is_top => {}
            State::Colon | State::FirstKey | State::Key if is_top => {}
            State::Number(_) if is_top && !matches!(state, State::Number(_)) => self.value(tools)?,
            _ => {
                let in_text = before == State::Text;
                let ends = self.scanner.depth() == 1 && state == State::After;
                self.in_arguments |=
                    self.field == Field::Arguments && before == State::Value && is_top && c == '{';
                if self.in_arguments {
                    escaped(c, in_text, &mut self.arguments);
                    self.has_arguments = ends;
                    self.in_arguments = !ends;
                } else {
                    escaped(c, in_text, &mut self.text);
                    if ends {
                        self.value(tools)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, tools: &Tools) -> Result<(), NoCall> {
        let key: String = serde_json::from_str(&self.text).map_err(|_| NoCall)?;
        self.field = match self.keys {
            Keys::NameIsKey if self.name.is_some() => return Err(NoCall),
            Keys::NameIsKey => {
                self.set_name(key, tools)?;
                Field::Arguments
            }
            Keys::Fields { name, .. } if key == *name && self.name.is_none() => Field::Name,
            Keys::Fields { arguments, .. } if arguments.contains(&&*key) => Field::Arguments,
            Keys::Fields { id, .. } if key == *id => Field::Id,
            Keys::Fields { .. } => Field::Other,
        };
        if self.field == Field::Arguments && self.has_arguments {
            return Err(NoCall);
        }
        self.has_begun |= self.field == Field::Arguments;
        self.text.clear();
        Ok(())
    }

    fn value(&mut self, tools: &Tools) -> Result<(), NoCall> {
        let text = std::mem::take(&mut self.text);
        match self.field {
            Field::Other => {}
            Field::Name => self.set_name(serde_json::from_str(&text).map_err(|_| NoCall)?, tools)?,
            Field::Id if self.has_begun && !self.takes_late_id => {}
            Field::Id => self.id = serde_json::from_str(&text).ok(),
            Field::Arguments => {
                // JSON in a string, or nothing.
                self.arguments = match serde_json::from_str(&text).map_err(|_| NoCall)? {
                    Json::String(text) => match serde_json::from_str(&text) {
                        Ok(Json::Object(_)) => text,
                        _ => return Err(NoCall),
                    },
                    Json::Null => "{}".into(),
                    _ => return Err(NoCall),
                };
                self.has_arguments = true;
            }
        }
        Ok(())
    }

    fn set_name(&mut self, name: String, tools: &Tools) -> Result<(), NoCall> {
        tools.get(&name).ok_or(NoCall)?;
        self.name = Some(name);
        Ok(())
    }
}
