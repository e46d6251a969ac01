//! The models on this machine: those that were downloaded, and those of other programs, which are only read.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use hub::choice::{self, Model, Reason};
use hub::{Cache, CachedFile, Commit, FileName, RepoId, Revision, Settings};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::name::HubName;
use crate::files;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    /// The value for `-m`.
    pub(crate) name: String,
    pub(crate) quant: Option<String>,
    /// In their order; the first one names the others.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) bytes: u64,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Origin {
    HuggingFace {
        repo: RepoId,
        names: Vec<FileName>,
    },
    /// Downloaded from an address.
    Address {
        folder: PathBuf,
    },
    /// In `~/.rustorch/models`.
    Folder,
    /// Anywhere else.
    File,
    Ollama,
    LmStudio,
}

impl Origin {
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Origin::HuggingFace { .. } => "Hugging Face",
            Origin::Address { .. } => "address",
            Origin::Folder => "~/.rustorch/models",
            Origin::File => "file",
            Origin::Ollama => "ollama",
            Origin::LmStudio => "LM Studio",
        }
    }
}

impl Held {
    fn new(name: String, model: &Model, files: Vec<PathBuf>, origin: Origin) -> Held {
        Held { name, quant: model.quant.clone(), files, bytes: model.bytes().unwrap_or(0), origin }
    }

    /// Whether it is `model` of `repo`, downloaded from the hub.
    pub(crate) fn is(&self, repo: &RepoId, model: &Model) -> bool {
        matches!(&self.origin, Origin::HuggingFace { repo: own, names } if own == repo && *names == model.names())
    }

    pub(crate) fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// `user/repo:QUANT`, or the file if others have that quantisation.
pub(crate) fn name_in(repo: &RepoId, model: &Model, models: &[Model]) -> String {
    let is_like = |other: &&Model| other.quant == model.quant;
    match &model.quant {
        Some(quant) if models.iter().filter(is_like).count() == 1 => format!("{repo}:{quant}"),
        _ => format!("{repo}:{}", model.files.first().map_or("", |(name, _)| name.as_str())),
    }
}

/// All models, by origin and name.
pub(crate) fn all(settings: &Settings) -> anyhow::Result<Vec<Held>> {
    let cache = Cache::new(&settings.cache);
    let mut held = Vec::new();
    for repo in cache.repositories()? {
        held.extend(cached(&cache, &repo)?);
    }
    held.extend(address_models());
    for (model, files) in files::models_folder().iter().flat_map(|folder| models_in(folder)) {
        let file = model.files.first().map_or("", |(name, _)| name.as_str());
        let name = file.strip_suffix(".gguf").unwrap_or(file).to_owned();
        held.push(Held::new(name, &model, files, Origin::Folder));
    }
    held.extend(ollama_models());
    let mut repositories: BTreeSet<RepoId> = BTreeSet::new();
    for folder in lm_studio_folders() {
        for user in entries(&folder) {
            let names = entries(&folder.join(&user)).into_iter();
            repositories.extend(names.filter_map(|repo| format!("{user}/{repo}").parse().ok()));
        }
    }
    held.extend(repositories.iter().flat_map(lm_studio_models));
    Ok(held)
}

/// The model that `name` names, in the cache, in LM Studio's folder or in ollama's store.
pub(crate) fn find(settings: &Settings, name: &HubName) -> anyhow::Result<Option<(Held, Reason)>> {
    let (cache, part) = (Cache::new(&settings.cache), name.part.as_deref());
    if name.revision != Revision::main() {
        let commit = cache.resolved_commit(&name.repo, &name.revision);
        return Ok(choose(&commit_models(&cache, &name.repo, commit)?, part));
    }
    let in_ollama = |name: &str| Some((find_in_ollama(name)?, Reason::Named));
    let spelt = name.to_string();
    let places = [cached(&cache, &name.repo)?, lm_studio_models(&name.repo)];
    let chosen = places.iter().find_map(|held| choose(held, part));
    Ok(chosen.or_else(|| in_ollama(&spelt)).or_else(|| in_ollama(&format!("hf.co/{spelt}"))))
}

/// Chooses as on the hub.
fn choose(held: &[Held], part: Option<&str>) -> Option<(Held, Reason)> {
    let file = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let model = |held: &Held| Model {
        quant: held.quant.clone(),
        stem: String::new(),
        files: match &held.origin {
            Origin::HuggingFace { names, .. } => names.iter().map(|name| (name.clone(), None)).collect(),
            _ => held.files.iter().filter_map(file).map(|name| (name, None)).collect(),
        },
    };
    let models: Vec<Model> = held.iter().map(model).collect();
    let (chosen, reason) = choice::choose(&models, part)?;
    let at = models.iter().position(|model| model == chosen)?;
    Some((held.get(at)?.clone(), reason))
}

/// The complete models of a repository in the cache, each once, from the commit of `main` or else the newest.
pub(crate) fn cached(cache: &Cache, repo: &RepoId) -> anyhow::Result<Vec<Held>> {
    commit_models(cache, repo, cache.commits(repo)?)
}

fn commit_models(
    cache: &Cache,
    repo: &RepoId,
    commits: impl IntoIterator<Item = Commit>,
) -> anyhow::Result<Vec<Held>> {
    let mut held: Vec<Held> = Vec::new();
    for commit in commits {
        let files = cache.files(repo, &commit)?;
        let models = choice::models(files.iter().map(|file| (file.name.clone(), Some(file.bytes))));
        for model in &models {
            let (name, names) = (name_in(repo, model, &models), model.names());
            let path = |name: &FileName| Some(files.iter().find(|file| file.name == *name)?.path.clone());
            if !held.iter().any(|known| known.name == name) {
                let paths = names.iter().filter_map(path).collect();
                let origin = Origin::HuggingFace { repo: repo.clone(), names };
                held.push(Held::new(name, model, paths, origin));
            }
        }
    }
    Ok(held)
}

/// Names in a folder, sorted.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn models_in(folder: &Path) -> Vec<(Model, Vec<PathBuf>)> {
    let files = entries(folder).into_iter().filter_map(|name| {
        let metadata = fs::metadata(folder.join(&name)).ok().filter(fs::Metadata::is_file)?;
        Some((name.parse().ok()?, Some(metadata.len())))
    });
    let with_paths = |model: Model| {
        let paths = model.names().iter().map(|name| folder.join(name.as_str())).collect();
        (model, paths)
    };
    choice::models(files).into_iter().map(with_paths).collect()
}

/// Folders in which LM Studio keeps models as `USER/REPO/FILE`.
fn lm_studio_folders() -> impl Iterator<Item = PathBuf> {
    let home = std::env::home_dir().into_iter();
    home.flat_map(|home| [".lmstudio/models", ".cache/lm-studio/models"].map(|folder| home.join(folder)))
}

fn lm_studio_models(repo: &RepoId) -> Vec<Held> {
    let mut held = Vec::new();
    for folder in lm_studio_folders() {
        let (models, paths): (Vec<Model>, Vec<_>) =
            models_in(&folder.join(repo.as_str())).into_iter().unzip();
        let found = models.iter().zip(paths);
        held.extend(
            found.map(|(model, files)| {
                Held::new(name_in(repo, model, &models), model, files, Origin::LmStudio)
            }),
        );
    }
    held
}

/// Files that every checkpoint or adapter has.
const CONFIGS: [&str; 2] = ["config.json", "adapter_config.json"];

/// Ends the names of a checkpoint's weights.
pub(super) const WEIGHTS: &str = ".safetensors";

/// The checkpoints in the cache, which `rustorch convert` reads, by name.
pub(super) fn checkpoints(settings: &Settings) -> anyhow::Result<Vec<Held>> {
    let cache = Cache::new(&settings.cache);
    let found = cache.repositories()?.into_iter().map(|repo| checkpoint(&cache, &repo));
    Ok(found.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// A checkpoint in the cache, without GGUF files beside it.
pub(super) fn checkpoint(cache: &Cache, repo: &RepoId) -> anyhow::Result<Option<Held>> {
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
    let names: BTreeSet<_> = files.iter().map(|file| file.name.clone()).collect();
    let origin = Origin::HuggingFace { repo: repo.clone(), names: names.into_iter().collect() };
    let files = files.into_iter().map(|file| file.path).collect();
    Ok(Some(Held { name: repo.to_string(), quant: None, files, bytes, origin }))
}

/// Refuses a folder or file with a checkpoint where a GGUF file is expected.
pub(super) fn refuse_checkpoint(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() && entries(path).iter().any(|name| name.ends_with(WEIGHTS)) {
        let path = path.display();
        bail!("{path} is a checkpoint; `rustorch convert {path} OUT.gguf` makes a GGUF file of it");
    }
    if path.is_file() && path.extension().is_some_and(|ending| ending == "safetensors") {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (path, folder) = (path.display(), folder.display());
        bail!("{path} has weights of a checkpoint; `rustorch convert {folder} OUT.gguf` makes a GGUF file");
    }
    Ok(())
}

/// ollama's manifest of a model, which names the blobs with its parts.
#[derive(Deserialize)]
struct Manifest {
    config: Option<Layer>,
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

/// The model `name` of ollama, with or without a tag.
pub(super) fn find_in_ollama(name: &str) -> Option<Held> {
    let tagged = if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
    ollama_models().into_iter().find(|held| held.name.eq_ignore_ascii_case(&tagged))
}

/// The models in all of ollama's stores, by name: `OLLAMA_MODELS`, or the folders of a user and of the service.
fn ollama_models() -> Vec<Held> {
    let stores = match std::env::var_os("OLLAMA_MODELS").filter(|named| !named.is_empty()) {
        Some(named) => vec![named.into()],
        None => {
            let home = std::env::home_dir().map(|home| home.join(".ollama").join("models"));
            home.into_iter().chain([PathBuf::from("/usr/share/ollama/.ollama/models")]).collect()
        }
    };
    let mut held = Vec::new();
    for store in stores {
        // HOST/USER/MODEL/TAG
        let mut paths = vec![Vec::new()];
        for _ in 0..4 {
            let longer = |path: Vec<String>| {
                let folder = store.join("manifests").join(path.iter().collect::<PathBuf>());
                entries(&folder).into_iter().map(move |name| [&path[..], &[name]].concat())
            };
            paths = paths.into_iter().flat_map(longer).collect();
        }
        held.extend(paths.iter().filter_map(|path| read_manifest(&store, path)));
    }
    held.sort_by(|a, b| a.name.cmp(&b.name));
    held.dedup_by(|a, b| a.name == b.name);
    held
}

/// `None` for a manifest of something else, such as a model that is not on this machine, or one with an adapter.
fn read_manifest(store: &Path, path: &[String]) -> Option<Held> {
    let [host, user, model, tag] = path else { return None };
    let name = match (&**host, &**user) {
        ("registry.ollama.ai", "library") => format!("{model}:{tag}"),
        ("registry.ollama.ai", user) => format!("{user}/{model}:{tag}"),
        (host, user) => format!("{host}/{user}/{model}:{tag}"),
    };
    let manifest = fs::read(store.join("manifests").join(path.iter().collect::<PathBuf>())).ok()?;
    let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
    let layer = |kind: &str| {
        let kind = format!("application/vnd.ollama.image.{kind}");
        manifest.layers.iter().find(|layer| layer.media_type == kind)
    };
    if layer("adapter").is_some() {
        return None;
    }
    let blob = |layer: &Layer| {
        let hex = layer.digest.strip_prefix("sha256:")?;
        let is_hash = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| store.join("blobs").join(format!("sha256-{hex}")))
    };
    let path = blob(layer("model")?)?;
    let bytes = fs::metadata(&path).ok()?.len();
    let config = manifest.config.as_ref().and_then(|layer| fs::read(blob(layer)?).ok());
    let config: Option<Value> = config.and_then(|text| serde_json::from_slice(&text).ok());
    let quant = config.and_then(|config| config.get("file_type")?.as_str().map(str::to_owned));
    Some(Held { name, quant, files: vec![path], bytes, origin: Origin::Ollama })
}

/// The file that names the address of those beside it.
pub(super) const ADDRESS: &str = "address";

/// The folder `~/.cache/rustorch/models/HASH` for a model from an address that is not on the hub, and its files with their
/// addresses: a split model has several.
pub(super) fn address_files(address: &str) -> anyhow::Result<(PathBuf, Vec<(FileName, String)>)> {
    let (path, query) = address.split_once('?').map_or((address, ""), |(path, query)| (path, query));
    let (base, file) = path.rsplit_once('/').unwrap_or_default();
    if !file.to_lowercase().ends_with(".gguf") {
        bail!("{path} does not end in .gguf, so it is no model file; give the address of one");
    }
    let parts = parts(file);
    let first = parts.first().map_or(file, String::as_str);
    let hash = Sha256::digest(format!("{base}/{first}"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let cache = files::cache_folder().context("no home folder for downloads; set XDG_CACHE_HOME")?;
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let file = |part: String| Ok((part.replace("%20", " ").parse()?, format!("{base}/{part}{query}")));
    let files = parts.into_iter().map(file).collect::<anyhow::Result<_>>()?;
    Ok((cache.join("models").join(hash), files))
}

/// The names of all files of a split one, of which `file` is any.
fn parts(file: &str) -> Vec<String> {
    let split = regex::Regex::new(r"(?i)^(.+)-\d{5}-of-(\d{5})(\.gguf)$").expect("a valid pattern");
    let Some(found) = split.captures(file) else { return vec![file.to_owned()] };
    let count: u32 = found[2].parse().unwrap_or(1);
    let part = |number| format!("{}-{number:05}-of-{}{}", &found[1], &found[2], &found[3]);
    (1..=count.max(1)).map(part).collect()
}

/// The file of the model of `address`, if all of it is on this machine.
pub(super) fn find_address(address: &str) -> anyhow::Result<Option<PathBuf>> {
    let (folder, files) = address_files(address)?;
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name.as_str())).collect();
    Ok(paths.first().filter(|_| paths.iter().all(|path| path.is_file())).cloned())
}

/// All models from addresses, by name.
pub(super) fn address_models() -> Vec<Held> {
    let Some(root) = files::cache_folder().map(|cache| cache.join("models")) else { return Vec::new() };
    let read = |folder: PathBuf| {
        let name = fs::read_to_string(folder.join(ADDRESS)).ok()?;
        let (model, files) = models_in(&folder).into_iter().next()?;
        Some(Held::new(name, &model, files, Origin::Address { folder }))
    };
    let mut held: Vec<Held> = entries(&root).iter().filter_map(|folder| read(root.join(folder))).collect();
    held.sort_by(|a, b| a.name.cmp(&b.name));
    held
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
