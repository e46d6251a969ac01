//! Writing version 3 files: first a [`Layout`] of metadata and tensors, then their data in order.
//!
//! Data is streamed: memory use does not depend on the file size.
//!
//! ```
//! use gguf::{Gguf, Layout, Metadata};
//! use quant::Format;
//!
//! let metadata: Metadata = [("general.architecture", "llama")].into_iter().collect();
//! let mut layout = Layout::new(&metadata)?;
//! layout.tensor("output_norm.weight", &[2], Format::F32)?;
//! layout.tensor("output.weight", &[2, 3], Format::F32)?;
//! let mut writer = layout.begin(Vec::new())?;
//! writer.tensor("output_norm.weight", &[0; 8])?;
//! writer.tensor_with("output.weight", |out| {
//!     for row in 0..3u8 {
//!         out.write_all(&[row; 8])?;
//!     }
//!     Ok(())
//! })?;
//! let file = writer.finish()?;
//! assert_eq!(Gguf::from_bytes(file.into()).unwrap().tensor("output.weight").unwrap().rows(), 3);
//! # Ok::<(), gguf::WriteError>(())
//! ```

use std::collections::HashSet;
use std::io::{self, Write};

use quant::Format;

use crate::cursor::Scalar;
use crate::error::{Item, Problem};
use crate::metadata::Metadata;
use crate::parse::{ALIGNMENT, alignment};
use crate::tensor::{Tensor, byte_len};
use crate::value::{Array, Value};
use crate::{DEFAULT_ALIGNMENT, MAX_ARRAY_DEPTH, MAX_DIMS, MAX_NAME_BYTES};

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The output reported an error.
    #[error("cannot write the file: {0}")]
    Io(#[from] io::Error),
    /// An invalid key or tensor.
    #[error("cannot write {item}: {problem}")]
    Invalid {
        /// The key or tensor.
        item: Item,
        /// The problem.
        problem: Problem,
    },
    /// Data was written for a tensor other than the next one in the layout.
    #[error("cannot write tensor \"{found}\": next in the layout is {}", expected.as_deref().unwrap_or("nothing"))]
    OutOfOrder {
        /// The tensor written.
        found: String,
        /// The expected tensor; `None` if all are written.
        expected: Option<String>,
    },
    /// The data of a tensor has the wrong size.
    #[error(
        "cannot write tensor \"{name}\": its data has {found} bytes, its shape and format need {expected}"
    )]
    WrongLength {
        /// The tensor.
        name: String,
        /// Bytes written; if too many, up to the first excess write.
        found: u64,
        /// Bytes expected.
        expected: u64,
    },
    /// Some tensors have no data yet.
    #[error("the file is incomplete: tensor \"{next}\" has no data yet")]
    Unfinished {
        /// The first tensor without data.
        next: String,
    },
}

/// Writes a complete file from tensors in memory, such as those of a [`Gguf`](crate::Gguf).
///
/// # Errors
/// As [`Layout`] and [`Writer`].
pub fn write<'a, W: Write>(
    out: W,
    metadata: &Metadata,
    tensors: impl IntoIterator<Item = &'a Tensor>,
) -> Result<W, WriteError> {
    let tensors: Vec<&Tensor> = tensors.into_iter().collect();
    let mut layout = Layout::new(metadata)?;
    for tensor in &tensors {
        layout.tensor(tensor.name.as_str(), &tensor.shape, tensor.format)?;
    }
    let mut writer = layout.begin(out)?;
    for tensor in tensors {
        writer.tensor(&tensor.name, &tensor.data)?;
    }
    writer.finish()
}

/// The validated header of a file: everything but the tensors' data.
#[derive(Clone, Debug)]
pub struct Layout {
    keys: u64,
    /// Encoded keys and values.
    metadata: Vec<u8>,
    alignment: u64,
    entries: Vec<Entry>,
    /// Encoded tensor list.
    list: Vec<u8>,
    names: HashSet<String>,
    /// Size of the data, with padding after each tensor.
    data_len: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    len: u64,
}

impl Layout {
    /// A layout with these keys and no tensors; respects `general.alignment`.
    ///
    /// # Errors
    /// [`WriteError::Invalid`] for an invalid key.
    pub fn new(metadata: &Metadata) -> Result<Layout, WriteError> {
        let mut layout = Layout {
            keys: metadata.len() as u64,
            metadata: Vec::new(),
            alignment: DEFAULT_ALIGNMENT.into(),
            entries: Vec::new(),
            list: Vec::new(),
            names: HashSet::new(),
            data_len: 0,
        };
        for (key, value) in metadata.iter() {
            let invalid = |problem| WriteError::Invalid { item: Item::Key(key.to_owned()), problem };
            check_name(key).map_err(invalid)?;
            if key == ALIGNMENT {
                layout.alignment = alignment(value).map_err(invalid)?.into();
            }
            put_string(&mut layout.metadata, key);
            put_value(&mut layout.metadata, value).map_err(invalid)?;
        }
        Ok(layout)
    }

    /// Appends a tensor; `shape` is fastest dimension first.
    ///
    /// # Errors
    /// [`WriteError::Invalid`] for a duplicate, empty or too long name, or a shape that is invalid or does not match the
    /// format.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        format: Format,
    ) -> Result<&mut Layout, WriteError> {
        let name = name.into();
        match self.entry(&name, shape, format) {
            Ok(len) => {
                self.names.insert(name.clone());
                self.entries.push(Entry { name, len });
                Ok(self)
            }
            Err(problem) => Err(WriteError::Invalid { item: Item::Tensor(name), problem }),
        }
    }

    /// Appends an entry to the tensor list and returns the size of its data.
    fn entry(&mut self, name: &str, shape: &[usize], format: Format) -> Result<u64, Problem> {
        check_name(name)?;
        if self.names.contains(name) {
            return Err(Problem::Duplicate);
        }
        let dims = u32::try_from(shape.len()).unwrap_or(u32::MAX);
        if shape.len() > MAX_DIMS {
            return Err(Problem::TooManyDims(dims));
        }
        let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
        let len = byte_len(&shape, format)?;
        let end = len.checked_next_multiple_of(self.alignment).and_then(|len| self.data_len.checked_add(len));
        let Some(end) = end else { return Err(Problem::Overflow(shape)) };
        put_string(&mut self.list, name);
        dims.write(&mut self.list);
        for dim in shape {
            dim.write(&mut self.list);
        }
        format.id().write(&mut self.list);
        self.data_len.write(&mut self.list);
        self.data_len = end;
        Ok(len)
    }

    /// Bytes up to the end of the tensor list.
    fn head_len(&self) -> u64 {
        24 + self.metadata.len() as u64 + self.list.len() as u64
    }

    /// Size of the finished file in bytes.
    pub fn file_len(&self) -> u64 {
        self.head_len().next_multiple_of(self.alignment).saturating_add(self.data_len)
    }

    /// Writes everything before the data, in few large writes; does not flush `out`.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn begin<W: Write>(self, mut out: W) -> Result<Writer<W>, WriteError> {
        let mut header = b"GGUF".to_vec();
        3u32.write(&mut header);
        (self.entries.len() as u64).write(&mut header);
        self.keys.write(&mut header);
        out.write_all(&header)?;
        out.write_all(&self.metadata)?;
        out.write_all(&self.list)?;
        pad(&mut out, self.head_len(), self.alignment)?;
        Ok(Writer { out, alignment: self.alignment, pending: self.entries.into_iter() })
    }
}

/// Writes the tensors' data, in the order of the layout.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    alignment: u64,
    pending: std::vec::IntoIter<Entry>,
}

impl<W: Write> Writer<W> {
    /// The next tensor to write; `None` if all are written.
    pub fn next_tensor(&self) -> Option<&str> {
        self.pending.as_slice().first().map(|entry| entry.name.as_str())
    }

    /// Writes the data of `name`, which must be the next tensor.
    ///
    /// # Errors
    /// [`WriteError::OutOfOrder`], [`WriteError::WrongLength`] or [`WriteError::Io`].
    pub fn tensor(&mut self, name: &str, data: &[u8]) -> Result<(), WriteError> {
        self.tensor_with(name, |out| out.write_all(data))
    }

    /// Writes the data of `name`, which must be the next tensor, in pieces.
    ///
    /// # Errors
    /// [`WriteError::OutOfOrder`], [`WriteError::WrongLength`] or [`WriteError::Io`], including errors of `fill`.
    pub fn tensor_with(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let next = self.pending.as_slice().first();
        let Some(&Entry { len, .. }) = next.filter(|entry| entry.name == name) else {
            let expected = next.map(|entry| entry.name.clone());
            return Err(WriteError::OutOfOrder { found: name.to_owned(), expected });
        };
        let mut sink = Counted { out: &mut self.out, len, found: 0 };
        let filled = fill(&mut sink);
        let found = sink.found;
        if found > len || (filled.is_ok() && found < len) {
            return Err(WriteError::WrongLength { name: name.to_owned(), found, expected: len });
        }
        filled?;
        pad(&mut self.out, len, self.alignment)?;
        // Advance only on success: after an error the tensor stays pending, and `finish` fails.
        self.pending.next();
        Ok(())
    }

    /// Checks that all tensors are written, flushes, and returns the output.
    ///
    /// # Errors
    /// [`WriteError::Unfinished`] or [`WriteError::Io`].
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Some(entry) = self.pending.next() {
            return Err(WriteError::Unfinished { next: entry.name });
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Forwards at most `len` bytes and counts them.
struct Counted<'a, W> {
    out: &'a mut W,
    len: u64,
    found: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() as u64 > self.len - self.found.min(self.len) {
            self.found += data.len() as u64;
            return Err(io::Error::other("more data than the tensor holds"));
        }
        let written = self.out.write(data)?;
        self.found += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes zeros from `len` to the next multiple of `alignment`.
fn pad(out: &mut impl Write, len: u64, alignment: u64) -> io::Result<()> {
    let zeros = len.next_multiple_of(alignment) - len;
    io::copy(&mut io::Read::take(io::repeat(0), zeros), out)?;
    Ok(())
}

fn check_name(name: &str) -> Result<(), Problem> {
    match name.len() as u64 {
        0 => Err(Problem::EmptyName),
        n if n > MAX_NAME_BYTES => Err(Problem::LongName(n)),
        _ => Ok(()),
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    (text.len() as u64).write(out);
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<(), Problem> {
    value.value_type().id().write(out);
    match value {
        Value::U8(v) => v.write(out),
        Value::I8(v) => v.write(out),
        Value::U16(v) => v.write(out),
        Value::I16(v) => v.write(out),
        Value::U32(v) => v.write(out),
        Value::I32(v) => v.write(out),
        Value::F32(v) => v.write(out),
        Value::Bool(v) => v.write(out),
        Value::String(v) => put_string(out, v),
        Value::Array(v) => put_array(out, v, 1)?,
        Value::U64(v) => v.write(out),
        Value::I64(v) => v.write(out),
        Value::F64(v) => v.write(out),
    }
    Ok(())
}

/// `depth` is 1 for the value of a key.
fn put_array(out: &mut Vec<u8>, array: &Array, depth: usize) -> Result<(), Problem> {
    fn put_all<T: Scalar>(out: &mut Vec<u8>, values: &[T]) {
        values.iter().for_each(|value| value.write(out));
    }
    if depth > MAX_ARRAY_DEPTH {
        return Err(Problem::TooDeep);
    }
    array.element_type().id().write(out);
    (array.len() as u64).write(out);
    match array {
        Array::U8(v) => put_all(out, v),
        Array::I8(v) => put_all(out, v),
        Array::U16(v) => put_all(out, v),
        Array::I16(v) => put_all(out, v),
        Array::U32(v) => put_all(out, v),
        Array::I32(v) => put_all(out, v),
        Array::F32(v) => put_all(out, v),
        Array::Bool(v) => put_all(out, v),
        Array::String(v) => v.iter().for_each(|text| put_string(out, text)),
        Array::Array(v) => v.iter().try_for_each(|inner| put_array(out, inner, depth + 1))?,
        Array::U64(v) => put_all(out, v),
        Array::I64(v) => put_all(out, v),
        Array::F64(v) => put_all(out, v),
    }
    Ok(())
}
