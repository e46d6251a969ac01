//! Typed metadata: the key-value part of a GGUF file.

use indexmap::IndexMap;

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of one element type; [`Array::Array`] nests.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Vec<String>),
    Array(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// A key holds another type, or a value that does not fit the type asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("metadata key `{key}` holds {found}, expected {expected}")]
pub struct WrongType {
    /// The key.
    pub key: String,
    /// What it holds, such as `string "abc"`.
    pub found: String,
    /// What was asked for, such as `u32`.
    pub expected: &'static str,
}

/// Keys and values in file order; keys are unique.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: IndexMap<String, Value>,
}

impl Metadata {
    /// Sets `key`; returns the value it had.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Option<Value> {
        self.entries.insert(key.into(), value)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// Keys and values in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The string at `key`.
    pub fn str(&self, key: &str) -> Result<Option<&str>, WrongType> {
        self.typed(key, "a string", |value| match value {
            Value::String(s) => Some(s.as_str()),
            _ => None,
        })
    }

    /// The boolean at `key`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, WrongType> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(b) => Some(*b),
            _ => None,
        })
    }

    /// The integer at `key`, of whatever width, when it fits 32 bits unsigned.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, WrongType> {
        self.typed(key, "an integer from 0 to 4294967295", |value| match *value {
            Value::U8(v) => Some(v.into()),
            Value::I8(v) => v.try_into().ok(),
            Value::U16(v) => Some(v.into()),
            Value::I16(v) => v.try_into().ok(),
            Value::U32(v) => Some(v),
            Value::I32(v) => v.try_into().ok(),
            Value::U64(v) => v.try_into().ok(),
            Value::I64(v) => v.try_into().ok(),
            _ => None,
        })
    }

    /// The floating-point number at `key`.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, WrongType> {
        self.typed(key, "a floating-point number", |value| match *value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        })
    }

    /// The array of strings at `key`.
    pub fn strings(&self, key: &str) -> Result<Option<&[String]>, WrongType> {
        self.typed(key, "an array of strings", |value| match value {
            Value::Array(Array::String(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// The array of `f32` at `key`.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>, WrongType> {
        self.typed(key, "an array of f32", |value| match value {
            Value::Array(Array::F32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// The array of `i32` at `key`.
    pub fn i32s(&self, key: &str) -> Result<Option<&[i32]>, WrongType> {
        self.typed(key, "an array of i32", |value| match value {
            Value::Array(Array::I32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// What `pick` makes of the value at `key`; `None` when the key is absent.
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

impl std::fmt::Display for Value {
    /// Type and value, such as `u32 7`; long values are cut short.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::U8(v) => write!(f, "u8 {v}"),
            Value::I8(v) => write!(f, "i8 {v}"),
            Value::U16(v) => write!(f, "u16 {v}"),
            Value::I16(v) => write!(f, "i16 {v}"),
            Value::U32(v) => write!(f, "u32 {v}"),
            Value::I32(v) => write!(f, "i32 {v}"),
            Value::F32(v) => write!(f, "f32 {v}"),
            Value::Bool(v) => write!(f, "bool {v}"),
            Value::String(v) => match v.char_indices().nth(40) {
                Some((cut, _)) => write!(f, "string {:?}…", &v[..cut]),
                None => write!(f, "string {v:?}"),
            },
            Value::Array(v) => write!(f, "array of {} {}", v.len(), v.element_name()),
            Value::U64(v) => write!(f, "u64 {v}"),
            Value::I64(v) => write!(f, "i64 {v}"),
            Value::F64(v) => write!(f, "f64 {v}"),
        }
    }
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Array(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F64(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type's name, such as `i32`.
    pub fn element_name(&self) -> &'static str {
        match self {
            Array::U8(_) => "u8",
            Array::I8(_) => "i8",
            Array::U16(_) => "u16",
            Array::I16(_) => "i16",
            Array::U32(_) => "u32",
            Array::I32(_) => "i32",
            Array::F32(_) => "f32",
            Array::Bool(_) => "bool",
            Array::String(_) => "string",
            Array::Array(_) => "array",
            Array::U64(_) => "u64",
            Array::I64(_) => "i64",
            Array::F64(_) => "f64",
        }
    }
}
