//! Typed metadata: the key-value part of a GGUF file.

use indexmap::IndexMap;

use crate::error::WrongType;
use crate::{Array, Value};

/// Keys and values in file order; keys are unique.
///
/// Typed getters return `Ok(None)` for an absent key and [`WrongType`] for a value of another type. Integers of any
/// width are accepted if they fit, because writers differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: IndexMap<String, Value>,
}

impl Metadata {
    /// Sets `key` and returns its previous value. New keys are appended; existing ones keep their position.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        self.entries.insert(key.into(), value.into())
    }

    /// Removes `key`, keeping the order of the others, and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.entries.shift_remove(key)
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }
}

#[expect(missing_docs, reason = "each getter returns the value at `key` as the type that it is named after")]
impl Metadata {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn str(&self, key: &str) -> Result<Option<&str>, WrongType> {
        self.typed(key, "a string", |value| match value {
            Value::String(s) => Some(s.as_str()),
            _ => None,
        })
    }

    pub fn bool(&self, key: &str) -> Result<Option<bool>, WrongType> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    pub fn u32(&self, key: &str) -> Result<Option<u32>, WrongType> {
        self.typed(key, "an integer from 0 to 4294967295", |value| value.integer()?.try_into().ok())
    }

    pub fn u64(&self, key: &str) -> Result<Option<u64>, WrongType> {
        self.typed(key, "an integer from 0", |value| value.integer()?.try_into().ok())
    }

    /// The floating-point number at `key`; an f64 is rounded.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, WrongType> {
        self.typed(key, "a floating-point number", |value| match *value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        })
    }

    pub fn array(&self, key: &str) -> Result<Option<&Array>, WrongType> {
        self.typed(key, "an array", |value| match value {
            Value::Array(array) => Some(array),
            _ => None,
        })
    }

    pub fn strings(&self, key: &str) -> Result<Option<&[String]>, WrongType> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::String(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>, WrongType> {
        self.typed(key, "an array of f32", |value| match value {
            Value::Array(Array::F32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    pub fn i32s(&self, key: &str) -> Result<Option<&[i32]>, WrongType> {
        self.typed(key, "an array of i32", |value| match value {
            Value::Array(Array::I32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>, WrongType> {
        self.typed(key, "an array of integers from 0 to 4294967295", |value| match value {
            Value::Array(array) => array.values().map(|value| value.integer()?.try_into().ok()).collect(),
            _ => None,
        })
    }

    /// Applies `pick` to the value at `key`; `None` if the key is absent.
    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, WrongType> {
        let Some(value) = self.entries.get(key) else { return Ok(None) };
        match pick(value) {
            Some(picked) => Ok(Some(picked)),
            None => Err(WrongType { key: key.to_owned(), found: value.to_string(), expected }),
        }
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Metadata {
    /// The last value of a duplicate key wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Metadata {
        Metadata { entries: entries.into_iter().map(|(k, v)| (k.into(), v.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(value: impl Into<Value>) -> Metadata {
        [("k", value)].into_iter().collect()
    }

    #[test]
    fn integers_of_any_width_are_accepted_if_they_fit() {
        for value in [
            Value::U8(7),
            Value::I8(7),
            Value::U16(7),
            Value::I16(7),
            Value::U32(7),
            Value::I32(7),
            Value::U64(7),
            Value::I64(7),
        ] {
            let metadata = metadata(value);
            assert_eq!(metadata.u32("k"), Ok(Some(7)));
            assert_eq!(metadata.u64("k"), Ok(Some(7)));
        }
        assert_eq!(metadata(u32::MAX).u32("k"), Ok(Some(u32::MAX)));
        assert!(metadata(-1i64).u64("k").is_err());
        assert!(metadata(1u64 << 32).u32("k").is_err());
        assert_eq!(metadata(u64::MAX).u64("k"), Ok(Some(u64::MAX)));
        assert!(metadata(7f32).u32("k").is_err());
        assert!(metadata(true).u32("k").is_err());
        assert_eq!(metadata(vec![1i64, 2]).u32s("k"), Ok(Some(vec![1, 2])));
        assert!(metadata(vec![1i32, -2]).u32s("k").is_err());
        assert!(metadata(vec![1f32]).u32s("k").is_err());
    }

    #[test]
    fn absent_keys_are_none_and_wrong_types_are_reported() {
        let empty = Metadata::default();
        assert_eq!(empty.str("k"), Ok(None));
        assert_eq!(empty.strings("k"), Ok(None));
        let error = metadata("abc").f32("k").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"metadata key "k" is string "abc", expected a floating-point number"#
        );
        let error = metadata(vec![1u8, 2]).i32s("k").unwrap_err();
        assert_eq!(error.found, "array of 2 u8");
    }

    #[test]
    fn keys_keep_their_order() {
        let mut metadata: Metadata = [("b", 1u8), ("a", 2), ("c", 3)].into_iter().collect();
        assert_eq!(metadata.insert("a", 4u8), Some(Value::U8(2)));
        assert_eq!(metadata.remove("b"), Some(Value::U8(1)));
        metadata.insert("b", 5u8);
        assert_eq!(metadata.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "c", "b"]);
    }
}
