//! The header of a GGUF file: counts, metadata and tensor list.
//!
//! Layout (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>), all little-endian: magic `GGUF`, version u32,
//! tensor count, key count; the keys, each with name, value type u32 and value; the tensor list, each entry with name,
//! number of dimensions u32, dimensions (fastest first), type u32 and data offset u64; zero padding to the alignment;
//! the data, with each tensor at its offset. Counts, lengths and dimensions are u32 in version 1, else u64.

use std::collections::HashSet;
use std::ops::Range;

use quant::{Format, UnsupportedFormat};

use crate::cursor::{At, Cursor, Element};
use crate::error::{Fault, Problem, quoted};
use crate::metadata::Metadata;
use crate::tensor::byte_len;
use crate::value::Value;
use crate::{DEFAULT_ALIGNMENT, MAX_DIMS};

/// The parsed header; the data of every tensor is within the file.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    /// File offset of each value, in the order of `metadata`.
    value_offsets: Vec<u64>,
    pub(crate) alignment: u32,
    /// In file order.
    pub(crate) tensors: Vec<Info>,
}

#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) format: Result<Format, UnsupportedFormat>,
    /// File offset of the entry in the tensor list.
    at: u64,
    /// Bytes of the data, from the start of all data, after [`locate_data`] from that of the file; empty for an unknown format.
    pub(crate) data: Range<u64>,
}

impl Info {
    pub(crate) fn fault(&self, problem: Problem) -> Fault {
        tensor_fault(&self.name, self.at, problem)
    }
}

fn tensor_fault(name: &str, at: u64, problem: Problem) -> Fault {
    Fault { place: format!("tensor {} (info at offset {at:#x})", quoted(name)), problem }
}

impl Parsed {
    pub(crate) fn key_fault(&self, key: &str, problem: Problem) -> Fault {
        let found = self.metadata.iter().zip(&self.value_offsets).find(|((name, _), _)| *name == key);
        let offset = found.map_or(0, |(_, &offset)| offset);
        At { offset, problem }.in_item(key_item(key))
    }
}

pub(crate) fn key_item(key: &str) -> String {
    format!("metadata key {}", quoted(key))
}

pub(crate) const ALIGNMENT: &str = "general.alignment";

/// Parses and validates everything but the tensors' values.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Fault> {
    let mut cursor = Cursor::new(bytes);
    let (tensors, keys) = header(&mut cursor).map_err(|at| at.in_item("header"))?;
    let (metadata, value_offsets) = metadata(&mut cursor, keys)?;
    let mut parsed = Parsed {
        version: cursor.version,
        metadata,
        value_offsets,
        alignment: DEFAULT_ALIGNMENT,
        tensors: Vec::new(),
    };
    if let Some(value) = parsed.metadata.get(ALIGNMENT) {
        parsed.alignment = alignment(value).map_err(|problem| parsed.key_fault(ALIGNMENT, problem))?;
    }
    parsed.tensors = tensor_list(&mut cursor, tensors)?;
    locate_data(&mut parsed.tensors, cursor.offset, parsed.alignment.into(), bytes.len() as u64)?;
    Ok(parsed)
}

fn header(cursor: &mut Cursor) -> Result<(usize, usize), At> {
    if !cursor.rest.starts_with(b"GGUF") {
        return cursor.fail(Problem::NotGguf { found: describe(cursor.rest) });
    }
    cursor.take(4, "the magic")?;
    let version = cursor.u32("the version")?;
    cursor.version = match version {
        1..=3 => version,
        v if matches!(v.swap_bytes(), 1..=3) => return Err(At { offset: 4, problem: Problem::BigEndian }),
        v => return Err(At { offset: 4, problem: Problem::UnknownVersion(v) }),
    };
    let length = cursor.length_size();
    // The smallest tensor has a one-byte name, no dimensions, type and offset; the smallest key a one-byte name, value
    // type and a one-byte value. Both take well below the given amounts of memory.
    let tensors = cursor.count("tensors", length + 17, 512)?;
    let keys = cursor.count("keys", length + 6, 192)?;
    Ok((tensors, keys))
}

/// Guesses the type of a file that is not GGUF by its first bytes.
fn describe(bytes: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 7] = [
        (b"lmgg", "an old GGML file"),
        (b"tjgg", "an old GGML file"),
        (b"fmgg", "an old GGML file"),
        (b"PK\x03\x04", "a zip archive or PyTorch checkpoint"),
        (b"version https://git-lfs", "a Git LFS pointer in place of the model (run `git lfs pull`)"),
        (b"<!", "a web page (a failed download?)"),
        (b"<html", "a web page (a failed download?)"),
    ];
    match KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, what)) => (*what).to_owned(),
        None if bytes.is_empty() => "an empty file".to_owned(),
        None if bytes.get(8..10) == Some(b"{\"") => "a safetensors file".to_owned(),
        None => format!("bytes \"{}\"", bytes.get(..4).unwrap_or(bytes).escape_ascii()),
    }
}

fn metadata(cursor: &mut Cursor, keys: usize) -> Result<(Metadata, Vec<u64>), Fault> {
    let mut metadata = Metadata::default();
    let mut offsets = Vec::with_capacity(keys);
    for number in 1..=keys {
        let at = cursor.offset;
        let nameless = |at: At| at.in_item(format_args!("metadata key {number} of {keys}"));
        let key = cursor.name("a key").map_err(nameless)?;
        let fault = |at: At| at.in_item(key_item(&key));
        offsets.push(cursor.offset);
        let value = Value::read(cursor).map_err(fault)?;
        if metadata.contains(&key) {
            return Err(fault(At { offset: at, problem: Problem::Duplicate }));
        }
        metadata.insert(key, value);
    }
    Ok((metadata, offsets))
}

/// Checks the value of `general.alignment`, the only key whose integer width the format fixes.
pub(crate) fn alignment(value: &Value) -> Result<u32, Problem> {
    match *value {
        Value::U32(alignment) if alignment.is_power_of_two() => Ok(alignment),
        ref other => {
            Err(Problem::WrongType { found: other.to_string(), expected: "a u32 that is a power of two" })
        }
    }
}

fn tensor_list(cursor: &mut Cursor, tensors: usize) -> Result<Vec<Info>, Fault> {
    let mut infos: Vec<Info> = Vec::with_capacity(tensors);
    for number in 1..=tensors {
        let at = cursor.offset;
        let nameless = |at: At| at.in_item(format_args!("tensor {number} of {tensors}"));
        let name = cursor.name("a tensor name").map_err(nameless)?;
        let (shape, format, data) = layout(cursor).map_err(|error| tensor_fault(&name, at, error.problem))?;
        infos.push(Info { name, shape, format, at, data });
    }
    let mut names = HashSet::with_capacity(tensors);
    match infos.iter().find(|info| !names.insert(&info.name)) {
        Some(twice) => Err(twice.fault(Problem::Duplicate)),
        None => Ok(infos),
    }
}

/// Shape, format, and data, counted from the start of all data.
type TensorLayout = (Vec<usize>, Result<Format, UnsupportedFormat>, Range<u64>);

fn layout(cursor: &mut Cursor) -> Result<TensorLayout, At> {
    let dims = cursor.u32("the number of dimensions")?;
    if dims as usize > MAX_DIMS {
        return cursor.fail(Problem::TooManyDims(dims));
    }
    let mut shape = Vec::with_capacity(MAX_DIMS);
    for _ in 0..dims {
        shape.push(cursor.length("a dimension")?);
    }
    let format = Format::from_id(cursor.u32("the tensor type")?);
    let start = u64::read(cursor, "the tensor offset", 0)?;
    let len = format.as_ref().map_or(Ok(0), |&format| byte_len(&shape, format));
    let len = len.or_else(|problem| cursor.fail(problem))?;
    let Ok(shape) = shape.iter().map(|&dim| usize::try_from(dim)).collect() else {
        return cursor.fail(Problem::Overflow(shape));
    };
    Ok((shape, format, start..start.saturating_add(len)))
}

/// Makes the ranges of data relative to the start of the file. Checks that they are aligned, within the file and disjoint.
fn locate_data(infos: &mut [Info], list_end: u64, alignment: u64, file_len: u64) -> Result<(), Fault> {
    let data_start = list_end.next_multiple_of(alignment);
    for info in &mut *infos {
        let Range { start: offset, end } = info.data;
        if !offset.is_multiple_of(alignment) {
            return Err(info.fault(Problem::Misaligned { offset, alignment }));
        }
        let (start, end) = (data_start.saturating_add(offset), data_start.saturating_add(end));
        if end > file_len {
            return Err(info.fault(Problem::PastEnd { start, end, file_len }));
        }
        info.data = start..end;
    }
    let mut by_start: Vec<&Info> = infos.iter().collect();
    by_start.sort_by_key(|info| info.data.start);
    for (before, after) in by_start.iter().zip(by_start.iter().skip(1)) {
        if before.data.end > after.data.start {
            return Err(after.fault(Problem::Overlap { other: before.name.clone() }));
        }
    }
    Ok(())
}
