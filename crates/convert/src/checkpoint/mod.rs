//! A folder with the files of a model, as on Hugging Face.

mod quantized;
mod shards;
mod source;
mod view;

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use crate::Error;
use crate::config::Config;
pub(crate) use source::Elements;
pub(crate) use view::View;

/// An open checkpoint: its configuration and its tensors, which stay on the disk until they are read.
#[derive(Debug)]
pub struct Checkpoint {
    folder: PathBuf,
    pub(crate) config: Config,
    pub(crate) tensors: IndexMap<String, View>,
    files: Vec<gguf::MappedFile>,
}

impl Checkpoint {
    /// Opens a folder with `config.json` and `*.safetensors`.
    /// Fails if a file is missing or malformed, or if the weights are quantised by a method that is not known.
    pub fn open(folder: impl AsRef<Path>) -> Result<Checkpoint, Error> {
        let folder = folder.as_ref().to_owned();
        if !folder.is_dir() {
            let why = "this is no folder; give one with config.json and *.safetensors";
            return Err(Error::invalid(folder, why));
        }
        let mut config = Config::open(&folder)?;
        let (files, sources) = shards::open(&folder)?;
        let tensors = quantized::combine(&config, sources)?;
        config.tensors = tensors.keys().cloned().collect();
        Ok(Checkpoint { folder, config, tensors, files })
    }

    pub(crate) fn open_adapter(folder: &Path, base: &Path) -> Result<Checkpoint, Error> {
        let config = Config::open(base)?;
        let mut sources = IndexMap::new();
        let file = shards::open_one(&folder.join("adapter_model.safetensors"), &mut sources)?;
        let (folder, tensors) = (folder.to_owned(), quantized::views(sources)?);
        Ok(Checkpoint { folder, config, tensors, files: vec![file] })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fails if a shard was changed since it was opened.
    pub(crate) fn check_intact(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(gguf::MappedFile::check_intact).map_err(Error::from)
    }
}
