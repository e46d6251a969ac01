//! Writing version 3 files: first a [`Layout`] of metadata and tensors, then their data, which is streamed.

use std::io::{self, Write};

use indexmap::IndexMap;
use quant::Format;

use crate::cursor::check_name;
use crate::error::{Problem, quoted};
use crate::metadata::Metadata;
use crate::parse::{ALIGNMENT, alignment, key_item};
use crate::tensor::{Tensor, byte_len};
use crate::value::write_string;
use crate::{DEFAULT_ALIGNMENT, MAX_DIMS};

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
#[non_exhaustive]
pub enum WriteError {
    #[error("cannot write the file: {0}")]
    Io(#[from] io::Error),
    #[error("cannot write {item}: {problem}")]
    Invalid { item: String, problem: Problem },
    #[error("cannot write tensor \"{found}\": next in the layout is {}", expected.as_deref().unwrap_or("nothing"))]
    OutOfOrder { found: String, expected: Option<String> },
    /// If there are too many, `found` counts up to the first excess write.
    #[error(
        "cannot write tensor \"{name}\": its data has {found} bytes, its shape and format need {expected}"
    )]
    WrongLength { name: String, found: u64, expected: u64 },
    #[error("the file is incomplete: tensor \"{next}\" has no data yet")]
    Unfinished { next: String },
}

/// Writes a complete file from tensors in memory, such as those of a [`Gguf`](crate::Gguf).
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
    metadata: Vec<u8>,
    alignment: u64,
    /// Size of the data of each tensor in bytes.
    tensors: IndexMap<String, u64>,
    list: Vec<u8>,
    /// Size of the data, with padding after each tensor.
    data_len: u64,
}

impl Layout {
    /// A layout with these keys and no tensors; respects `general.alignment`.
    pub fn new(metadata: &Metadata) -> Result<Layout, WriteError> {
        let mut layout = Layout {
            keys: metadata.len() as u64,
            metadata: Vec::new(),
            alignment: DEFAULT_ALIGNMENT.into(),
            tensors: IndexMap::new(),
            list: Vec::new(),
            data_len: 0,
        };
        for (key, value) in metadata.iter() {
            let invalid = |problem| WriteError::Invalid { item: key_item(key), problem };
            check_name(key).map_err(invalid)?;
            if key == ALIGNMENT {
                layout.alignment = alignment(value).map_err(invalid)?.into();
            }
            write_string(&mut layout.metadata, key);
            value.write(&mut layout.metadata).map_err(invalid)?;
        }
        Ok(layout)
    }

    /// Appends a tensor; `shape` is fastest dimension first.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        shape: &[usize],
        format: Format,
    ) -> Result<&mut Layout, WriteError> {
        let name = name.into();
        let invalid = |problem| WriteError::Invalid { item: format!("tensor {}", quoted(&name)), problem };
        let len = self.entry(&name, shape, format).map_err(invalid)?;
        self.tensors.insert(name, len);
        Ok(self)
    }

    /// Appends an entry to the tensor list and returns the size of its data.
    fn entry(&mut self, name: &str, shape: &[usize], format: Format) -> Result<u64, Problem> {
        check_name(name)?;
        if self.tensors.contains_key(name) {
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
        write_string(&mut self.list, name);
        self.list.extend(dims.to_le_bytes());
        self.list.extend(shape.iter().flat_map(|dim| dim.to_le_bytes()));
        self.list.extend(format.id().to_le_bytes());
        self.list.extend(self.data_len.to_le_bytes());
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

    /// Writes everything before the data; does not flush `out`.
    pub fn begin<W: Write>(self, mut out: W) -> Result<Writer<W>, WriteError> {
        out.write_all(b"GGUF")?;
        out.write_all(&3u32.to_le_bytes())?;
        out.write_all(&(self.tensors.len() as u64).to_le_bytes())?;
        out.write_all(&self.keys.to_le_bytes())?;
        out.write_all(&self.metadata)?;
        out.write_all(&self.list)?;
        pad(&mut out, self.head_len(), self.alignment)?;
        Ok(Writer { out, alignment: self.alignment, pending: self.tensors.into_iter() })
    }
}

/// Writes the tensors' data, in the order of the layout.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    alignment: u64,
    pending: indexmap::map::IntoIter<String, u64>,
}

impl<W: Write> Writer<W> {
    /// Writes the data of `name`, which must be the next tensor.
    pub fn tensor(&mut self, name: &str, data: &[u8]) -> Result<(), WriteError> {
        self.tensor_with(name, |out| out.write_all(data))
    }

    /// Writes the data of `name`, which must be the next tensor, in pieces.
    pub fn tensor_with(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let next = self.pending.as_slice().first();
        let Some((_, &len)) = next.filter(|(next, _)| *next == name) else {
            let expected = next.map(|(next, _)| next.clone());
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
    pub fn finish(mut self) -> Result<W, WriteError> {
        if let Some((next, _)) = self.pending.next() {
            return Err(WriteError::Unfinished { next });
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
