//! The checkpoints of `goldens/tokenizers.json`, which `tools/checks/hf_tokenizers.py` writes.

use std::collections::BTreeMap;
use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use convert::Error;
use convert::tokenizer::{Kind, read};
use gguf::Metadata;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::kinds;

/// A checkpoint without weights.
#[derive(Debug, Deserialize)]
pub(crate) struct Folder {
    files: BTreeMap<String, File>,
    /// The keys that llama.cpp's converter writes.
    keys: BTreeMap<String, Value>,
    /// What differs from them if it is read as another kind.
    kinds: BTreeMap<String, BTreeMap<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum File {
    Text(String),
    Base64(String),
}

pub(crate) fn all() -> BTreeMap<String, Folder> {
    let text = include_str!("../../goldens/tokenizers.json");
    serde_json::from_str(text).expect("the goldens are JSON")
}

impl Folder {
    /// The contents of the files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, Vec<u8>)> {
        self.files.iter().map(|(name, file)| match file {
            File::Text(text) => (name.as_str(), text.clone().into_bytes()),
            File::Base64(bytes) => (name.as_str(), STANDARD.decode(bytes).expect("base 64")),
        })
    }

    /// The folder on disk.
    pub(crate) fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in self.files() {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        }
        folder
    }

    /// Kinds, and the keys that are expected.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Kind, BTreeMap<&str, &Value>)> {
        self.kinds.iter().map(|(name, other)| {
            let keys = self.keys.iter().chain(other).map(|(key, value)| (key.as_str(), value));
            let mut keys: BTreeMap<&str, &Value> = keys.collect();
            keys.retain(|_, value| !value.is_null());
            (kinds::kind(name), keys)
        })
    }
}

/// Reads the tokenizer of a folder with its own configuration.
pub(crate) fn read_in(folder: &std::path::Path, kind: Kind) -> Result<Metadata, Error> {
    let config = fs::read(folder.join("config.json")).unwrap_or_default();
    let config = serde_json::from_slice(&config).unwrap_or_default();
    read(folder, kind, &config, None)
}
