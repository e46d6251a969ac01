//! Fields of a JSON request: absent and `null` are the same, wrong ones are named, unknown ones are left over.

use std::fmt::Display;
use std::ops::RangeInclusive;

#[cfg(test)]
use engine::Param;
use engine::Params;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::error::ApiError;

/// Fields that mean something to other servers, and change nothing here.
pub(crate) const HARMLESS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "cache_prompt",
    "cache_control",
    "slot_id",
    "id_slot",
];

/// JSON values in a body, at most: each takes as long as hundreds of bytes of text, and much more memory.
pub(crate) const MAX_VALUES: usize = 1 << 18;

/// Values in a JSON text, roughly: what stands before commas and after brackets, outside of strings.
fn values(json: &[u8]) -> usize {
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b',' | b'[' | b'{') => values += 1,
            _ => {}
        }
    }
    values
}

/// The fields that have not been read yet.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Json>);

#[cfg(test)]
thread_local! {
    /// The names that this thread has asked for.
    pub(crate) static ASKED: std::cell::RefCell<std::collections::BTreeSet<String>> = Default::default();
}

impl Fields {
    /// The fields of a body. Fails if it is no JSON object, nests too deep, or has too many values.
    pub(crate) fn read(body: &[u8]) -> Result<Fields, ApiError> {
        if values(body) > MAX_VALUES {
            let why = format!("the body has more than {MAX_VALUES} JSON values; send several requests");
            return Err(ApiError::new(crate::error::Kind::BodyTooLarge, why));
        }
        let json: Json = serde_json::from_slice(body).map_err(|error| {
            let why =
                format!("the body is no JSON: {error}; expected a JSON object, nested at most 127 levels");
            ApiError::new(crate::error::Kind::Invalid, why)
        })?;
        match json {
            Json::Object(map) => Ok(Fields(map)),
            other => Err(ApiError::new(
                crate::error::Kind::Invalid,
                format!("the body is {}, expected a JSON object", name_of(&other)),
            )),
        }
    }

    fn remove(&mut self, name: &str) -> Option<Json> {
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.insert(name.to_owned()));
        self.0.remove(name)
    }

    /// The field `name`, if it is there and not `null`.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        match self.remove(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => {
                let found = name_of(&value);
                serde_json::from_value(value)
                    .map(Some)
                    .map_err(|error| ApiError::invalid(name, format!("`{name}` is {found}: {error}")))
            }
        }
    }

    /// The fields themselves, for what a protocol says in another way.
    pub(crate) fn map(&mut self) -> &mut Map<String, Json> {
        &mut self.0
    }

    /// The engine's parameters; those that are not there are as in `defaults`.
    pub(crate) fn params(&mut self, defaults: &Params) -> Result<Params, ApiError> {
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| {
            asked.extend(Params::TABLE.iter().flat_map(Param::names).map(str::to_owned));
        });
        let mut params = defaults.clone();
        params.take(&mut self.0)?;
        Ok(params)
    }

    /// The field `name`, which must be there.
    pub(crate) fn require<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ApiError> {
        self.take(name)?.ok_or_else(|| ApiError::invalid(name, format!("`{name}` is missing")))
    }

    /// The field `name`, which must be in `range`.
    pub(crate) fn within<T: DeserializeOwned + PartialOrd + Display>(
        &mut self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, ApiError> {
        let value: Option<T> = self.take(name)?;
        match &value {
            Some(found) if !range.contains(found) => {
                let (from, to) = range.into_inner();
                Err(ApiError::invalid(name, format!("`{name}` is {found}, expected {from} to {to}")))
            }
            _ => Ok(value),
        }
    }

    /// The field `name`, which must have at most `most` items.
    pub(crate) fn list<T: DeserializeOwned>(
        &mut self,
        name: &str,
        most: usize,
    ) -> Result<Option<Vec<T>>, ApiError> {
        if let Some(Json::Array(items)) = self.0.get(name)
            && items.len() > most
        {
            let found = items.len();
            return Err(ApiError::invalid(
                name,
                format!("`{name}` has {found} items, expected at most {most}"),
            ));
        }
        self.take(name)
    }

    /// The fields of the object `name`; none if it is absent.
    pub(crate) fn inner(&mut self, name: &str) -> Result<Fields, ApiError> {
        Ok(Fields(self.take(name)?.unwrap_or_default()))
    }

    /// Fails if one of the fields `names`, which this server does not do, asks for something.
    pub(crate) fn refuse(&mut self, names: &[&str]) -> Result<(), ApiError> {
        for name in names {
            match self.remove(name) {
                None => {}
                Some(value) if !asks(&value) => {}
                Some(_) => {
                    return Err(ApiError::unsupported(
                        *name,
                        format!("`{name}` is not supported by this server; leave it out"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Drops fields that change nothing here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.remove(name)));
    }

    /// Names of the fields that nobody has read.
    pub(crate) fn unknown(self) -> Vec<String> {
        self.0.into_iter().map(|(name, _)| name).collect()
    }
}

/// Whether a value asks for something: it is neither false, nothing, zero nor less, nor an empty text or array.
pub(crate) fn asks(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64().is_some_and(|number| number > 0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(_) => true,
    }
}

/// The kind of a value, for people.
pub(crate) fn name_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}
