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

impl Raw {
    /// An empty version 3 file.
    pub fn new() -> Raw {
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

    /// Adds a key with a value of type `id`.
    pub fn key(mut self, name: &str, id: u32, value: impl AsRef<[u8]>) -> Raw {
        self.keys.push([string(name), le(id), value.as_ref().to_vec()].concat());
        self
    }

    /// Adds an encoded key of arbitrary bytes.
    pub fn raw_key(mut self, bytes: impl AsRef<[u8]>) -> Raw {
        self.keys.push(bytes.as_ref().to_vec());
        self
    }

    /// Adds an entry to the tensor list, without data.
    pub fn tensor(mut self, name: &str, dims: &[u64], format: u32, offset: u64) -> Raw {
        let mut info = [string(name), le(dims.len() as u32)].concat();
        dims.iter().for_each(|&dim| info.extend(le(dim)));
        self.infos.push([info, le(format), le(offset)].concat());
        self
    }

    /// Adds an entry of arbitrary bytes to the tensor list.
    pub fn raw_tensor(mut self, bytes: impl AsRef<[u8]>) -> Raw {
        self.infos.push(bytes.as_ref().to_vec());
        self
    }

    /// Sets the data.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Raw {
        self.data = data.into();
        self
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

impl Default for Raw {
    fn default() -> Raw {
        Raw::new()
    }
}

/// Encodes a number as little-endian bytes.
pub fn le<T: Number>(value: T) -> Vec<u8> {
    value.bytes()
}

/// Number types of [`le`].
pub trait Number {
    /// Little-endian bytes.
    fn bytes(self) -> Vec<u8>;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Number for $type {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )+};
}

numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// Encodes a string: length as u64, then the bytes, which may be invalid UTF-8.
pub fn string(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [le(text.len() as u64), text.to_vec()].concat()
}

/// Encodes an array: element type, count and encoded elements.
pub fn array(id: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [le(id), le(elements.len() as u64), elements.concat()].concat()
}
