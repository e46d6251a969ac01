//! Metadata values and their GGUF type ids.

use std::fmt;

/// The type of a metadata value or of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// All types, in the order of their ids.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with id `id` in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        ValueType::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The id in a file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The name, such as `i32`.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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

/// A homogeneous array; [`Array::Array`] nests.
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

impl Value {
    /// The type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }
}

impl fmt::Display for Value {
    /// Type and value, such as `u32 7`; long values are truncated.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(v) => write!(f, "u8 {v}"),
            Value::I8(v) => write!(f, "i8 {v}"),
            Value::U16(v) => write!(f, "u16 {v}"),
            Value::I16(v) => write!(f, "i16 {v}"),
            Value::U32(v) => write!(f, "u32 {v}"),
            Value::I32(v) => write!(f, "i32 {v}"),
            Value::F32(v) => write!(f, "f32 {v}"),
            Value::Bool(v) => write!(f, "bool {v}"),
            Value::String(v) => write!(f, "string {}", quoted(v)),
            Value::Array(v) => write!(f, "array of {} {}", v.len(), v.element_type()),
            Value::U64(v) => write!(f, "u64 {v}"),
            Value::I64(v) => write!(f, "i64 {v}"),
            Value::F64(v) => write!(f, "f64 {v}"),
        }
    }
}

/// `text` in quotes, truncated to 80 characters and with control characters escaped, so that untrusted text is safe in
/// messages and terminals.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
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

    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        match self {
            Array::U8(_) => ValueType::U8,
            Array::I8(_) => ValueType::I8,
            Array::U16(_) => ValueType::U16,
            Array::I16(_) => ValueType::I16,
            Array::U32(_) => ValueType::U32,
            Array::I32(_) => ValueType::I32,
            Array::F32(_) => ValueType::F32,
            Array::Bool(_) => ValueType::Bool,
            Array::String(_) => ValueType::String,
            Array::Array(_) => ValueType::Array,
            Array::U64(_) => ValueType::U64,
            Array::I64(_) => ValueType::I64,
            Array::F64(_) => ValueType::F64,
        }
    }
}

macro_rules! conversions {
    ($($type:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value)
            }
        }

        impl From<Vec<$type>> for Value {
            fn from(values: Vec<$type>) -> Value {
                Value::Array(Array::$variant(values))
            }
        }
    )+};
}

conversions! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, f32 => F32, bool => Bool,
    String => String, Array => Array, u64 => U64, i64 => I64, f64 => F64,
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_indices_of_all() {
        for (i, value_type) in ValueType::ALL.into_iter().enumerate() {
            assert_eq!(value_type.id() as usize, i);
        }
        assert_eq!(ValueType::from_id(9), Some(ValueType::Array));
        assert_eq!(ValueType::from_id(13), None);
    }

    #[test]
    fn long_and_control_strings_are_printable() {
        assert_eq!(Value::from("a\u{1b}[2J\n").to_string(), r#"string "a\u{1b}[2J\n""#);
        let long = Value::from("ж".repeat(1000)).to_string();
        assert_eq!(long.chars().filter(|&c| c == 'ж').count(), 80);
        assert!(long.ends_with("\"…"));
    }
}
