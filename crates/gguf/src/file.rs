//! An open model: one file, or the parts of a split one.

use std::path::Path;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::error::{Error, SplitProblem};
use crate::metadata::Metadata;
use crate::part::{Loaded, Part};
use crate::split;
use crate::tensor::Tensor;
use crate::version::Version;

/// A model's metadata and tensors. The files stay mapped while this or any tensor's data lives.
#[derive(Debug)]
pub struct Gguf {
    version: Version,
    alignment: u32,
    metadata: Metadata,
    tensors: IndexMap<String, Tensor>,
    parts: Vec<Part>,
}

impl Gguf {
    /// Maps and checks the file at `path`. For the first part of a split model, finds the other parts
    /// beside it: the result is the whole model.
    ///
    /// A file that another program truncates while it is mapped kills the process with SIGBUS, unless the program has
    /// called [`survive_truncation`](crate::survive_truncation); [`Gguf::read`] has no such risk.
    ///
    /// # Errors
    /// The file cannot be read or is not valid, or parts of a split model are missing or do not match.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::load(path.as_ref(), Loaded::map)
    }

    /// As [`Gguf::open`], with a copy of the files in memory instead of a mapping: what happens to them later changes
    /// nothing.
    ///
    /// # Errors
    /// As those of [`Gguf::open`], and when there is no room.
    pub fn read(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::load(path.as_ref(), Loaded::read)
    }

    fn load(path: &Path, load: fn(&Path) -> Result<Loaded, Error>) -> Result<Gguf, Error> {
        let first = load(path)?;
        let others = split::load_others(path, &first, load)?;
        Gguf::assemble(first, others)
    }

    /// Checks a file that is already in memory; tensors are slices of `bytes`.
    ///
    /// # Errors
    /// The data is not valid, or is a part of a split model.
    pub fn from_bytes(bytes: Bytes) -> Result<Gguf, Error> {
        Gguf::from_named_bytes("GGUF data in memory", bytes)
    }

    /// As [`Gguf::from_bytes`], with what messages and [`Gguf::file`] call the data.
    ///
    /// # Errors
    /// The data is not valid, or is a part of a split model.
    pub fn from_named_bytes(name: &str, bytes: Bytes) -> Result<Gguf, Error> {
        let part = Part { file: name.to_owned(), bytes, map: None };
        let first = Loaded::parse(part)?;
        split::refuse(&first)?;
        Gguf::assemble(first, Vec::new())
    }

    fn assemble(first: Loaded, others: Vec<Loaded>) -> Result<Gguf, Error> {
        let mut gguf = Gguf {
            version: first.parsed.version,
            alignment: first.parsed.alignment,
            metadata: Metadata::default(),
            tensors: IndexMap::new(),
            parts: Vec::new(),
        };
        let is_split = !others.is_empty();
        for Loaded { part, parsed } in std::iter::once(first).chain(others) {
            gguf.tensors.reserve(parsed.tensors.len());
            for info in parsed.tensors {
                let data = part.bytes.slice(info.range);
                let tensor = Tensor { name: info.name, shape: info.shape, format: info.format, data };
                if let Some(twice) = gguf.tensors.insert(tensor.name.clone(), tensor) {
                    let problem = SplitProblem::Duplicate { name: twice.name };
                    return Err(Error::Split { file: part.file, problem });
                }
            }
            if gguf.parts.is_empty() {
                gguf.metadata = parsed.metadata;
            }
            gguf.parts.push(part);
        }
        if is_split {
            for key in split::KEYS {
                gguf.metadata.remove(key);
            }
        }
        Ok(gguf)
    }

    /// The format version of the file (of the first part).
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes to whose multiples data is aligned in the file (in the first part).
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Keys and values. Those of a split model are its first part's without the keys `split.*`, which
    /// are about files and not about the model.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Every tensor in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.tensors.values()
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The file as messages name it: the path given (of the first part), or the name of data in memory.
    pub fn file(&self) -> &str {
        self.parts.first().map_or("", |part| &part.file)
    }

    /// Every file of the model with its length in bytes, first part first.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.parts.iter().map(|part| (part.file.as_str(), part.len()))
    }

    /// Bytes of all files together.
    pub fn file_len(&self) -> u64 {
        self.parts.iter().map(Part::len).sum()
    }

    /// The bytes of every file of the model, first part first.
    pub fn contents(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.parts.iter().map(|part| &*part.bytes)
    }

    /// Whether all bytes read so far were the file's.
    ///
    /// Another program may truncate a mapped file, which reads as zeroes from then on, or write into it; a long-running
    /// reader asks here before it trusts what it computed.
    ///
    /// # Errors
    /// [`Error::TruncatedInUse`] and [`Error::ModifiedInUse`] name the file.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.parts.iter().try_for_each(Part::check_intact)
    }

    /// Gives the memory that `data`, a tensor's, takes back to the system, as far as it comes from a mapped
    /// file. Nothing changes but time: what is read again comes from the file again.
    pub fn release(&self, data: &[u8]) {
        let start = |bytes: &[u8]| bytes.as_ptr().addr();
        for part in &self.parts {
            let offset = start(data).checked_sub(start(&part.bytes)).filter(|&at| at < part.bytes.len());
            if let (Some(map), Some(offset)) = (&part.map, offset) {
                map.release(offset..offset + data.len());
            }
        }
    }
}
