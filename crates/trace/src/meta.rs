//! The metadata of a trace: strings in the file's `__metadata__`, under the names of the fields of [`Meta`], besides
//! `format`, which is `rustorch-trace`, and `version`, which is `1`.

use std::collections::BTreeMap;

use backend::{KvFormat, UnknownKvFormat};
use gguf::Gguf;
use sha2::{Digest, Sha256};

const FORMAT: &str = "rustorch-trace";
const VERSION: &str = "1";

/// How a trace was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The program, such as `rustorch 0.1.0`.
    pub producer: String,
    /// The backend's name, such as `cpu`.
    pub backend: String,
    /// The backend's description of itself.
    pub facts: String,
    /// The model's path or name.
    pub model: String,
    /// The [`digest`] of the model's files; left out if unknown.
    pub model_digest: Option<String>,
    /// Decoder layers.
    pub n_layer: usize,
    /// Formats of the weights with the number of tensors in each, such as `F32 7, Q4_K 21`.
    pub types: String,
    /// The format of the KV cache, such as `f16`.
    pub kv: KvFormat,
    /// The ids at positions 0, 1, …, such as `1,15043`.
    pub tokens: Vec<u32>,
}

impl Meta {
    pub(crate) fn to_map(&self) -> BTreeMap<&'static str, String> {
        let tokens: Vec<String> = self.tokens.iter().map(u32::to_string).collect();
        let entries = [
            ("format", FORMAT.to_owned()),
            ("version", VERSION.to_owned()),
            ("producer", self.producer.clone()),
            ("backend", self.backend.clone()),
            ("facts", self.facts.clone()),
            ("model", self.model.clone()),
            ("n_layer", self.n_layer.to_string()),
            ("types", self.types.clone()),
            ("kv", self.kv.to_string()),
            ("tokens", tokens.join(",")),
        ];
        let digest = self.model_digest.clone().map(|digest| ("model_digest", digest));
        entries.into_iter().chain(digest).collect()
    }

    /// The inverse of [`Meta::to_map`], or what is wrong.
    pub(crate) fn from_map(map: &BTreeMap<String, String>) -> Result<Meta, String> {
        let get = |key: &str| map.get(key).ok_or_else(|| format!("its metadata lack the key `{key}`"));
        let wrong = |key: &str, found: &str, expected: &str| {
            format!("its metadata key `{key}` is {found:?}, expected {expected}")
        };
        let is = |key: &str, expected: &str| match get(key)? {
            found if found == expected => Ok(()),
            found => Err(wrong(key, found, &format!("{expected:?}"))),
        };
        is("format", FORMAT)?;
        is("version", VERSION)?;
        let (n_layer, kv, tokens) = (get("n_layer")?, get("kv")?, get("tokens")?);
        let ids = tokens.split(',').filter(|_| !tokens.is_empty()).map(str::parse);
        Ok(Meta {
            producer: get("producer")?.clone(),
            backend: get("backend")?.clone(),
            facts: get("facts")?.clone(),
            model: get("model")?.clone(),
            model_digest: map.get("model_digest").cloned(),
            n_layer: n_layer.parse().map_err(|_| wrong("n_layer", n_layer, "a number"))?,
            types: get("types")?.clone(),
            kv: kv.parse().map_err(|error: UnknownKvFormat| wrong("kv", kv, &error.to_string()))?,
            tokens: ids
                .collect::<Result<_, _>>()
                .map_err(|_| wrong("tokens", tokens, "ids such as 1,15043"))?,
        })
    }
}

/// Bytes hashed at the start of a file: the metadata and tensor list of any real model.
const HEAD: usize = 16 << 20;

/// Bytes hashed at the end of a file: weights.
const TAIL: usize = 1 << 20;

/// SHA-256 in hexadecimal of each of the model's files: its length in decimal, a newline, its first 16 MiB and last 1 MiB.
pub fn digest(model: &Gguf) -> String {
    hash_files(model.contents())
}

fn hash_files<'a>(files: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\n", file.len()));
        hash.update(&file[..file.len().min(HEAD)]);
        hash.update(&file[file.len().saturating_sub(TAIL)..]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected digest is that of `digest` in tools/oracle/trace_file.py for a file of 20 MiB that
    /// is zero but for the bytes below.
    #[test]
    fn the_begin_and_the_end_of_a_large_file_count() {
        let mut file = vec![0; 20 << 20];
        let mut digest_with = |at: usize, byte: u8| {
            file[at] = byte;
            hash_files([&*file].into_iter())
        };
        for (at, byte) in [(0, 1), ((16 << 20) - 1, 2), (19 << 20, 3)] {
            digest_with(at, byte);
        }
        let expected = "22d4efaa205e8ff32bbbb6f7b727c1d9e13db1e165d969ae4e01f93325e4a3ab";
        assert_eq!(digest_with((20 << 20) - 1, 4), expected);
        assert_eq!(digest_with(17 << 20, 9), expected, "bytes between do not count");
        assert_ne!(digest_with(19 << 20, 9), expected);
    }
}
