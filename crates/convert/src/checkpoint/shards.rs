//! The safetensors files of a checkpoint.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gguf::MappedFile;
use indexmap::IndexMap;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde_json::Value;

use super::source::{Elements, F8, Source};
use crate::error::{Error, lfs_pointer, read_json};

const INDEX: &str = "model.safetensors.index.json";

pub(super) type Sources = IndexMap<String, Source>;

pub(super) fn open(folder: &Path) -> Result<(Vec<MappedFile>, Sources), Error> {
    let index = index(folder)?;
    let mut files = Vec::new();
    let mut sources = Sources::new();
    for path in paths(folder, index.as_ref())? {
        files.push(open_one(&path, &mut sources)?);
    }
    let missing = index.iter().flatten().find(|(name, _)| !sources.contains_key(*name));
    if let Some((name, shard)) = missing {
        let why = format!("tensor {} should be in it, by {INDEX}; download it again", gguf::quoted(name));
        return Err(Error::invalid(folder.join(shard), why));
    }
    Ok((files, sources))
}

/// Maps one file and adds its tensors.
pub(super) fn open_one(path: &Path, sources: &mut Sources) -> Result<MappedFile, Error> {
    let file = MappedFile::open(path)?;
    read(path, &file, sources)?;
    file.check_intact()?;
    Ok(file)
}

/// The shard of each tensor, if there is a list.
fn index(folder: &Path) -> Result<Option<BTreeMap<String, String>>, Error> {
    let path = folder.join(INDEX);
    if !path.exists() {
        return Ok(None);
    }
    let json: Value = read_json(&path)?;
    let map = json.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::invalid(&path, "there is no object \"weight_map\""))?;
    let mut index = BTreeMap::new();
    for (name, shard) in map {
        // A shard is a file of this folder, wherever the list points.
        let shard = shard.as_str().filter(|shard| Path::new(shard).file_name() == Some(shard.as_ref()));
        let shard = shard.ok_or_else(|| {
            Error::invalid(&path, format!("the shard of {} is no file name", gguf::quoted(name)))
        })?;
        index.insert(name.clone(), shard.to_owned());
    }
    Ok(Some(index))
}

/// The shards: those of the list, or `model*.safetensors`, or the only other one.
fn paths(folder: &Path, index: Option<&BTreeMap<String, String>>) -> Result<Vec<PathBuf>, Error> {
    if let Some(index) = index {
        let mut shards: Vec<&String> = index.values().collect();
        shards.sort();
        shards.dedup();
        return Ok(shards.into_iter().map(|shard| folder.join(shard)).collect());
    }
    let entries = fs::read_dir(folder).map_err(|source| Error::Read { path: folder.to_owned(), source })?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
        .collect();
    found.sort();
    let is_model =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("model"));
    if found.iter().any(is_model) {
        found.retain(is_model);
    }
    if found.is_empty() {
        let pickled = folder.join("pytorch_model.bin").exists();
        let hint = if pickled { "; pytorch_model.bin is not read: it can run code" } else { "" };
        return Err(Error::invalid(folder, format!("there is no *.safetensors{hint}")));
    }
    Ok(found)
}

fn read(path: &Path, file: &MappedFile, sources: &mut Sources) -> Result<(), Error> {
    let bytes = file.bytes();
    let wrong = |why: String| Error::invalid(path, format!("this is no valid safetensors file: {why}"));
    if let Some(why) = lfs_pointer(bytes) {
        return Err(Error::invalid(path, why));
    }
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|why| match why {
        SafeTensorError::MetadataIncompleteBuffer
        | SafeTensorError::InvalidHeaderLength
        | SafeTensorError::HeaderTooSmall => {
            wrong(format!("it ends early ({why}), so it came only in part; download it again"))
        }
        why => wrong(why.to_string()),
    })?;
    let data = bytes.slice(header + 8..);
    for name in metadata.offset_keys() {
        let info = metadata.info(&name).ok_or_else(|| wrong(format!("{} is lost", gguf::quoted(&name))))?;
        let elements = elements(info.dtype).ok_or_else(|| {
            let expected = "F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, I64, I32, U8 or BOOL";
            Error::tensor(&name, format!("its type is {:?}, expected {expected}", info.dtype))
        })?;
        if info.shape.contains(&0) {
            return Err(Error::tensor(&name, format!("its shape {:?} has no elements", info.shape)));
        }
        let (start, end) = info.data_offsets;
        let source =
            Source { name: name.clone(), shape: info.shape.clone(), data: data.slice(start..end), elements };
        if source.len() * source.elements.size() != source.data.len() {
            return Err(Error::tensor(&name, "its size does not match its shape"));
        }
        if sources.insert(name.clone(), source).is_some() {
            return Err(wrong(format!("tensor {} is in another shard, too", gguf::quoted(&name))));
        }
    }
    Ok(())
}

fn elements(dtype: Dtype) -> Option<Elements> {
    Some(match dtype {
        Dtype::F32 => Elements::F32,
        Dtype::F16 => Elements::F16,
        Dtype::BF16 => Elements::Bf16,
        Dtype::F64 => Elements::F64,
        Dtype::U8 | Dtype::F8_E8M0 | Dtype::BOOL => Elements::U8,
        Dtype::I32 => Elements::I32,
        Dtype::I64 => Elements::I64,
        Dtype::F8_E4M3 => Elements::F8(F8::E4M3, None),
        Dtype::F8_E5M2 => Elements::F8(F8::E5M2, None),
        _ => return None,
    })
}
