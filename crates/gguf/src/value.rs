//! Metadata values: their types, ids and encoding in a file.

use std::fmt;

use crate::MAX_ARRAY_DEPTH;
use crate::cursor::{At, Cursor, Element};
use crate::error::{Problem, quoted};

/// Defines the value types from a table of id, variant, Rust type, and name with its article.
macro_rules! value_types {
    ($($id:literal $variant:ident $type:ty, $article:literal $name:literal;)+) => {
        /// The type of a metadata value or of an array's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum ValueType {
            $($variant = $id,)+
        }

        impl ValueType {
            /// All types, in the order of their ids.
            pub const ALL: &[ValueType] = &[$(ValueType::$variant),+];

            /// The name, such as `i32`.
            pub fn name(self) -> &'static str {
                match self {
                    $(ValueType::$variant => $name,)+
                }
            }
        }

        /// One metadata value.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum Value {
            $($variant($type),)+
        }

        impl Value {
            /// The type.
            pub fn value_type(&self) -> ValueType {
                match self {
                    $(Value::$variant(_) => ValueType::$variant,)+
                }
            }

            pub(crate) fn read(cursor: &mut Cursor) -> Result<Value, At> {
                Ok(match ValueType::read(cursor)? {
                    $(ValueType::$variant => Value::$variant(<$type>::read(cursor, concat!($article, " ", $name), 0)?),)+
                })
            }

            pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), Problem> {
                out.extend((self.value_type() as u32).to_le_bytes());
                match self {
                    $(Value::$variant(value) => value.write(out, 0),)+
                }
            }
        }

        impl fmt::Display for Value {
            /// Type and value, such as `u32 7`; long values are truncated.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Value::$variant(value) => write!(f, "{} {}", $name, value.short()),)+
                }
            }
        }

        /// A homogeneous array; [`Array::Array`] nests.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum Array {
            $($variant(Vec<$type>),)+
        }

        #[expect(missing_docs, reason = "the names say it")]
        impl Array {
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(values) => values.len(),)+
                }
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub fn element_type(&self) -> ValueType {
                match self {
                    $(Array::$variant(_) => ValueType::$variant,)+
                }
            }

            pub fn values(&self) -> Box<dyn Iterator<Item = Value> + '_> {
                match self {
                    $(Array::$variant(values) => Box::new(values.iter().cloned().map(Value::$variant)),)+
                }
            }

            fn read_elements(element: ValueType, cursor: &mut Cursor, depth: usize) -> Result<Array, At> {
                Ok(match element {
                    $(ValueType::$variant => Array::$variant(cursor.array(depth)?),)+
                })
            }

            fn write_elements(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Problem> {
                match self {
                    $(Array::$variant(values) => values.iter().try_for_each(|value| value.write(out, depth)),)+
                }
            }
        }

        $(
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
        )+
    };
}

value_types! {
    0 U8 u8, "a" "u8";
    1 I8 i8, "an" "i8";
    2 U16 u16, "a" "u16";
    3 I16 i16, "an" "i16";
    4 U32 u32, "a" "u32";
    5 I32 i32, "an" "i32";
    6 F32 f32, "an" "f32";
    7 Bool bool, "a" "bool";
    8 String String, "a" "string";
    9 Array Array, "an" "array";
    10 U64 u64, "a" "u64";
    11 I64 i64, "an" "i64";
    12 F64 f64, "an" "f64";
}

impl ValueType {
    fn read(cursor: &mut Cursor) -> Result<ValueType, At> {
        let offset = cursor.offset;
        let id = cursor.u32("a value type")?;
        let found = ValueType::ALL.iter().find(|found| **found as u32 == id);
        found.copied().ok_or(At { offset, problem: Problem::UnknownValueType(id) })
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Value {
    /// An integer of any width.
    pub fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.to_owned())
    }
}

impl Element for bool {
    fn least(_: &Cursor) -> u64 {
        1
    }

    fn read(cursor: &mut Cursor, what: &'static str, depth: usize) -> Result<bool, At> {
        let offset = cursor.offset;
        match u8::read(cursor, what, depth)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(At { offset, problem: Problem::BadBool(other) }),
        }
    }

    fn write(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Problem> {
        u8::from(*self).write(out, depth)
    }

    fn short(&self) -> String {
        self.to_string()
    }
}

impl Element for String {
    const NAMES: [&'static str; 2] = ["a string", "strings"];

    fn read(cursor: &mut Cursor, what: &'static str, _: usize) -> Result<String, At> {
        cursor.string(what)
    }

    fn write(&self, out: &mut Vec<u8>, _: usize) -> Result<(), Problem> {
        write_string(out, self);
        Ok(())
    }

    fn short(&self) -> String {
        quoted(self)
    }
}

pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

impl Element for Array {
    const NAMES: [&'static str; 2] = ["an array", "arrays"];

    fn least(cursor: &Cursor) -> u64 {
        4 + cursor.length_size()
    }

    fn read(cursor: &mut Cursor, _: &'static str, depth: usize) -> Result<Array, At> {
        if depth == MAX_ARRAY_DEPTH {
            return cursor.fail(Problem::TooDeep);
        }
        let element = ValueType::read(cursor)?;
        Array::read_elements(element, cursor, depth + 1)
    }

    fn write(&self, out: &mut Vec<u8>, depth: usize) -> Result<(), Problem> {
        if depth == MAX_ARRAY_DEPTH {
            return Err(Problem::TooDeep);
        }
        out.extend((self.element_type() as u32).to_le_bytes());
        out.extend((self.len() as u64).to_le_bytes());
        self.write_elements(out, depth + 1)
    }

    fn short(&self) -> String {
        format!("of {} {}", self.len(), self.element_type())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_control_strings_are_printable() {
        assert_eq!(Value::from("a\u{1b}[2J\n").to_string(), r#"string "a\u{1b}[2J\n""#);
        let long = Value::from("ж".repeat(1000)).to_string();
        assert_eq!(long.chars().filter(|&c| c == 'ж').count(), 80);
        assert!(long.ends_with("\"…"));
    }
}
