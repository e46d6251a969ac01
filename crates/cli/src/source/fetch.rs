//! Downloads.

use std::path::PathBuf;

use anyhow::bail;
use hub::choice::{self, Model, Reason};
use hub::{Cache, Client, Fetched, FileName, RepoId, Revision, Settings, Snapshot};

use super::checkpoints::WEIGHTS;
use super::name::{HubName, Name};
use super::progress::Progress;
use super::{addresses, held};
use crate::interrupt::{self, Farewell};
use crate::output::{note, size};

/// What is said when Ctrl-C ends a download.
const CONTINUES: &str = "interrupted; the same command continues where the download stopped";

/// The hub and the cache.
pub(crate) struct Hub {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
}

/// What a download would bring.
pub(crate) struct Plan {
    pub(crate) snapshot: Snapshot,
    pub(crate) models: Vec<Model>,
    pub(crate) chosen: Model,
}

/// A model that was downloaded, or was there.
pub(crate) struct Pulled {
    pub(crate) name: String,
    pub(crate) commit: Option<String>,
    pub(crate) quant: Option<String>,
    pub(crate) files: Vec<Fetched>,
}

impl Pulled {
    pub(crate) fn path(&self) -> PathBuf {
        self.files.first().map(|file| file.path.clone()).unwrap_or_default()
    }
}

impl Hub {
    pub(crate) fn open(is_offline: bool) -> anyhow::Result<Hub> {
        let mut settings = Settings::from_env()?;
        settings.offline |= is_offline;
        Ok(Hub { client: Client::new(&settings)?, cache: Cache::new(&settings.cache), settings })
    }

    /// Asks the hub for the files of a repository.
    pub(crate) fn snapshot(&self, repo: &RepoId, revision: &Revision) -> anyhow::Result<Snapshot> {
        let progress = Progress::new();
        Ok(self.client.snapshot(repo, revision, &|event| progress.on(event))?)
    }

    /// Downloads what is missing of some files.
    pub(crate) fn fetch(&self, snapshot: &Snapshot, names: &[FileName]) -> anyhow::Result<Vec<Fetched>> {
        interrupt::install()?;
        let _farewell = Farewell::begin(CONTINUES);
        let progress = Progress::new();
        Ok(self.client.pull(&self.cache, snapshot, names, &|event| progress.on(event))?)
    }

    /// Asks the hub what `name` is. Says so if the usual quantisation is missing.
    pub(crate) fn plan(&self, name: &HubName) -> anyhow::Result<Plan> {
        let snapshot = self.snapshot(&name.repo, &name.revision)?;
        let files = snapshot.files.iter().map(|file| (file.name.clone(), file.bytes));
        let models = choice::models(files);
        let chosen = match choice::choose(&models, name.part.as_deref()) {
            Some((chosen, reason)) => {
                say(name, chosen, reason, &models);
                chosen.clone()
            }
            None if models.is_empty()
                && snapshot.files.iter().any(|file| file.name.as_str().ends_with(WEIGHTS)) =>
            {
                let repo = &name.repo;
                bail!(
                    "{repo} has a checkpoint, not a GGUF file; `rustorch convert {repo} OUT.gguf` makes one of it"
                )
            }
            None if models.is_empty() => {
                bail!(
                    "{} has no GGUF file; repositories with models in this format often end in -GGUF",
                    name.repo
                )
            }
            None => {
                let part = name.part.as_deref().unwrap_or_default();
                bail!("{} has no `{part}`; it has {}", name.repo, listed(&models))
            }
        };
        Ok(Plan { snapshot, models, chosen })
    }

    /// Downloads what is missing of a plan.
    pub(crate) fn pull(&self, plan: &Plan) -> anyhow::Result<Pulled> {
        let Plan { snapshot, models, chosen } = plan;
        let files = self.fetch(snapshot, &chosen.names())?;
        Ok(Pulled {
            name: held::name_in(&snapshot.repo, chosen, models),
            commit: Some(snapshot.commit.to_string()),
            quant: chosen.quant.clone(),
            files,
        })
    }

    /// Downloads from an address that is not on the hub.
    pub(crate) fn pull_address(&self, address: &str) -> anyhow::Result<Pulled> {
        interrupt::install()?;
        let _farewell = Farewell::begin(CONTINUES);
        let files = addresses::pull(&self.client, address)?;
        Ok(Pulled { name: Name::Address(address.to_owned()).to_string(), commit: None, quant: None, files })
    }
}

/// Notes a choice that the user did not make.
fn say(name: &HubName, chosen: &Model, reason: Reason, models: &[Model]) {
    let quant = chosen.quant.as_deref().unwrap_or("a file without a quantisation in its name");
    if reason == Reason::Instead {
        note(format_args!("{} has no Q4_K_M: taking {quant}; it has {}", name.repo, listed(models)));
    }
    // A file says all.
    if name.part.as_ref().is_some_and(|part| part.to_lowercase().ends_with(".gguf")) {
        return;
    }
    let others = models.iter().filter(|other| other.quant == chosen.quant && other.files != chosen.files);
    let others: Vec<&str> = others.filter_map(|other| Some(other.files.first()?.0.as_str())).collect();
    if let (false, Some((file, _))) = (others.is_empty(), chosen.files.first()) {
        note(format_args!("taking {file}; others in {quant} are {}", others.join(", ")));
    }
}

/// The quantisations with their sizes.
pub(super) fn listed(models: &[Model]) -> String {
    let label = |model: &Model| {
        let file = model.files.first().map_or("", |(name, _)| name.as_str());
        let name = model.quant.as_deref().unwrap_or(file);
        model.bytes().map_or_else(|| name.to_owned(), |bytes| format!("{name} ({})", size(bytes)))
    };
    models.iter().map(label).collect::<Vec<_>>().join(", ")
}
