//! Models of the Hugging Face hub.

use std::path::PathBuf;

use hub::choice::{self, choose};
use hub::{Cache, Client, Event, RepoId, Revision, Settings};

use crate::model::Model;
use crate::options::Options;
use crate::{Error, Result};

impl Options {
    /// Loads a model from the Hugging Face hub: `USER/REPO`, `USER/REPO:Q8_0`, `USER/REPO:FILE.gguf`, or `USER/REPO@REVISION`
    /// with any of them. Without a quantisation, Q4_K_M or a similar one is taken.
    ///
    /// What is in the cache of huggingface_hub is not downloaded again. `watch` is told of the download, from several threads.
    /// `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE` and `HTTPS_PROXY` are obeyed.
    ///
    /// ```no_run
    /// # fn main() -> rustorch::Result<()> {
    /// use rustorch::{Model, hub::Event};
    /// let model = Model::options().pull("Qwen/Qwen3-0.6B-GGUF:Q8_0", |event| {
    ///     if let Event::Received { done, total } = event {
    ///         eprint!("\r{} %", 100 * done / total.max(1));
    ///     }
    /// })?;
    /// # let _ = model;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no such model, it cannot be downloaded, or as [`Model::open`].
    pub fn pull(self, name: &str, watch: impl Fn(Event<'_>) + Sync) -> Result<Model> {
        let path = model_path(&Settings::from_env()?, name, &watch)?;
        self.open(path)
    }
}

impl Model {
    /// Loads a model from the Hugging Face hub, such as `Qwen/Qwen3-0.6B-GGUF:Q8_0`. See [`Options::pull`].
    ///
    /// # Errors
    /// As [`Options::pull`].
    pub fn pull(name: &str) -> Result<Model> {
        Options::default().pull(name, |_| {})
    }
}

/// The file of a model, downloaded if it is not in the cache.
fn model_path(settings: &Settings, name: &str, watch: &(dyn Fn(Event<'_>) + Sync)) -> Result<PathBuf> {
    let (repo, part) = name.split_once(':').map_or((name, None), |(repo, part)| (repo, Some(part)));
    let (repo, revision) = match repo.split_once('@') {
        Some((repo, revision)) => (repo, revision.parse().map_err(hub::Error::from)?),
        None => (repo, Revision::main()),
    };
    let repo: RepoId = repo.parse().map_err(hub::Error::from)?;
    let cache = Cache::new(&settings.cache);
    if let Some(path) = cached(&cache, &repo, &revision, part)? {
        return Ok(path);
    }
    let client = Client::new(settings)?;
    let snapshot = client.snapshot(&repo, &revision, watch)?;
    let models = choice::models(snapshot.files.iter().map(|file| (file.name.clone(), file.bytes)));
    let Some((model, _)) = choose(&models, part) else {
        let label = |model: &choice::Model| {
            model.quant.clone().or_else(|| Some(model.files.first()?.0.to_string())).unwrap_or_default()
        };
        let requested = part.map_or_else(|| "GGUF file".to_owned(), |part| format!("`{part}`"));
        let found: Vec<String> = models.iter().map(label).collect();
        let found = if found.is_empty() { "no GGUF file".to_owned() } else { found.join(", ") };
        return Err(Error::NotInRepository { repo, requested, found });
    };
    let files = client.pull(&cache, &snapshot, &model.names(), watch)?;
    Ok(files.into_iter().next().map(|file| file.path).unwrap_or_default())
}

/// The file of a complete model in the cache.
fn cached(cache: &Cache, repo: &RepoId, revision: &Revision, part: Option<&str>) -> Result<Option<PathBuf>> {
    let commits = if *revision == Revision::main() {
        cache.commits(repo)?
    } else {
        cache.resolved_commit(repo, revision).into_iter().collect()
    };
    for commit in commits {
        let files = cache.files(repo, &commit)?;
        let models = choice::models(files.iter().map(|file| (file.name.clone(), Some(file.bytes))));
        let first = choose(&models, part).and_then(|(model, _)| model.files.first());
        if let Some((name, _)) = first {
            return Ok(files.iter().find(|file| file.name == *name).map(|file| file.path.clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use testkit::hub::Hub;

    use super::*;
    use crate::BackendName;

    #[test]
    fn a_model_is_downloaded_once_and_opens() {
        let (server, folder) = (Hub::start(), tempfile::tempdir().expect("a folder"));
        for file in ["Model-Q4_K_M.gguf", "Model-Q6_K.gguf"] {
            server.add("user/Model-GGUF", file, demo_model::EMBEDDED.to_vec());
        }
        let get = |name: &str| match name {
            "HF_ENDPOINT" => Some(server.endpoint.clone().into()),
            "HF_HOME" => Some(folder.path().into()),
            _ => None,
        };
        let online = Settings::read(&get, None).expect("settings");
        let offline = Settings { offline: true, ..online.clone() };
        let find = |settings: &Settings, name: &str| model_path(settings, name, &|_| {});
        let name = "user/Model-GGUF";
        assert!(
            matches!(find(&offline, name), Err(Error::Hub(error)) if matches!(*error, hub::Error::Offline { .. }))
        );
        let usual = find(&online, name).expect("a model");
        assert!(usual.ends_with("Model-Q4_K_M.gguf"), "{}", usual.display());
        for again in
            [name, "user/Model-GGUF:q4_k_m", "user/Model-GGUF:Model-Q4_K_M.gguf", "user/Model-GGUF@main"]
        {
            assert_eq!(find(&offline, again).expect("it is here"), usual);
        }
        assert!(find(&online, "user/Model-GGUF:Q6_K").expect("a model").ends_with("Model-Q6_K.gguf"));
        let error = find(&online, "user/Model-GGUF:Q2_K").expect_err("none").to_string();
        assert_eq!(error, "user/Model-GGUF has no `Q2_K`; it has Q4_K_M, Q6_K");
        assert!(find(&online, "no repository").is_err());
        let model = Options::default().backend(BackendName::CPU).open(usual).expect("a model");
        assert!(model.n_ctx().is_some());
    }
}
