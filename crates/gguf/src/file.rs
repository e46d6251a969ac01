//! An open model: a single file or the parts of a split one.

use std::path::Path;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::error::{Error, SplitProblem};
use crate::metadata::Metadata;
use crate::parse::Info;
use crate::part::{Loaded, Part};
use crate::split;
use crate::tensor::{Tensor, UnsupportedTensor};
use crate::value::Value;

/// A model's metadata and tensors. Files stay mapped as long as this value or the data of any tensor lives.
#[derive(Debug)]
pub struct Gguf {
    version: u32,
    alignment: u32,
    metadata: Metadata,
    tensors: IndexMap<String, Tensor>,
    parts: Vec<Part>,
}

impl Gguf {
    /// Maps and validates the file at `path`. If it is the first part of a split model, also opens the other parts in
    /// the same folder, which must be complete and belong together; the result is the whole model.
    ///
    /// If another program truncates the mapped file, SIGBUS kills the process, unless the program has
    /// called [`survive_truncation`](crate::survive_truncation). [`Gguf::read`] avoids this risk.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::load(path.as_ref(), Loaded::map, None)
    }

    /// As [`Gguf::open`], but sets tensors in unknown formats aside. They are not among [`Gguf::tensors`], so that the result
    /// is for listing what the file contains.
    pub fn inspect(path: impl AsRef<Path>) -> Result<(Gguf, Vec<UnsupportedTensor>), Error> {
        let mut unsupported = Vec::new();
        let gguf = Gguf::load(path.as_ref(), Loaded::map, Some(&mut unsupported))?;
        Ok((gguf, unsupported))
    }

    /// As [`Gguf::open`], but reads the files into memory instead of mapping them, so that later changes of the files
    /// have no effect.
    pub fn read(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::load(path.as_ref(), Loaded::read, None)
    }

    fn load(
        path: &Path,
        load: fn(&Path) -> Result<Loaded, Error>,
        unsupported: Option<&mut Vec<UnsupportedTensor>>,
    ) -> Result<Gguf, Error> {
        let first = load(path)?;
        let others = split::load_others(path, &first, load)?;
        Gguf::assemble(first, others, unsupported)
    }

    /// Validates a file in memory, but not a part of a split model; tensors are slices of `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Result<Gguf, Error> {
        Gguf::from_named_bytes("GGUF data in memory", bytes)
    }

    /// As [`Gguf::from_bytes`], with a name for the data in messages and [`Gguf::file`].
    pub fn from_named_bytes(name: &str, bytes: Bytes) -> Result<Gguf, Error> {
        let part = Part { file: name.to_owned(), bytes, map: None };
        let first = Loaded::parse(part)?;
        split::refuse(&first)?;
        Gguf::assemble(first, Vec::new(), None)
    }

    /// Tensors in unknown formats go to `unsupported`; without it, they are an error.
    fn assemble(
        first: Loaded,
        others: Vec<Loaded>,
        mut unsupported: Option<&mut Vec<UnsupportedTensor>>,
    ) -> Result<Gguf, Error> {
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
                let format = match (&info.format, &mut unsupported) {
                    (Ok(format), _) => *format,
                    (Err(format), Some(unsupported)) => {
                        let (index, format) = (gguf.tensors.len() + unsupported.len(), *format);
                        let Info { name, shape, .. } = info;
                        unsupported.push(UnsupportedTensor { index, name, shape, format });
                        continue;
                    }
                    (Err(format), None) => {
                        let fault = info.fault((*format).into());
                        return Err(Error::Malformed { file: part.file, fault });
                    }
                };
                let data = part.bytes.slice(info.range);
                let tensor = Tensor { name: info.name, shape: info.shape, format, data };
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

    /// The format version of the file (of the first part), 1 to 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in the file (in the first part), in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Keys and values; for a split model those of the first part, without the keys `split.*`, which describe files and
    /// not the model.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Replaces a value of [`metadata`](Self::metadata); the file stays as it is.
    pub fn override_metadata(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata.insert(key, value);
    }

    /// Every tensor in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.tensors.values()
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The file name for messages: the path as given (of the first part), or the name of data in memory.
    pub fn file(&self) -> &str {
        self.parts.first().map_or("", |part| &part.file)
    }

    /// Every file of the model with its length in bytes, first part first.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.parts.iter().map(|part| (part.file.as_str(), part.len()))
    }

    /// Total size of all files in bytes.
    pub fn file_len(&self) -> u64 {
        self.parts.iter().map(Part::len).sum()
    }

    /// The bytes of every file of the model, first part first.
    pub fn contents(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.parts.iter().map(|part| &*part.bytes)
    }

    /// Checks that the bytes read so far were those of the original file.
    ///
    /// Another program may truncate a mapped file, which then reads as zeros, or write to it. A long-running process
    /// must call this before it trusts results.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.parts.iter().try_for_each(Part::check_intact)
    }

    /// Returns the resident pages of `data`, the bytes of a mapped tensor, to the system. Later reads load them from
    /// the file again.
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
