//! Writing a trace while its values are computed.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use gguf::output::{OutFile, Target};
use indexmap::IndexMap;

use crate::trace::{Entry, Header};
use crate::{Error, Meta, Shape, Trace};

/// A trace being written: an [`OutFile`], so that a file of the final name is a whole trace. Rows come in any order.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: OutFile,
    values: IndexMap<String, Written>,
}

/// A value, the offset of its data, and the rows written so far: `true`, up to the last.
#[derive(Debug)]
struct Written {
    shape: Shape,
    start: u64,
    rows: Vec<bool>,
}

impl Writer {
    /// The target `path`; fails if a file is there that is no trace.
    pub fn target(path: &Path) -> Result<Target, gguf::output::Error> {
        Target::new(path, "trace", |path| Trace::open(path).is_ok())
    }

    /// Begins a trace of `values`, in this order. Fails if the file cannot be written, or a value is empty or named twice.
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
        let header = serde_json::to_vec(&header).map_err(io::Error::from);
        let mut header = header.map_err(Error::io(path, "write its header"))?;
        // Data is aligned to 8 bytes, as by other writers of the format.
        header.resize(header.len().next_multiple_of(8), b' ');
        let start = 8 + header.len() as u64;
        written.values_mut().for_each(|value: &mut Written| value.start += start);

        let file = target.create_seekable()?;
        let mut writer = Writer { path: path.to_owned(), file, values: written };
        writer.write_at(0, &(header.len() as u64).to_le_bytes())?;
        writer.write_at(8, &header)?;
        Ok(writer)
    }

    /// Writes whole rows of the value `name`, from row `first` on. Fails if these were not announced or were written before.
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
        let end = value.rows.len().max(first + given);
        value.rows.resize(end, false);
        let rows = &mut value.rows[first..first + given];
        if rows.contains(&true) {
            let why = format!("was given rows of {first} to {} before", first + given - 1);
            return Err(Error::value(&self.path, name, why));
        }
        rows.fill(true);
        let at = value.start + (first * cols * size_of::<f32>()) as u64;
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.write_at(at, &bytes)
    }

    /// Ends the trace and gives the file its name; fails if rows are missing or the file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        for Written { shape: Shape { name, rows, .. }, rows: written, .. } in self.values.values() {
            let count = written.iter().filter(|written| **written).count();
            if count != *rows {
                let why = format!("has {rows} rows, but {count} were written");
                return Err(Error::value(&self.path, name, why));
            }
        }
        Ok(self.file.finish()?)
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file
            .seek(SeekFrom::Start(at))
            .and_then(|_| self.file.write_all(bytes))
            .map_err(Error::io(&self.path, "write it"))
    }
}
