//! Downloads.

use std::collections::HashSet;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use hub::choice::{self, Model, Reason};
use hub::{Cache, Client, Event, Fetched, FileName, RepoId, Revision, Settings, Snapshot};
use indicatif::ProgressBar;

use super::name::HubName;
use super::stores::{self, ADDRESS, WEIGHTS};
use crate::interrupt;
use crate::output::{self, note, printable, size};

/// Ctrl-C says this when it ends a download.
const CONTINUES: &str = "interrupted; the same command continues where the download stopped";

/// The hub and the cache.
pub(crate) struct Hub {
    pub(crate) settings: Settings,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
}

/// The files of a repository, and the model to download.
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
        let _farewell = interrupt::farewell(CONTINUES)?;
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
            None if !models.is_empty() => {
                let part = name.part.as_deref().unwrap_or_default();
                bail!("{} has no `{part}`; it has {}", name.repo, listed(&models))
            }
            None if snapshot.files.iter().any(|file| file.name.as_str().ends_with(WEIGHTS)) => bail!(
                "{0} has a checkpoint, not a GGUF file; `rustorch convert {0} OUT.gguf` makes one of it",
                name.repo
            ),
            None => bail!(
                "{} has no GGUF file; repositories with models in this format often end in -GGUF",
                name.repo
            ),
        };
        Ok(Plan { snapshot, models, chosen })
    }

    /// Downloads what is missing of a plan.
    pub(crate) fn pull(&self, plan: &Plan) -> anyhow::Result<Pulled> {
        let Plan { snapshot, models, chosen } = plan;
        let files = self.fetch(snapshot, &chosen.names())?;
        Ok(Pulled {
            name: stores::name_in(&snapshot.repo, chosen, models),
            commit: Some(snapshot.commit.to_string()),
            quant: chosen.quant.clone(),
            files,
        })
    }

    /// Downloads from an address that is not on the hub.
    pub(crate) fn pull_address(&self, address: &str) -> anyhow::Result<Pulled> {
        let _farewell = interrupt::farewell(CONTINUES)?;
        let (folder, files) = stores::address_files(address)?;
        let mut fetched = Vec::new();
        for (number, (name, from)) in files.iter().enumerate() {
            let progress = Progress::new();
            progress.begin(number, files.len(), name.as_str());
            let path = folder.join(name.as_str());
            fetched.push(self.client.pull_address(from, &path, &|event| progress.on(event))?);
        }
        // Last: an address without a file names nothing.
        fs::write(folder.join(ADDRESS), address)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        Ok(Pulled { name: address.to_owned(), commit: None, quant: None, files: fetched })
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

pub(super) fn listed(models: &[Model]) -> String {
    let label = |model: &Model| {
        let file = model.files.first().map_or("", |(name, _)| name.as_str());
        let name = model.quant.as_deref().unwrap_or(file);
        model.bytes().map_or_else(|| name.to_owned(), |bytes| format!("{name} ({})", size(bytes)))
    };
    models.iter().map(label).collect::<Vec<_>>().join(", ")
}

const TRANSFER: &str =
    "{msg} {bar:20} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
const CHECK: &str = "checking {msg} {bar:20} {binary_bytes} of {binary_total_bytes}";

/// The progress of downloads on stderr: a bar for one file after the other on a terminal, else a line at the beginning of each.
struct Progress {
    bar: ProgressBar,
    /// The bar's template.
    stage: Mutex<&'static str>,
    /// Lines about failures: several connections have the same one.
    said: Mutex<HashSet<String>>,
}

impl Progress {
    fn new() -> Progress {
        let bar = output::show(ProgressBar::no_length(), "{msg}");
        Progress { bar, stage: Mutex::default(), said: Mutex::default() }
    }

    fn begin(&self, number: usize, of: usize, name: &str) {
        let name = printable(name.rsplit('/').next().unwrap_or(name), "");
        self.bar.set_message(if of > 1 { format!("{name} ({} of {of})", number + 1) } else { name });
    }

    fn on(&self, event: Event<'_>) {
        match event {
            Event::File { number, of, name } => self.begin(number, of, name),
            Event::Waiting => self.say("another process downloads this file; waiting for it"),
            Event::Started { done, total } => {
                self.stage(TRANSFER, done, total);
                self.bar.reset_eta();
                if done > 0 {
                    self.say(&format!("continuing after {} of {}", size(done), size(total)));
                } else if !stderr().is_terminal() {
                    note(format_args!("downloading {}, {}", self.bar.message(), size(total)));
                }
            }
            Event::Received { done, total } => self.stage(TRANSFER, done, total),
            Event::Checked { done, total } => self.stage(CHECK, done, total),
            Event::Retrying { error, wait } => {
                let why = output::message(&anyhow::Error::msg(error.to_string()));
                let line = format!("{why}; trying again in {:.0} s", wait.as_secs_f64());
                if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
                    self.say(&line);
                }
            }
            _ => {}
        }
    }

    fn stage(&self, next: &'static str, done: u64, total: u64) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if *stage != next {
            *stage = next;
            self.bar.set_length(total);
            output::restyle(&self.bar, next);
        }
        self.bar.set_position(done);
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| note(format_args!("{line}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
