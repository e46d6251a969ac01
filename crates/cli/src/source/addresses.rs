//! Models from addresses that are not on the hub, in `~/.cache/rustorch/models/HASH/FILE`. A file `address` beside them names it.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use hub::{Client, Fetched, FileName};
use sha2::{Digest, Sha256};

use super::held::{Held, Origin, models_in};
use super::progress::Progress;
use crate::folders;

/// The file with the address.
const ADDRESS: &str = "address";

/// Where the files of `address` are, and the addresses of all of them: a split file is several.
struct Place {
    folder: PathBuf,
    files: Vec<(FileName, String)>,
}

impl Place {
    fn of(address: &str) -> anyhow::Result<Place> {
        let (path, query) = address.split_once('?').map_or((address, ""), |(path, query)| (path, query));
        let (base, file) = path.rsplit_once('/').unwrap_or_default();
        let is_gguf = file.to_lowercase().ends_with(".gguf");
        anyhow::ensure!(
            is_gguf,
            "{path} does not end in .gguf, so it is no model file; give the address of one"
        );
        let parts = parts(file);
        let first = parts.first().map_or(file, String::as_str);
        let hash = Sha256::digest(format!("{base}/{first}"));
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let folder = folders::cache()
            .context("no home folder for downloads; set XDG_CACHE_HOME")?
            .join("models")
            .join(hash);
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let file = |part: String| Ok((part.replace("%20", " ").parse()?, format!("{base}/{part}{query}")));
        Ok(Place { folder, files: parts.into_iter().map(file).collect::<anyhow::Result<_>>()? })
    }
}

/// The names of all files of a split one, of which `file` is any.
fn parts(file: &str) -> Vec<String> {
    let split = regex::Regex::new(r"(?i)^(.+)-\d{5}-of-(\d{5})(\.gguf)$").expect("a valid pattern");
    let Some(found) = split.captures(file) else { return vec![file.to_owned()] };
    let count: u32 = found[2].parse().unwrap_or(1);
    (1..=count.max(1))
        .map(|number| format!("{}-{number:05}-of-{}{}", &found[1], &found[2], &found[3]))
        .collect()
}

/// The model of `address`, if all of it is on this machine.
pub(super) fn find(address: &str) -> anyhow::Result<Option<PathBuf>> {
    let Place { folder, files } = Place::of(address)?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name.as_str())).collect();
    Ok(paths.first().filter(|_| paths.iter().all(|path| path.is_file())).cloned())
}

/// Downloads what is missing.
pub(super) fn pull(client: &Client, address: &str) -> anyhow::Result<Vec<Fetched>> {
    let Place { folder, files } = Place::of(address)?;
    let mut fetched = Vec::new();
    for (number, (name, from)) in files.iter().enumerate() {
        let progress = Progress::new();
        progress.begin(number, files.len(), name.as_str());
        fetched.push(client.pull_address(from, &folder.join(name.as_str()), &|event| progress.on(event))?);
    }
    // Last: an address without a file names nothing.
    fs::write(folder.join(ADDRESS), address)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(fetched)
}

/// All models from addresses.
pub(super) fn all() -> Vec<Held> {
    let Some(root) = folders::cache().map(|cache| cache.join("models")) else { return Vec::new() };
    let folders = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut held: Vec<Held> = folders.filter_map(read_folder).collect();
    held.sort_by(|a, b| a.name.cmp(&b.name));
    held
}

fn read_folder(folder: PathBuf) -> Option<Held> {
    let name = fs::read_to_string(folder.join(ADDRESS)).ok()?;
    let (model, files) = models_in(&folder).into_iter().next()?;
    let bytes = model.bytes().unwrap_or(0);
    Some(Held { name, quant: model.quant, files, bytes, origin: Origin::Address { folder } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_names_all_parts() {
        assert_eq!(parts("m.gguf"), ["m.gguf"]);
        assert_eq!(parts("m-00002-of-00002.gguf"), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
    }
}
