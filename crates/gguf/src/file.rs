//! An open model: a single file or the parts of a split one.

use std::path::Path;

use bytes::Bytes;
use indexmap::IndexMap;

use crate::error::{Error, quoted};
use crate::metadata::Metadata;
use crate::parse::Info;
use crate::part::{MappedFile, Part};
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
    files: Vec<MappedFile>,
}

impl Gguf {
    /// Maps and validates the file at `path`, and the other parts of a split model, which must be in the same folder.
    ///
    /// If another program truncates the mapped file, SIGBUS kills the process, unless the program has
    /// called [`survive_truncation`](crate::survive_truncation). [`Gguf::read`] avoids this risk.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::assemble(split::load(path.as_ref(), MappedFile::open)?, None)
    }

    /// As [`Gguf::open`], for listing a file: tensors in unknown formats are set aside and not among [`Gguf::tensors`].
    pub fn inspect(path: impl AsRef<Path>) -> Result<(Gguf, Vec<UnsupportedTensor>), Error> {
        let mut unsupported = Vec::new();
        let gguf = Gguf::assemble(split::load(path.as_ref(), MappedFile::open)?, Some(&mut unsupported))?;
        Ok((gguf, unsupported))
    }

    /// As [`Gguf::open`], but reads the files into memory, so that later changes of the files have no effect.
    pub fn read(path: impl AsRef<Path>) -> Result<Gguf, Error> {
        Gguf::assemble(split::load(path.as_ref(), MappedFile::read)?, None)
    }

    /// Validates a file in memory, but not a part of a split model; tensors are slices of `bytes`.
    pub fn from_bytes(bytes: Bytes) -> Result<Gguf, Error> {
        Gguf::from_named_bytes("GGUF data in memory", bytes)
    }

    /// As [`Gguf::from_bytes`], with a name for the data in messages and [`Gguf::file`].
    pub fn from_named_bytes(name: &str, bytes: Bytes) -> Result<Gguf, Error> {
        let part = Part::parse(MappedFile { file: name.to_owned(), bytes, map: None })?;
        match split::count(&part)? {
            None => Gguf::assemble(vec![part], None),
            Some(count) => Err(part.split_error(format!(
                "this is part of a model split into {count} files; open it by its path"
            ))),
        }
    }

    /// Tensors in unknown formats go to `unsupported`; without it, they are an error.
    fn assemble(
        parts: Vec<Part>,
        mut unsupported: Option<&mut Vec<UnsupportedTensor>>,
    ) -> Result<Gguf, Error> {
        let mut gguf = Gguf {
            version: parts[0].parsed.version,
            alignment: parts[0].parsed.alignment,
            metadata: Metadata::default(),
            tensors: IndexMap::new(),
            files: Vec::new(),
        };
        for Part { file, parsed } in parts {
            gguf.tensors.reserve(parsed.tensors.len());
            for info in parsed.tensors {
                let format = match (&info.format, &mut unsupported) {
                    (Ok(format), _) => *format,
                    (&Err(format), Some(unsupported)) => {
                        let index = gguf.tensors.len() + unsupported.len();
                        let Info { name, shape, .. } = info;
                        unsupported.push(UnsupportedTensor { index, name, shape, format });
                        continue;
                    }
                    (&Err(format), None) => {
                        return Err(Error::Malformed { file: file.file, fault: info.fault(format.into()) });
                    }
                };
                let data = file.bytes.slice(info.data.start as usize..info.data.end as usize);
                let tensor = Tensor { name: info.name, shape: info.shape, format, data };
                if let Some(twice) = gguf.tensors.insert(tensor.name.clone(), tensor) {
                    let name = quoted(&twice.name);
                    let problem = format!(
                        "tensor {name} is also in an earlier part; parts of different models are mixed"
                    );
                    return Err(Error::Split { file: file.file, problem });
                }
            }
            if gguf.files.is_empty() {
                gguf.metadata = parsed.metadata;
            }
            gguf.files.push(file);
        }
        if gguf.files.len() > 1 {
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

    /// Keys and values; for a split model those of the first part, without the keys `split.*`.
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
        self.files.first().map_or("", |file| &file.file)
    }

    /// Every file of the model with its length in bytes, first part first.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.file.as_str(), file.len()))
    }

    /// Total size of all files in bytes.
    pub fn file_len(&self) -> u64 {
        self.files.iter().map(MappedFile::len).sum()
    }

    /// The bytes of every file of the model, first part first.
    pub fn contents(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.files.iter().map(|file| &*file.bytes)
    }

    /// Fails if another program has truncated a file, which then reads as zeros, or written to it: results since then are
    /// meaningless.
    pub fn check_intact(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(MappedFile::check_intact)
    }

    /// Returns the resident pages of a mapped tensor's `data` to the system; later reads load them from the file again.
    pub fn release(&self, data: &[u8]) {
        let start = |bytes: &[u8]| bytes.as_ptr().addr();
        for file in &self.files {
            let offset = start(data).checked_sub(start(&file.bytes)).filter(|&at| at < file.bytes.len());
            if let (Some(map), Some(offset)) = (&file.map, offset) {
                map.release(offset..offset + data.len());
            }
        }
    }
}
