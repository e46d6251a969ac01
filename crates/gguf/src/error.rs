//! Errors: what is wrong with a file, where, what was expected, and what to do.

use std::fmt;
use std::io;

use quant::{Format, UnsupportedFormat};

use crate::{MAX_ARRAY_DEPTH, MAX_DIMS, MAX_METADATA_BYTES, MAX_NAME_BYTES};

/// A file that cannot be opened, or whose content is invalid.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
#[non_exhaustive]
pub enum Error {
    #[error("{file}: cannot {action}: {source}")]
    Io { file: String, action: &'static str, source: io::Error },
    #[error("{file}: this is not a regular file; give the path of a .gguf file")]
    NotAFile { file: String },
    #[error("{file}: {fault}")]
    Malformed { file: String, fault: Fault },
    #[error("{file}: {problem}")]
    Split { file: String, problem: SplitProblem },
    /// Zeros may have been read since.
    #[error(
        "{file}: the file was truncated while in use (it had {expected} bytes, now {found}), or part of it \
         could not be read; results since then are wrong; restore the file and restart the program"
    )]
    TruncatedInUse { file: String, expected: u64, found: u64 },
    #[error(
        "{file}: the file was modified while in use; results since then may mix old and new content; \
         restart the program, and replace model files with `mv`, which creates a new file, not with `cp`, which overwrites"
    )]
    ModifiedInUse { file: String },
}

/// Invalid content of a file, and its location.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{item} ({}at offset {offset:#x}): {problem}; {}", if matches!(item, Item::Tensor(_)) { "info " } else { "" }, problem.advice())]
pub struct Fault {
    /// The affected part of the file.
    pub item: Item,
    /// Location in the file: for a tensor the start of its entry in the tensor list, otherwise the invalid byte.
    pub offset: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// The part of a file that a fault is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Magic, version and counts.
    Header,
    /// A key whose name could not be read: its number, from 1, and the number of keys.
    KeyNumber(u64, u64),
    /// A metadata key.
    Key(String),
    /// A tensor whose name could not be read: its number, from 1, and the number of tensors.
    TensorNumber(u64, u64),
    /// A tensor.
    Tensor(String),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Header => write!(f, "header"),
            Item::KeyNumber(number, of) => write!(f, "metadata key {number} of {of}"),
            Item::Key(name) => write!(f, "metadata key {}", quoted(name)),
            Item::TensorNumber(number, of) => write!(f, "tensor {number} of {of}"),
            Item::Tensor(name) => write!(f, "tensor {}", quoted(name)),
        }
    }
}

/// A problem of a file's content.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
#[non_exhaustive]
pub enum Problem {
    #[error("found {found}, expected the magic \"GGUF\"")]
    NotGguf { found: String },
    #[error("the file is big-endian; only little-endian files are supported")]
    BigEndian,
    #[error("version {0} is unknown; supported versions: 1, 2 and 3")]
    UnknownVersion(u32),
    #[error("the file ends inside {what}: {needed} bytes needed, {left} left")]
    Truncated { what: &'static str, needed: u64, left: u64 },
    #[error("claims {count} {what}, more than the {left} bytes left in the file can hold")]
    Count { what: &'static str, count: u64, left: u64 },
    #[error("the name is empty")]
    EmptyName,
    #[error("the name has {0} bytes, at most {max} are allowed", max = MAX_NAME_BYTES)]
    LongName(u64),
    #[error("{what} is not valid UTF-8 (byte {at})")]
    BadUtf8 { what: &'static str, at: u64 },
    #[error("the name is already used")]
    Duplicate,
    #[error("value type {0} is unknown; known types: 0 to 12")]
    UnknownValueType(u32),
    #[error("a bool is stored as {0}, expected 0 or 1")]
    BadBool(u8),
    #[error("arrays are nested deeper than {max}", max = MAX_ARRAY_DEPTH)]
    TooDeep,
    #[error("names, metadata and tensor list take more than {} MiB, far beyond any real model", MAX_METADATA_BYTES >> 20)]
    TooLarge,
    #[error("found {found}, expected {expected}")]
    WrongType { found: String, expected: &'static str },
    #[error("has {0} dimensions, at most {max} are allowed", max = MAX_DIMS)]
    TooManyDims(u32),
    #[error("dimensions {0:?} contain a zero")]
    ZeroDim(Vec<u64>),
    #[error("dimensions {0:?} overflow")]
    Overflow(Vec<u64>),
    #[error("rows of {row_len} values are not whole {format} blocks of {block_len}", block_len = format.block_len())]
    PartialBlock { row_len: u64, format: Format },
    #[error(transparent)]
    UnsupportedFormat(#[from] UnsupportedFormat),
    #[error("offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned { offset: u64, alignment: u64 },
    #[error("data at bytes {start} to {end} is beyond the end of the file ({file_len} bytes)")]
    PastEnd { start: u64, end: u64, file_len: u64 },
    #[error("data overlaps the data of tensor {}", quoted(other))]
    Overlap { other: String },
}

impl Problem {
    /// Advice for the user.
    pub fn advice(&self) -> &'static str {
        match self {
            Problem::NotGguf { .. } => "give a GGUF file, or convert the model to GGUF",
            Problem::BigEndian => "convert the model to a little-endian file",
            Problem::UnknownVersion(_) => {
                "the file is damaged or newer than this program; update the program, or convert the model again"
            }
            Problem::UnsupportedFormat(_) => "convert or quantise the model to a supported type",
            Problem::Truncated { .. } | Problem::Count { .. } | Problem::PastEnd { .. } => {
                "the file is incomplete or damaged; download or convert it again"
            }
            _ => "the file is damaged or was written by a faulty tool; download or convert it again",
        }
    }
}

impl From<WrongType> for Problem {
    fn from(WrongType { found, expected, .. }: WrongType) -> Problem {
        Problem::WrongType { found, expected }
    }
}

/// Why the parts of a split model do not match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
#[non_exhaustive]
pub enum SplitProblem {
    #[error("this is part {part} of a model split into {count} files; open the first part, {first}")]
    NotFirst { part: u32, count: u32, first: String },
    #[error(
        "this is the first of {count} parts, which are found by name; rename it back to its original name, which ended with {expected}"
    )]
    Name { count: u32, expected: String },
    #[error("the model is split into {count} files and {missing}; download them into the same folder")]
    Missing { count: u32, missing: String },
    #[error(
        "contains part {found}, but its name says {expected}; the file was renamed or belongs to another model"
    )]
    Number { found: u32, expected: u32 },
    #[error(
        "belongs to a model of {found} files, the first part to one of {expected}; parts of different models are mixed"
    )]
    Count { found: u32, expected: u32 },
    #[error(
        "the parts contain {found} tensors, but split.tensors.count is {expected}; parts of different models are mixed"
    )]
    Tensors { found: u64, expected: u64 },
    #[error("tensor {} is also in an earlier part; parts of different models are mixed", quoted(name))]
    Duplicate { name: String },
    #[error("this is part of a model split into {count} files; open it by its path")]
    InMemory { count: u32 },
}

/// A key has a value of another type or out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata key {} is {found}, expected {expected}", quoted(key))]
pub struct WrongType {
    /// The key.
    pub key: String,
    /// The value found, such as `string "abc"`.
    pub found: String,
    /// The expected type, such as `a bool`.
    pub expected: &'static str,
}

/// `text` in quotes, truncated to 80 characters and with control characters escaped, so that untrusted text is safe in
/// messages and terminals.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("{:?}…", &text[..cut]),
        None => format!("{text:?}"),
    }
}
