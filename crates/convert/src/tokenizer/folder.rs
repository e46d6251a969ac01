//! The folder of a checkpoint, and its files as types.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use gguf::quoted;
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, invalid, lfs_pointer};

/// Tokenizers of real models have at most a sixth of this.
const MAX_BYTES: u64 = 256 << 20;

pub(super) struct Folder<'a>(pub(super) &'a Path);

impl Folder<'_> {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).is_file()
    }

    pub(super) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(name);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() as u64 > MAX_BYTES => Err(Error::invalid(
                path,
                format!("more than {MAX_BYTES} bytes, which no tokenizer needs; the file is damaged"),
            )),
            Ok(_) => match lfs_pointer(&bytes) {
                Some(why) => Err(Error::invalid(path, why)),
                None => Ok(Some(bytes)),
            },
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let place = format!("byte {}", error.utf8_error().valid_up_to());
                Err(invalid(&self.path(name), place, "not UTF-8", "text"))
            }
        }
    }

    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        self.bytes(name)?.map(|bytes| self.parse(name, &bytes)).transpose()
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T, Error> {
        crate::json::read(bytes).map_err(|why| Error::invalid(self.path(name), why.to_string()))
    }

    pub(super) fn missing(&self, expected: &str) -> Error {
        let why = format!("it has no tokenizer: expected {expected}; download all files of the repository");
        Error::invalid(self.0, why)
    }

    /// `tokenizer_config.json`; empty if there is none.
    pub(super) fn tokenizer_config(&self) -> Result<TokenizerConfig, Error> {
        Ok(self.json("tokenizer_config.json")?.unwrap_or_default())
    }

    /// `added_tokens.json`: ids by text; empty if there is none.
    pub(super) fn added_tokens(&self) -> Result<IndexMap<String, u32>, Error> {
        Ok(self.json("added_tokens.json")?.unwrap_or_default())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TokenizerConfig {
    pub(super) tokenizer_class: Option<String>,
    pub(super) add_prefix_space: Option<bool>,
    pub(super) clean_up_tokenization_spaces: Option<bool>,
    /// By decimal id.
    pub(super) added_tokens_decoder: Option<IndexMap<String, Added>>,
    /// The other entries: `bos_token`, `add_bos_token`, `extra_special_tokens`, `chat_template`, …
    #[serde(flatten)]
    pub(super) entries: IndexMap<String, Value>,
}

/// An added token without its id. Missing flags are false, except that what is not special is normalised.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Added {
    pub(super) content: String,
    pub(super) special: Option<bool>,
    pub(super) normalized: Option<bool>,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
}

impl From<Added> for tokenizers::AddedToken {
    fn from(added: Added) -> tokenizers::AddedToken {
        let special = added.special.unwrap_or(false);
        tokenizers::AddedToken::from(added.content, special)
            .normalized(added.normalized.unwrap_or(!special))
            .single_word(added.single_word)
            .lstrip(added.lstrip)
            .rstrip(added.rstrip)
    }
}

/// The text of a special token, which is a string or an object with it.
pub(super) fn token_text(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry.get("content")?.as_str())
}

impl TokenizerConfig {
    /// The name of the tokenizer's class; since version 5, `transformers` has one per tokenizer.
    pub(super) fn class(&self) -> Option<&str> {
        self.tokenizer_class.as_deref().map(|class| class.strip_suffix("Fast").unwrap_or(class))
    }

    pub(super) fn added(&self, folder: &Folder) -> Result<Vec<(u32, &Added)>, Error> {
        let added = self.added_tokens_decoder.iter().flatten().map(|(id, added)| match id.parse() {
            Ok(id) => Ok((id, added)),
            Err(_) => {
                let (path, found) = (folder.path("tokenizer_config.json"), quoted(id));
                Err(invalid(&path, "a key of `added_tokens_decoder`", found, "a token id"))
            }
        });
        added.collect()
    }
}
