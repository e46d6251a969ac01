//! Importance of columns, as `llama-imatrix` writes it: the mean squares of the inputs of each column on a
//! calibration text.
//!
//! A file is GGUF with `general.type` = `imatrix` and, for each tensor, the sums of squares `NAME.in_sum2` and their numbers of
//! terms `NAME.counts`. Or it is the older binary, little-endian: the number of entries; for each the length of its name,
//! the name, the number of chunks (0: unknown), the number of columns, and sums of mean squares over the chunks (f32);
//! then, unless the file ends, the number of chunks of the text, the length of its name, and the name. All numbers
//! except the sums are i32.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use gguf::{Gguf, Metadata, Tensor, WriteError, WrongType, quoted};
use indexmap::IndexMap;
use quant::Format;

use crate::quantize::error::Error;

/// Importance by tensor.
#[derive(Debug, Default)]
pub struct Imatrix {
    /// A weight for each column, finite and not negative.
    columns: IndexMap<String, Vec<f32>>,
    /// The name of the calibration text.
    pub dataset: Option<String>,
    /// Chunks of the text.
    pub chunks: Option<u32>,
}

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

type Checked<T> = Result<T, String>;

impl Imatrix {
    /// Reads a file of either kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Imatrix, Error> {
        let path = path.as_ref();
        let wrong = |why: String| Error::Imatrix { path: path.to_owned(), why };
        // A pipe would wait for a writer.
        if !path.metadata().map_err(|error| wrong(error.to_string()))?.is_file() {
            return Err(wrong("it is no regular file".into()));
        }
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        Imatrix::from_bytes(&bytes).map_err(wrong)
    }

    /// Reads the content of a file of either kind. Errors name the entry that is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Imatrix, String> {
        let imatrix = if bytes.starts_with(b"GGUF") {
            let file = Gguf::from_bytes(bytes.to_vec().into()).map_err(|error| error.to_string())?;
            from_gguf(&file)?
        } else {
            from_binary(bytes)?
        };
        if imatrix.columns.is_empty() { Err("it has no entries".into()) } else { Ok(imatrix) }
    }

    /// The weight of each column of the tensor `name`.
    pub fn get(&self, name: &str) -> Option<&[f32]> {
        self.columns.get(name).map(Vec::as_slice)
    }

    /// The tensors that have entries.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    fn insert(&mut self, name: String, columns: Vec<f32>) -> Checked<()> {
        if let Some(at) = columns.iter().position(|x| !x.is_finite() || *x < 0.0) {
            let (name, found) = (quoted(&name), columns[at]);
            return Err(format!(
                "{name}: column {at} has importance {found}; expected a finite number of at least 0"
            ));
        }
        let twice = format!("{} is there twice", quoted(&name));
        if self.columns.insert(name, columns).is_some() { Err(twice) } else { Ok(()) }
    }
}

fn from_gguf(file: &Gguf) -> Checked<Imatrix> {
    let metadata = file.metadata();
    let words = |error: WrongType| error.to_string();
    if metadata.str("general.type").map_err(words)? != Some("imatrix") {
        return Err("it is a GGUF file, but no imatrix: general.type is not \"imatrix\"".into());
    }
    let datasets = metadata.strings("imatrix.datasets").map_err(words)?;
    let mut imatrix = Imatrix {
        dataset: datasets.and_then(|names| names.first().cloned()),
        chunks: metadata.u32("imatrix.chunk_count").map_err(words)?,
        ..Imatrix::default()
    };
    for sums in file.tensors() {
        let Some(name) = sums.name.strip_suffix(SUMS) else { continue };
        let counts_name = format!("{name}{COUNTS}");
        let Some(counts) = file.tensor(&counts_name) else {
            return Err(format!("{} has no {}", quoted(&sums.name), quoted(&counts_name)));
        };
        let (mut columns, counts) = (values(sums)?, values(counts)?);
        if counts.is_empty() || columns.len() != counts.len() * sums.row_len() {
            let (name, rows, counts) = (quoted(&sums.name), sums.rows(), counts.len());
            return Err(format!("{name} has {rows} rows, its counts are {counts}"));
        }
        for (row, count) in columns.chunks_mut(sums.row_len()).zip(counts) {
            // A row without inputs gets equal weights.
            row.iter_mut().for_each(|sum| *sum = if count > 0.0 { *sum / count } else { 1.0 });
        }
        imatrix.insert(name.to_owned(), columns)?;
    }
    Ok(imatrix)
}

fn values(tensor: &Tensor) -> Checked<Vec<f32>> {
    if tensor.format != Format::F32 {
        return Err(format!("{} is in {}, expected F32", quoted(&tensor.name), tensor.format));
    }
    let mut values = vec![0.0; tensor.row_len() * tensor.rows()];
    tensor.format.dequantize(&tensor.data, &mut values);
    Ok(values)
}

fn from_binary(bytes: &[u8]) -> Checked<Imatrix> {
    let mut input = Input(bytes);
    let mut imatrix = Imatrix::default();
    let entries = input.number("the number of entries")?;
    for entry in 0..entries {
        let name = input.text(&format!("the name of entry {entry}"))?;
        let chunks = input.number(&format!("the chunks of {}", quoted(&name)))?;
        let columns = input.number(&format!("the columns of {}", quoted(&name)))?;
        if columns == 0 {
            return Err(format!("{} has no columns", quoted(&name)));
        }
        let bytes = input.bytes(u64::from(columns) * 4, &format!("the values of {}", quoted(&name)))?;
        let scale = if chunks > 0 { 1.0 / chunks as f32 } else { 1.0 };
        let columns = bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value) * scale).collect();
        imatrix.insert(name, columns)?;
    }
    if !input.0.is_empty() {
        imatrix.chunks = Some(input.number("the chunks of the text")?);
    }
    if !input.0.is_empty() {
        imatrix.dataset = Some(input.text("the name of the text")?.to_owned());
    }
    Ok(imatrix)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, len: u64, what: &str) -> Checked<&'a [u8]> {
        let left = self.0.len();
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let (bytes, rest) = split.ok_or_else(|| {
            format!("it is no imatrix, or not a whole one: {what} would be {len} bytes, and {left} are left")
        })?;
        self.0 = rest;
        Ok(bytes)
    }

    /// An i32 that is not negative.
    fn number(&mut self, what: &str) -> Checked<u32> {
        let bytes = self.bytes(4, what)?;
        let number = bytes.first_chunk().map_or(-1, |&bytes| i32::from_le_bytes(bytes));
        number.try_into().map_err(|_| format!("it is no imatrix: {what} is {number}"))
    }

    fn text(&mut self, what: &str) -> Checked<String> {
        let len = self.number(&format!("the length of {what}"))?;
        let text = str::from_utf8(self.bytes(len.into(), what)?);
        text.map(str::to_owned).map_err(|_| format!("it is no imatrix: {what} is no text"))
    }
}

/// The inputs of a tensor: for each of its matrices, the sums of their squares by column and how many there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSums {
    /// `[counts.len(), columns]`; with one count for several matrices, `[matrices, columns]`.
    pub sums: Vec<f32>,
    /// Inputs of each matrix, or of every matrix.
    pub counts: Vec<u64>,
}

/// What a calibration text showed, by tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The tensors, by name.
    pub tensors: BTreeMap<String, InputSums>,
    /// The name of the calibration text.
    pub dataset: String,
    /// Chunks of the text.
    pub chunks: u32,
    /// Tokens per chunk.
    pub chunk_size: u32,
}

impl Calibration {
    /// Writes a GGUF file. A count of 0 stays 0. Fails if `out` cannot be written, or a name is too long for GGUF.
    pub fn write_gguf(&self, out: impl Write) -> Result<(), WriteError> {
        let mut metadata = Metadata::default();
        metadata.insert("general.type", "imatrix");
        metadata.insert("imatrix.datasets", vec![self.dataset.clone()]);
        metadata.insert("imatrix.chunk_count", self.chunks);
        metadata.insert("imatrix.chunk_size", self.chunk_size);
        let tensor = |name: String, values: Vec<f32>, rows: usize| Tensor {
            name,
            shape: vec![values.len() / rows, rows],
            format: Format::F32,
            data: values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into(),
        };
        let tensors = self.tensors.iter().flat_map(|(name, InputSums { sums, counts })| {
            let terms = counts.iter().map(|&count| count as f32).collect();
            [
                tensor(format!("{name}{SUMS}"), sums.clone(), counts.len()),
                tensor(format!("{name}{COUNTS}"), terms, counts.len()),
            ]
        });
        gguf::write(out, &metadata, &tensors.collect::<Vec<_>>()).map(drop)
    }

    /// Writes the older binary, which has means only: tensors without inputs are left out, and matrices without get equal
    /// weights. Fails if `out` cannot be written, or a number exceeds an i32.
    pub fn write_dat(&self, mut out: impl Write) -> io::Result<()> {
        let number = |n: u64| {
            let n = i32::try_from(n).map_err(|_| io::Error::other(format!("{n} does not fit into the file")));
            n.map(i32::to_le_bytes)
        };
        let entries: Vec<_> =
            self.tensors.iter().filter(|(_, inputs)| inputs.counts.iter().any(|&count| count > 0)).collect();
        out.write_all(&number(entries.len() as u64)?)?;
        for (name, InputSums { sums, counts }) in entries {
            let most = counts.iter().copied().max().unwrap_or(0);
            let chunks = most.div_ceil(self.chunk_size.max(1).into());
            out.write_all(&number(name.len() as u64)?)?;
            out.write_all(name.as_bytes())?;
            out.write_all(&number(chunks)?)?;
            out.write_all(&number(sums.len() as u64)?)?;
            for (row, &count) in sums.chunks(sums.len() / counts.len()).zip(counts) {
                for sum in row {
                    let mean = if count > 0 { sum / count as f32 } else { 1.0 };
                    out.write_all(&(mean * chunks as f32).to_le_bytes())?;
                }
            }
        }
        out.write_all(&number(self.chunks.into())?)?;
        out.write_all(&number(self.dataset.len() as u64)?)?;
        out.write_all(self.dataset.as_bytes())
    }
}
