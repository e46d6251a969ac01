//! Checkpoints: the folders and repositories that `rustorch convert` reads.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::bail;
use hub::{Cache, CachedFile, RepoId, Settings};

use super::held::{Held, Origin};

/// Files that every checkpoint or adapter has.
const CONFIGS: [&str; 2] = ["config.json", "adapter_config.json"];

/// Ends the names of weights.
pub(super) const WEIGHTS: &str = ".safetensors";

/// The checkpoints in the cache, by name.
pub(super) fn all(settings: &Settings) -> anyhow::Result<Vec<Held>> {
    let cache = Cache::new(&settings.cache);
    let found = cache.repositories()?.into_iter().map(|repo| cached(&cache, &repo));
    Ok(found.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What the cache has of a checkpoint, without its GGUF files.
pub(super) fn cached(cache: &Cache, repo: &RepoId) -> anyhow::Result<Option<Held>> {
    let mut files: Vec<CachedFile> = Vec::new();
    for commit in cache.commits(repo)? {
        files.extend(cache.files(repo, &commit)?);
    }
    let has = |ending: &str| files.iter().any(|file| file.name.as_str().ends_with(ending));
    let has_config = files.iter().any(|file| CONFIGS.contains(&file.name.as_str()));
    // A repository with GGUF files may have a configuration, too.
    if !has_config || has(".gguf") && !has(WEIGHTS) {
        return Ok(None);
    }
    files.retain(|file| !file.name.as_str().to_lowercase().ends_with(".gguf"));
    // Commits share blobs.
    let mut blobs = HashSet::new();
    let mut is_new = |file: &&CachedFile| fs::canonicalize(&file.path).is_ok_and(|blob| blobs.insert(blob));
    let bytes = files.iter().filter(|file| is_new(file)).map(|file| file.bytes).sum();
    let mut names: Vec<_> = files.iter().map(|file| file.name.clone()).collect();
    names.sort();
    names.dedup();
    let origin = Origin::HuggingFace { repo: repo.clone(), names };
    let files = files.into_iter().map(|file| file.path).collect();
    Ok(Some(Held { name: repo.to_string(), quant: None, files, bytes, origin }))
}

/// Refuses a folder or file with a checkpoint where a GGUF file is expected.
pub(super) fn refuse(path: &Path) -> anyhow::Result<()> {
    let is_weights = |path: &Path| path.extension().is_some_and(|ending| ending == "safetensors");
    if path.is_dir() {
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        if entries.any(|entry| is_weights(&entry.path())) {
            let path = path.display();
            bail!("{path} is a checkpoint; `rustorch convert {path} OUT.gguf` makes a GGUF file of it");
        }
    } else if is_weights(path) && path.exists() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (path, folder) = (path.display(), folder.display());
        bail!("{path} has weights of a checkpoint; `rustorch convert {folder} OUT.gguf` makes a GGUF file");
    }
    Ok(())
}
