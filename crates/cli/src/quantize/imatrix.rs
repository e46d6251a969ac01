//! Importance of columns, as `llama-imatrix` writes it: the mean squares of what each column met on a
//! calibration text.
//!
//! A file is GGUF with `general.type` = `imatrix` and for each tensor `NAME.in_sum2`, sums of squares, and
//! `NAME.counts`, how many were summed; or the older binary, little-endian: the number of entries, and for
//! each the length of its name, the name, the number of chunks (0: unknown), the number of columns and
//! sums of mean squares over the chunks (f32); then, where it does not end, the number of chunks of the text, the length of its name, and
//! the name. All numbers but the sums are i32.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use gguf::{Gguf, Tensor, quoted};
use indexmap::IndexMap;
use quant::Format;

/// Importance by tensor.
#[derive(Debug, Default)]
pub(crate) struct Imatrix {
    /// A weight for each column, finite and not negative.
    columns: IndexMap<String, Vec<f32>>,
    /// The text that was calibrated on.
    pub(crate) dataset: Option<String>,
    /// Chunks of the text.
    pub(crate) chunks: Option<u32>,
}

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

impl Imatrix {
    /// Reads a file of either kind.
    ///
    /// # Errors
    /// With the file and the entry that is wrong.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Imatrix> {
        let named = || format!("--imatrix {}", path.display());
        // A pipe would wait for its other end.
        ensure!(path.metadata().with_context(named)?.is_file(), "{}: it is no regular file", named());
        let mut magic = [0; 4];
        let is_gguf =
            File::open(path).with_context(named)?.read_exact(&mut magic).is_ok() && magic == *b"GGUF";
        let imatrix = if is_gguf { from_gguf(&Gguf::open(path)?) } else { from_binary(path) };
        let imatrix = imatrix.with_context(named)?;
        ensure!(!imatrix.columns.is_empty(), "{}: it has no entries", named());
        Ok(imatrix)
    }

    /// The columns of the tensor `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&[f32]> {
        self.columns.get(name).map(Vec::as_slice)
    }

    /// The tensors that it knows.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    fn insert(&mut self, name: String, columns: Vec<f32>) -> anyhow::Result<()> {
        if let Some(at) = columns.iter().position(|x| !x.is_finite() || *x < 0.0) {
            bail!(
                "{}: column {at} has importance {}; expected are finite numbers from 0",
                quoted(&name),
                columns[at]
            );
        }
        if self.columns.contains_key(&name) {
            bail!("{} is there twice", quoted(&name));
        }
        self.columns.insert(name, columns);
        Ok(())
    }
}

fn from_gguf(file: &Gguf) -> anyhow::Result<Imatrix> {
    let metadata = file.metadata();
    let kind = metadata.str("general.type")?;
    ensure!(kind == Some("imatrix"), "it is a GGUF file, but no imatrix: general.type is not \"imatrix\"");
    let mut imatrix = Imatrix {
        dataset: metadata.strings("imatrix.datasets")?.and_then(|names| names.first().cloned()),
        chunks: metadata.u32("imatrix.chunk_count")?,
        ..Imatrix::default()
    };
    for sums in file.tensors() {
        let Some(name) = sums.name.strip_suffix(SUMS) else { continue };
        let Some(counts) = file.tensor(&format!("{name}{COUNTS}")) else {
            bail!("{} has no {}", quoted(&sums.name), quoted(&format!("{name}{COUNTS}")));
        };
        let (mut columns, counts) = (values(sums)?, values(counts)?);
        ensure!(
            !counts.is_empty() && columns.len() == counts.len() * sums.row_len(),
            "{} has {} rows, its counts are {}",
            quoted(&sums.name),
            sums.rows(),
            counts.len()
        );
        for (row, count) in columns.chunks_mut(sums.row_len()).zip(counts) {
            // What was never met counts the same everywhere.
            row.iter_mut().for_each(|sum| *sum = if count > 0.0 { *sum / count } else { 1.0 });
        }
        imatrix.insert(name.to_owned(), columns)?;
    }
    Ok(imatrix)
}

fn values(tensor: &Tensor) -> anyhow::Result<Vec<f32>> {
    ensure!(tensor.format == Format::F32, "{} is in {}, expected F32", quoted(&tensor.name), tensor.format);
    let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
    tensor.format.dequantize(&tensor.data, &mut values);
    Ok(values)
}

/// The older format. Nothing is allocated that the file is too short for.
fn from_binary(path: &Path) -> anyhow::Result<Imatrix> {
    let file = File::open(path)?;
    ensure!(file.metadata()?.is_file(), "it is no file");
    let mut input = Input { left: file.metadata()?.len(), file: BufReader::new(file) };
    let mut imatrix = Imatrix::default();
    let entries = input.number("the number of entries")?;
    for entry in 0..entries {
        let name = input.text(&format!("the name of entry {entry}"))?;
        let chunks = input.number(&format!("the chunks of {}", quoted(&name)))?;
        let columns = input.number(&format!("the columns of {}", quoted(&name)))?;
        ensure!(columns > 0, "{} has no columns", quoted(&name));
        let bytes = input.bytes(u64::from(columns) * 4, &format!("the values of {}", quoted(&name)))?;
        let scale = if chunks > 0 { 1.0 / chunks as f32 } else { 1.0 };
        let columns = bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value) * scale).collect();
        imatrix.insert(name, columns)?;
    }
    if input.left > 0 {
        imatrix.chunks = Some(input.number("the chunks of the text")?);
    }
    if input.left > 0 {
        imatrix.dataset = Some(input.text("the name of the text")?);
    }
    Ok(imatrix)
}

struct Input {
    file: BufReader<File>,
    /// Bytes that are not read yet.
    left: u64,
}

impl Input {
    fn bytes(&mut self, len: u64, what: &str) -> anyhow::Result<Vec<u8>> {
        ensure!(
            len <= self.left,
            "it is no imatrix, or not a whole one: {what} would be {len} bytes, and {} are left",
            self.left
        );
        self.left -= len;
        let mut bytes = Vec::new();
        let read = self.file.by_ref().take(len).read_to_end(&mut bytes)?;
        if read as u64 != len {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(bytes)
    }

    /// An i32 that is not negative.
    fn number(&mut self, what: &str) -> anyhow::Result<u32> {
        let bytes = self.bytes(4, what)?;
        let number = bytes.first_chunk().map_or(-1, |&bytes| i32::from_le_bytes(bytes));
        number.try_into().with_context(|| format!("it is no imatrix: {what} is {number}"))
    }

    fn text(&mut self, what: &str) -> anyhow::Result<String> {
        let len = self.number(&format!("the length of {what}"))?;
        let bytes = self.bytes(len.into(), what)?;
        String::from_utf8(bytes).with_context(|| format!("it is no imatrix: {what} is no text"))
    }
}
