//! Errors: what is wrong with a file, where, what was expected, and what to do.

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
    Split { file: String, problem: String },
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

/// Invalid content of a file. `place` has the offset of a tensor's entry in the list, otherwise that of the invalid byte.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}; {}", problem.advice())]
#[expect(missing_docs, reason = "the message says what the fields are")]
pub struct Fault {
    pub place: String,
    pub problem: Problem,
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
    fn advice(&self) -> &'static str {
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

/// A key has a value of another type or out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata key {} is {found}, expected {expected}", quoted(key))]
#[expect(missing_docs, reason = "the message says what the fields are")]
pub struct WrongType {
    pub key: String,
    pub found: String,
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
