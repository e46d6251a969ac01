//! Writing a trace as its values come.

use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use outfile::{OutFile, Target};

use crate::trace::{Entry, Header};
use crate::{Error, Meta, Shape, Trace};

/// A trace being written. The values' shapes are known before their numbers, so rows go to their places
/// as they come, in any order; nothing is held in memory.
///
/// It is an [`OutFile`]: one of the name asked for is a whole trace.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: OutFile,
    values: IndexMap<String, Written>,
}

/// A value, where its data begins, and which of its rows are there: ranges, rising, none beside another.
#[derive(Debug)]
struct Written {
    shape: Shape,
    start: u64,
    rows: Vec<Range<usize>>,
}

impl Written {
    /// Adds rows; whether none of them were there.
    fn add(&mut self, rows: Range<usize>) -> bool {
        if rows.is_empty() {
            return true;
        }
        let at = self.rows.partition_point(|before| before.end <= rows.start);
        if self.rows.get(at).is_some_and(|after| after.start < rows.end) {
            return false;
        }
        self.rows.insert(at, rows);
        // Those of one chunk follow those of the last.
        self.rows.dedup_by(|next, last| {
            let joined = last.end == next.start;
            if joined {
                last.end = next.end;
            }
            joined
        });
        true
    }

    fn count(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }
}

impl Writer {
    /// The name `path` for a trace: nothing is there, or another trace.
    ///
    /// # Errors
    /// When there is something else.
    pub fn target(path: &Path) -> Result<Target, outfile::Error> {
        Target::new(path, "trace", |path| Trace::open(path).is_ok())
    }

    /// Begins a trace at `path` that will hold `values`, in this order.
    ///
    /// # Errors
    /// When the file cannot be written, there is another that is no trace, a value has no rows or no columns, or two have one name.
    pub fn create(
        path: impl AsRef<Path>,
        meta: &Meta,
        values: impl IntoIterator<Item = Shape>,
    ) -> Result<Writer, Error> {
        let path = path.as_ref();
        let target = Writer::target(path)?;
        let mut tensors = IndexMap::new();
        let mut written = IndexMap::new();
        let mut end = 0u64;
        for shape in values {
            let refuse = |why| Err(Error::value(path, &shape.name, why));
            let Some(next) = shape.bytes().and_then(|bytes| end.checked_add(bytes)) else {
                return refuse("is empty or too large");
            };
            let entry =
                Entry { dtype: "F32".into(), shape: vec![shape.rows, shape.cols], data_offsets: [end, next] };
            if tensors.insert(shape.name.clone(), entry).is_some() {
                return refuse("is named twice");
            }
            written.insert(shape.name.clone(), Written { shape, start: end, rows: Vec::new() });
            end = next;
        }
        let header = Header { metadata: meta.to_map(), tensors };
        let mut header =
            serde_json::to_vec(&header).map_err(|error| Error::io(path, "write its header", error.into()))?;
        // Data is aligned to 8 bytes, as the format's other writers do.
        header.resize(header.len().next_multiple_of(8), b' ');
        let start = 8 + header.len() as u64;
        written.values_mut().for_each(|value: &mut Written| value.start += start);

        let file = target.create_seekable()?;
        let mut writer = Writer { path: path.to_owned(), file, values: written };
        writer.write_at(0, &(header.len() as u64).to_le_bytes())?;
        writer.write_at(8, &header)?;
        Ok(writer)
    }

    /// Writes rows of the value called `name`, whole ones, from row `first` on.
    ///
    /// # Errors
    /// When the value was not announced, has no such rows or was given them before, or the file cannot be written.
    pub fn write(&mut self, name: &str, first: usize, data: &[f32]) -> Result<(), Error> {
        let Some(value) = self.values.get_mut(name) else {
            return Err(Error::value(&self.path, name, "was not announced"));
        };
        let Shape { rows, cols, .. } = value.shape;
        let given = data.len() / cols;
        if given * cols != data.len() || first > rows || given > rows - first {
            let why = format!("has {rows} rows of {cols}, not {} values from row {first} on", data.len());
            return Err(Error::value(&self.path, name, why));
        }
        if !value.add(first..first + given) {
            let why = format!("was given rows of {first} to {} before", first + given - 1);
            return Err(Error::value(&self.path, name, why));
        }
        let at = value.start + (first * cols * size_of::<f32>()) as u64;
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.write_at(at, &bytes)
    }

    /// Ends the trace and gives the file its name.
    ///
    /// # Errors
    /// When rows are missing or the file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        if let Some(value) = self.values.values().find(|value| value.count() != value.shape.rows) {
            let Shape { name, rows, .. } = &value.shape;
            let why = format!("has {rows} rows, but {} were written", value.count());
            return Err(Error::value(&self.path, name, why));
        }
        Ok(self.file.finish()?)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(|error| Error::io(&self.path, "write it", error))
    }
}
