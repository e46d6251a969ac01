//! GGUF files from raw pieces, any of which may be invalid.

/// Value type ids.
pub mod id {
    #![expect(missing_docs, reason = "the value types of the GGUF specification")]
    pub const U8: u32 = 0;
    pub const I8: u32 = 1;
    pub const U16: u32 = 2;
    pub const I16: u32 = 3;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const I64: u32 = 11;
    pub const F64: u32 = 12;
}

/// A value type id, and the bytes that follow it.
#[derive(Clone, Debug)]
pub struct Value(u32, Vec<u8>);

/// A Rust type that stands for a GGUF value type.
pub trait Element {
    #[expect(missing_docs, reason = "the id of the value type")]
    const ID: u32;
    #[expect(missing_docs, reason = "little-endian bytes, or a string with its length")]
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($type:ty: $id:ident),+) => {$(
        impl Element for $type {
            const ID: u32 = id::$id;
            fn bytes(&self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )+};
}

numbers!(u8: U8, i8: I8, u16: U16, i16: I16, u32: U32, i32: I32, u64: U64, i64: I64, f32: F32, f64: F64);

impl Element for &str {
    const ID: u32 = id::STRING;
    fn bytes(&self) -> Vec<u8> {
        string(self)
    }
}

impl<T: Element> From<T> for Value {
    fn from(value: T) -> Value {
        Value(T::ID, value.bytes())
    }
}

impl<T: Element> From<Vec<T>> for Value {
    fn from(elements: Vec<T>) -> Value {
        Value(id::ARRAY, array(T::ID, &elements.iter().map(T::bytes).collect::<Vec<_>>()))
    }
}

impl<B: Into<Vec<u8>>> From<(u32, B)> for Value {
    fn from((id, bytes): (u32, B)) -> Value {
        Value(id, bytes.into())
    }
}

/// A file under construction. Counts and padding are correct unless overridden.
#[derive(Clone, Debug)]
pub struct Raw {
    /// The first four bytes.
    pub magic: [u8; 4],
    /// The version field.
    pub version: u32,
    /// The tensor count, if different from the number of `infos`.
    pub tensor_count: Option<u64>,
    /// The key count, if different from the number of `keys`.
    pub key_count: Option<u64>,
    /// Encoded keys and values.
    pub keys: Vec<Vec<u8>>,
    /// Entries of the tensor list.
    pub infos: Vec<Vec<u8>>,
    /// Alignment of the data, with zero padding.
    pub alignment: usize,
    /// The data after tensor list and padding.
    pub data: Vec<u8>,
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: Vec::new(),
            infos: Vec::new(),
            alignment: 32,
            data: Vec::new(),
        }
    }
}

impl Raw {
    /// An empty version 3 file.
    pub fn new() -> Raw {
        Raw::default()
    }

    /// Adds a key.
    pub fn key(self, name: &str, value: impl Into<Value>) -> Raw {
        let Value(id, bytes) = value.into();
        self.raw_key([string(name), le(id), bytes].concat())
    }

    /// Adds an encoded key of arbitrary bytes.
    pub fn raw_key(mut self, bytes: Vec<u8>) -> Raw {
        self.keys.push(bytes);
        self
    }

    /// Adds an entry to the tensor list, without data.
    pub fn tensor(self, name: &str, dims: &[u64], format: u32, offset: u64) -> Raw {
        let mut info = [string(name), le(dims.len() as u32)].concat();
        dims.iter().for_each(|&dim| info.extend(le(dim)));
        self.raw_tensor([info, le(format), le(offset)].concat())
    }

    /// Adds an entry of arbitrary bytes to the tensor list.
    pub fn raw_tensor(mut self, bytes: Vec<u8>) -> Raw {
        self.infos.push(bytes);
        self
    }

    /// Sets the data.
    pub fn data(self, data: impl Into<Vec<u8>>) -> Raw {
        Raw { data: data.into(), ..self }
    }

    /// The file. Without tensors and data, nothing follows the keys.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = [self.magic.to_vec(), le(self.version)].concat();
        let tensors = self.tensor_count.unwrap_or(self.infos.len() as u64);
        let keys = self.key_count.unwrap_or(self.keys.len() as u64);
        for count in [tensors, keys] {
            match self.version {
                1 => out.extend(le(count as u32)),
                _ => out.extend(le(count)),
            }
        }
        out.extend(self.keys.concat());
        out.extend(self.infos.concat());
        if !self.infos.is_empty() || !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
        }
        out.extend(&self.data);
        out
    }

    /// The file without its last `bytes` bytes.
    pub fn cut(&self, bytes: usize) -> Vec<u8> {
        let mut out = self.bytes();
        out.truncate(out.len() - bytes);
        out
    }
}

impl From<Raw> for Vec<u8> {
    fn from(file: Raw) -> Vec<u8> {
        file.bytes()
    }
}

/// Encodes a number as little-endian bytes.
pub fn le<T: Element>(value: T) -> Vec<u8> {
    value.bytes()
}

/// Encodes a string: length as u64, then the bytes, which may be invalid UTF-8.
pub fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [le(text.len() as u64), text.to_vec()].concat()
}

/// Encodes an array: element type, count and encoded elements.
pub fn array(id: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [le(id), le(elements.len() as u64), elements.concat()].concat()
}
