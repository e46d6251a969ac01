//! `rustorch rm`: removes what was downloaded. Models of other programs stay.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use hub::{Cache, FileName, Settings};

use super::super::held::{Held, Origin};
use super::super::name::HubName;
use super::super::{ask, can_ask, checkpoints, stores};
use super::{Target, downloaded};
use crate::output::{Usage, note, size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
user/repo removes all models of a repository from the cache of Hugging Face, and its checkpoint,
user/repo:QUANT one model.
Models of ollama and LM Studio, and your own files, are never removed.")]
pub(crate) struct Args {
    /// The model
    name: PathBuf,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::from_env()?;
    let held = match Target::of(&args.name)? {
        Target::Hub(name) => hub_models(&settings, &name)?,
        Target::Address(address) => downloaded(&address)?.into_iter().collect(),
        Target::Held(held) => vec![held],
        Target::File(path) => bail!("{} is your own file; remove it as any other", path.display()),
    };
    if held.is_empty() {
        return remove_unfinished(&args, &settings);
    }
    if let Some(other) = held.iter().find(|held| !is_ours(held)) {
        let (name, whose) = (&other.name, other.origin.label());
        match other.origin {
            Origin::Ollama => bail!("{name} belongs to {whose}; `ollama rm {name}` removes it"),
            _ => bail!("{name} belongs to {whose}; remove it there: {}", other.path().display()),
        }
    }
    let bytes: u64 = held.iter().map(|held| held.bytes).sum();
    let names: Vec<&str> = held.iter().map(|held| held.name.as_str()).collect();
    consent(&args, &format!("{} ({})", names.join(", "), size(bytes)))?;
    let cache = Cache::new(&settings.cache);
    let mut freed = 0;
    for held in &held {
        freed += match &held.origin {
            Origin::HuggingFace { repo, names } => cache.remove(repo, names)?,
            Origin::Address { folder } => {
                fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
                held.bytes
            }
            Origin::Folder | Origin::File | Origin::Ollama | Origin::LmStudio => 0,
        };
    }
    note(format_args!("removed {}: {} are free again", names.join(", "), size(freed)));
    Ok(ExitCode::SUCCESS)
}

fn is_ours(held: &Held) -> bool {
    matches!(held.origin, Origin::HuggingFace { .. } | Origin::Address { .. })
}

/// All models and the checkpoint of a repository in the cache, or the one that is named, be it another program's.
fn hub_models(settings: &Settings, name: &HubName) -> anyhow::Result<Vec<Held>> {
    if name.part.is_none() {
        let cache = Cache::new(&settings.cache);
        let mut cached = stores::cached(&cache, &name.repo)?;
        cached.extend(checkpoints::cached(&cache, &name.repo)?);
        cache.check_idle(&name.repo)?;
        if !cached.is_empty() {
            return Ok(cached);
        }
    }
    Ok(stores::find(settings, name)?.map(|(held, _)| held).into_iter().collect())
}

/// Removes what an interrupted download left.
fn remove_unfinished(args: &Args, settings: &Settings) -> anyhow::Result<ExitCode> {
    if let Target::Hub(name) = Target::of(&args.name)? {
        let cache = Cache::new(&settings.cache);
        let freed = cache.remove_unfinished(&name.repo)?;
        // With no files, this removes the empty folders.
        cache.remove(&name.repo, &[] as &[FileName])?;
        if freed > 0 {
            note(format_args!("removed an unfinished download of {}", name.repo));
            return Ok(ExitCode::SUCCESS);
        }
    }
    bail!("{} is not on this machine; `rustorch list` shows what is", args.name.display())
}

fn consent(args: &Args, what: &str) -> anyhow::Result<()> {
    match (args.yes, can_ask()) {
        (true, _) => Ok(()),
        (false, true) if ask(&format!("Remove {what}?"), false)? => Ok(()),
        (false, true) => bail!("nothing is removed"),
        (false, false) => Err(Usage(format!("to remove {what}, add --yes")).into()),
    }
}
