//! The models on this machine: those that were downloaded, and those of other programs, which are only read.

use std::fs;
use std::path::{Path, PathBuf};

use hub::choice::{self, Model, Reason};
use hub::{Cache, Commit, RepoId, Revision, Settings};

use super::held::{Held, Origin, models_in, name_in};
use super::name::HubName;
use super::{addresses, ollama};
use crate::folders;

/// All models, by origin and name.
pub(crate) fn all(settings: &Settings) -> anyhow::Result<Vec<Held>> {
    let cache = Cache::new(&settings.cache);
    let mut held = Vec::new();
    for repo in cache.repositories()? {
        held.extend(cached(&cache, &repo)?);
    }
    held.extend(addresses::all());
    held.extend(folder_models());
    held.extend(ollama::all());
    for repo in lm_studio_repositories() {
        held.extend(lm_studio_models(&repo));
    }
    Ok(held)
}

/// The model that `name` names, in the cache, in LM Studio's folder or in ollama's store.
pub(crate) fn find(settings: &Settings, name: &HubName) -> anyhow::Result<Option<(Held, Reason)>> {
    let (cache, part) = (Cache::new(&settings.cache), name.part.as_deref());
    if name.revision != Revision::main() {
        let commit = cache.resolved_commit(&name.repo, &name.revision);
        return Ok(choose(&commit_models(&cache, &name.repo, commit)?, part));
    }
    let in_ollama = |name: &str| Some((ollama::find(name)?, Reason::Named));
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
            let name = name_in(repo, model, &models);
            let paths = model.names().into_iter();
            let paths =
                paths.filter_map(|name| Some(files.iter().find(|file| file.name == name)?.path.clone()));
            if !held.iter().any(|known| known.name == name) {
                held.push(Held {
                    name,
                    quant: model.quant.clone(),
                    files: paths.collect(),
                    bytes: model.bytes().unwrap_or(0),
                    origin: Origin::HuggingFace { repo: repo.clone(), names: model.names() },
                });
            }
        }
    }
    Ok(held)
}

/// Files in `~/.rustorch/models`.
fn folder_models() -> Vec<Held> {
    let Some(folder) = folders::models() else { return Vec::new() };
    models_in(&folder)
        .into_iter()
        .map(|(model, files)| {
            let file = model.files.first().map_or("", |(name, _)| name.as_str());
            let name = file.strip_suffix(".gguf").unwrap_or(file).to_owned();
            let bytes = model.bytes().unwrap_or(0);
            Held { name, quant: model.quant, files, bytes, origin: Origin::Folder }
        })
        .collect()
}

/// Folders in which LM Studio keeps models as `USER/REPO/FILE`.
fn lm_studio_folders() -> Vec<PathBuf> {
    let home = std::env::home_dir();
    let folders = [&[".lmstudio", "models"][..], &[".cache", "lm-studio", "models"]];
    home.iter().flat_map(|home| folders.map(|parts| home.join(parts.iter().collect::<PathBuf>()))).collect()
}

fn lm_studio_repositories() -> Vec<RepoId> {
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let mut repositories: Vec<RepoId> = Vec::new();
    for folder in lm_studio_folders() {
        for user in names(&folder) {
            let ids = names(&folder.join(&user))
                .into_iter()
                .filter_map(|repo| format!("{user}/{repo}").parse().ok());
            repositories.extend(ids);
        }
    }
    repositories.sort();
    repositories.dedup();
    repositories
}

fn lm_studio_models(repo: &RepoId) -> Vec<Held> {
    let mut held = Vec::new();
    for folder in lm_studio_folders() {
        let found = models_in(&folder.join(repo.as_str()));
        let models: Vec<Model> = found.iter().map(|(model, _)| model.clone()).collect();
        held.extend(found.into_iter().map(|(model, files)| Held {
            name: name_in(repo, &model, &models),
            bytes: model.bytes().unwrap_or(0),
            quant: model.quant,
            files,
            origin: Origin::LmStudio,
        }));
    }
    held
}
