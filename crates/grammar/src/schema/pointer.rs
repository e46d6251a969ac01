//! JSON pointers (RFC 6901).

use std::fmt;

use serde_json::Value;

use super::{SchemaError, SchemaProblem};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    pub(super) fn root() -> Pointer {
        Pointer(Vec::new())
    }

    /// Reads what follows `#` in a reference; `None` for an anchor.
    pub(super) fn parse(fragment: &str) -> Option<Pointer> {
        let text = percent_decoded(fragment)?;
        match text.strip_prefix('/') {
            None => text.is_empty().then(Pointer::root),
            Some("") => Some(Pointer::root()),
            Some(path) => {
                let plain = |key: &str| key.replace("~1", "/").replace("~0", "~");
                Some(Pointer(path.split('/').map(plain).collect()))
            }
        }
    }

    pub(super) fn child(&self, key: &str) -> Pointer {
        let mut keys = self.0.clone();
        keys.push(key.to_owned());
        Pointer(keys)
    }

    pub(super) fn parent(&self) -> Pointer {
        Pointer(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(super) fn find<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(root, |value, key| match value {
            Value::Object(map) => map.get(key),
            Value::Array(list) => list.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    pub(super) fn error(&self, problem: SchemaProblem) -> SchemaError {
        SchemaError { pointer: self.to_string(), problem }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|key| write!(f, "/{}", key.replace('~', "~0").replace('/', "~1")))
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn brief(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
