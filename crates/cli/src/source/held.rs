//! A model on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use hub::choice::{self, Model};
use hub::{FileName, RepoId};

/// A model on this machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    /// What `-m` takes.
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

/// The models in a folder, with their paths.
pub(super) fn models_in(folder: &Path) -> Vec<(Model, Vec<PathBuf>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let metadata = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().to_str()?.parse().ok()?, Some(metadata.len())))
    });
    let path = |name: FileName| folder.join(name.as_str());
    let models = choice::models(files).into_iter();
    models
        .map(|model| {
            let files = model.names().into_iter().map(path).collect();
            (model, files)
        })
        .collect()
}
