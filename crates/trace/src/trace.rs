//! Reading a trace, one value at a time: a safetensors file (<https://github.com/huggingface/safetensors#format>) of `F32` tensors
//! with two dimensions, positions and columns.
//!
//! First comes the header's length as a little-endian u64; then the header, a JSON object with `dtype`, `shape` and `data_offsets`
//! (from the end of the header) of each tensor and strings in `__metadata__`; then the data.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{Error, Matrix, Meta};

const MAX_HEADER: u64 = 100_000_000;

/// A value of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name in the graph, such as `Qcur-0`.
    pub name: String,
    /// Positions, from 0 on.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header<K: Ord> {
    #[serde(rename = "__metadata__")]
    pub(crate) metadata: BTreeMap<K, String>,
    #[serde(flatten)]
    pub(crate) tensors: IndexMap<String, Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data_offsets: [u64; 2],
}

/// An opened trace. Values stay in the file until they are read.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    file: Mutex<File>,
    meta: Meta,
    pub(crate) is_trusted: bool,
    /// By name, in the order of the file: shape, and offset of the data.
    values: IndexMap<String, (Shape, u64)>,
}

impl Trace {
    /// Opens the trace at `path` and checks everything but the elements; fails unless it is a whole trace.
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, Error> {
        let path = path.as_ref();
        // Checked before opening: a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(Error::io(path, "open it"))?.is_file() {
            return Err(Error::format(path, "it is no regular file"));
        }
        let mut file = File::open(path).map_err(Error::io(path, "open it"))?;
        let len = file.metadata().map_err(Error::io(path, "read it"))?.len();
        let mut length = [0; 8];
        if len < 8 {
            return Err(Error::format(path, format!("it has {len} bytes, expected a header")));
        }
        file.read_exact(&mut length).map_err(Error::io(path, "read it"))?;
        let header_len = u64::from_le_bytes(length);
        if header_len > MAX_HEADER.min(len - 8) {
            let why =
                format!("its first 8 bytes say that its header has {header_len} bytes, the file has {len}");
            return Err(Error::format(path, why));
        }
        let mut header = vec![0; header_len as usize];
        file.read_exact(&mut header).map_err(Error::io(path, "read it"))?;
        let header: Header<String> = serde_json::from_slice(&header)
            .map_err(|error| Error::format(path, format!("its header is not one of a trace: {error}")))?;
        let meta = Meta::from_map(&header.metadata).map_err(|why| Error::format(path, why))?;

        let start = 8 + header_len;
        let value = |(name, entry): (String, Entry)| match entry.check(&name, len - start) {
            Some(shape) => Ok((name, (shape, start + entry.data_offsets[0]))),
            None => {
                let Entry { dtype, shape, data_offsets } = entry;
                let why = format!(
                    "tensor `{name}` is {dtype} {shape:?} at bytes {data_offsets:?} of {}, expected F32 of two dimensions \
                     and 4 bytes for each element, all within the data",
                    len - start
                );
                Err(Error::format(path, why))
            }
        };
        let mut values = header.tensors.into_iter().map(value).collect::<Result<IndexMap<_, _>, _>>()?;
        values.sort_by_key(|_, (_, at)| *at);
        Ok(Trace { path: path.to_owned(), file: Mutex::new(file), meta, is_trusted: false, values })
    }

    /// Marks a trace that this program's reference backend has just recorded; metadata would prove nothing.
    #[must_use]
    pub fn trusted(self) -> Trace {
        Trace { is_trusted: true, ..self }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its metadata.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// All values, in the order of computation.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Shape> {
        self.values.values().map(|(shape, _)| shape)
    }

    /// The value called `name`.
    pub fn value(&self, name: &str) -> Option<&Shape> {
        self.values.get(name).map(|(shape, _)| shape)
    }

    /// All rows of the value `name`, row-major; fails if there is no such value or the file cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, Error> {
        let rows = self.value(name).map_or(0, |shape| shape.rows);
        self.read_rows(name, 0..rows)
    }

    /// The same of some rows.
    pub fn read_rows(&self, name: &str, rows: Range<usize>) -> Result<Vec<f32>, Error> {
        let Some((shape, start)) = self.values.get(name) else {
            return Err(Error::value(&self.path, name, "is not in the trace"));
        };
        if rows.start > rows.end || rows.end > shape.rows {
            return Err(Error::value(&self.path, name, format!("has {} rows, not {rows:?}", shape.rows)));
        }
        let row_bytes = shape.cols * size_of::<f32>();
        let mut bytes = vec![0; rows.len() * row_bytes];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(start + (rows.start * row_bytes) as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(Error::io(&self.path, "read it"))?;
        Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    pub(crate) fn matrix(&self, name: &str, rows: Range<usize>) -> Result<Matrix, Error> {
        let cols = self.value(name).map_or(1, |shape| shape.cols);
        Ok(Matrix::new(cols, self.read_rows(name, rows)?))
    }
}

impl Entry {
    /// The shape, if this is a tensor of a trace within `len` bytes of data.
    fn check(&self, name: &str, len: u64) -> Option<Shape> {
        let ([rows, cols], [begin, end]) = (self.shape[..].try_into().ok()?, self.data_offsets);
        let shape = Shape { name: name.to_owned(), rows, cols };
        let bytes = shape.bytes()?;
        let is_whole = self.dtype == "F32" && end <= len && end.checked_sub(begin) == Some(bytes);
        is_whole.then_some(shape)
    }
}

impl Shape {
    /// Bytes of the data; `None` for 0 and on overflow.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let values = (self.rows as u64).checked_mul(self.cols as u64)?;
        values.checked_mul(size_of::<f32>() as u64).filter(|&bytes| bytes > 0)
    }
}
