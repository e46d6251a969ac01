//! The commands about models as files: `pull`, `list`, `show`, `rm` and `where`.

pub(crate) mod show;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use hub::{Cache, Fetched, FileName, Settings};
use serde_json::json;

use super::fetch::{Hub, Pulled};
use super::name::HubName;
use super::stores::{self, Held, Origin};
use super::{Target, ask, can_ask, nearest, note_short};
use crate::output::{self, Usage, counted, note, printable, size};

/// Whether what is here must do, because there is no network or it fails.
fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &hub::Error| {
        error.is_network_error() || matches!(error, hub::Error::Offline { .. })
    })
}

/// The model of an address, if it is here.
fn downloaded(address: &str) -> anyhow::Result<Option<Held>> {
    stores::address_files(address)?;
    Ok(stores::address_models().into_iter().find(|held| held.name == address))
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lists models in the cache of Hugging Face (HF_HOME, HF_HUB_CACHE), in ~/.rustorch/models, those that
were downloaded from addresses, and those of ollama (OLLAMA_MODELS) and LM Studio, which are used in
place. Every name can be given to -m, that of a checkpoint to `rustorch convert`.")]
pub(crate) struct ListArgs {
    /// Print a JSON array: names, files, sizes
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: ListArgs) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let (models, checkpoints) = (stores::all(&settings)?, stores::checkpoints(&settings)?);
    let models = models.into_iter().map(|held| ("model", held));
    let held: Vec<_> = models.chain(checkpoints.into_iter().map(|held| ("checkpoint", held))).collect();
    if args.json {
        let json = |(kind, held): &(&str, Held)| {
            let Held { name, quant, files, bytes, origin } = held;
            let from = origin.label();
            json!({ "name": name, "kind": kind, "quant": quant, "bytes": bytes, "from": from, "files": files })
        };
        return output::json(&held.iter().map(json).collect::<Vec<_>>());
    }
    if held.is_empty() {
        note(format_args!("no models yet; `rustorch pull qwen3:0.6b` downloads a small one"));
        return Ok(());
    }
    let head = ["NAME", "QUANT", "SIZE", "FROM"].map(str::to_owned);
    let row = |(kind, held): &(&str, Held)| {
        let quant = held.quant.as_deref().unwrap_or(if *kind == "checkpoint" { kind } else { "-" });
        [printable(&held.name, ""), printable(quant, ""), size(held.bytes), held.origin.label().to_owned()]
    };
    let rows: Vec<_> = [head].into_iter().chain(held.iter().map(row)).collect();
    output::write_all(output::columns(&rows, &[2]).as_bytes())?;
    let total: u64 = held.iter().map(|(_, held)| held.bytes).sum();
    let of = |kind: &str| held.iter().filter(|(own, _)| *own == kind).count() as u64;
    let checkpoints = match of("checkpoint") {
        0 => String::new(),
        number => format!(", {}", counted(number, "checkpoint")),
    };
    note(format_args!("{}{checkpoints}, {}", counted(of("model"), "model"), size(total)));
    Ok(())
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Names are user/repo[:QUANT] on Hugging Face, also as hf.co/user/repo or its address, addresses of
GGUF files, and short names such as qwen3:0.6b. Without QUANT, it is Q4_K_M, or else what there is.
The path goes to stdout. An interrupted download continues where it stopped. Models are in the
cache of huggingface_hub (HF_HOME, HF_HUB_CACHE); HF_TOKEN, HF_ENDPOINT and HTTPS_PROXY are obeyed.")]
pub(crate) struct PullArgs {
    /// The model
    name: PathBuf,
    /// Never use the network: the path of what is here
    #[arg(long)]
    offline: bool,
    /// Print one JSON object: name, commit, files
    #[arg(long)]
    json: bool,
}

pub(crate) fn pull(args: PullArgs) -> anyhow::Result<()> {
    let hub = Hub::open(args.offline)?;
    let pulled = match Target::of(&args.name)? {
        Target::Hub(name) => {
            note_short(&args.name, &name);
            match hub.plan(&name) {
                Ok(plan) => hub.pull(&plan)?,
                Err(error) => match stores::find(&hub.settings, &name)?.filter(|_| is_unreachable(&error)) {
                    Some((held, _)) => {
                        if !hub.settings.offline {
                            note(format_args!("{}; taking what is here", output::message(&error)));
                        }
                        here(held)
                    }
                    None => return Err(suggest(error, &name.to_string(), &hub)),
                },
            }
        }
        Target::Address(address) => hub.pull_address(&address)?,
        Target::File(path) => {
            let what = if path.exists() { "is a file here already" } else { "is a path" };
            let path = path.display();
            bail!(Usage(format!("{path} {what}; expected user/repo, a short name or an address")));
        }
        Target::Held(held) => {
            note(format_args!("{} is from {}, which updates it", held.name, held.origin.label()));
            here(held)
        }
    };
    if args.json {
        let Pulled { name, commit, quant, files } = &pulled;
        let file = |Fetched { path, bytes, transferred }: &Fetched| json!({ "path": path, "bytes": bytes, "transferred": transferred });
        let files: Vec<_> = files.iter().map(file).collect();
        output::json(&json!({ "name": name, "commit": commit, "quant": quant, "files": files }))?
    } else {
        let transferred: u64 = pulled.files.iter().map(|file| file.transferred).sum();
        let bytes: u64 = pulled.files.iter().map(|file| file.bytes).sum();
        let is_here = if transferred == 0 { "was here" } else { "is here" };
        note(format_args!("{} {is_here}: {}", pulled.name, size(bytes)));
        output::write_all(format!("{}\n", pulled.path().display()).as_bytes())?;
    }
    Ok(())
}

/// A model of which nothing needs to come.
fn here(held: Held) -> Pulled {
    let bytes = |path: &PathBuf| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let file = |path: &PathBuf| Fetched { path: path.clone(), bytes: bytes(path), transferred: 0 };
    let files = held.files.iter().map(file).collect();
    Pulled { name: held.name, commit: None, quant: held.quant, files }
}

/// `error` with a similar name, if the repository is missing.
fn suggest(error: anyhow::Error, name: &str, hub: &Hub) -> anyhow::Error {
    match error.downcast_ref() {
        Some(hub::Error::NoRepository { .. } | hub::Error::NoToken { .. }) => {
            match &*nearest(name, &hub.settings) {
                "" => error,
                near => anyhow!("{error}{near}"),
            }
        }
        _ => error,
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
user/repo removes all models of a repository from the cache of Hugging Face, and its checkpoint,
user/repo:QUANT one model.
Models of ollama and LM Studio, and your own files, are never removed.")]
pub(crate) struct RmArgs {
    /// The model
    name: PathBuf,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(crate) fn rm(args: RmArgs) -> anyhow::Result<()> {
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
    for other in &held {
        let (name, whose) = (&other.name, other.origin.label());
        match other.origin {
            Origin::HuggingFace { .. } | Origin::Address { .. } => {}
            Origin::Ollama => bail!("{name} belongs to {whose}; `ollama rm {name}` removes it"),
            _ => bail!("{name} belongs to {whose}; remove it there: {}", other.path().display()),
        }
    }
    let bytes: u64 = held.iter().map(|held| held.bytes).sum();
    let names: Vec<&str> = held.iter().map(|held| held.name.as_str()).collect();
    let what = format!("{} ({})", names.join(", "), size(bytes));
    if !args.yes && !can_ask() {
        bail!(Usage(format!("to remove {what}, add --yes")));
    }
    if !args.yes && !ask(&format!("Remove {what}?"), false)? {
        bail!("nothing is removed");
    }
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
    Ok(())
}

/// All models and the checkpoint of a repository in the cache, or the one that is named, be it another program's.
fn hub_models(settings: &Settings, name: &HubName) -> anyhow::Result<Vec<Held>> {
    if name.part.is_none() {
        let cache = Cache::new(&settings.cache);
        let mut cached = stores::cached(&cache, &name.repo)?;
        cached.extend(stores::checkpoint(&cache, &name.repo)?);
        cache.check_idle(&name.repo)?;
        if !cached.is_empty() {
            return Ok(cached);
        }
    }
    Ok(stores::find(settings, name)?.map(|(held, _)| held).into_iter().collect())
}

/// Removes what an interrupted download left.
fn remove_unfinished(args: &RmArgs, settings: &Settings) -> anyhow::Result<()> {
    if let Target::Hub(name) = Target::of(&args.name)? {
        let cache = Cache::new(&settings.cache);
        let freed = cache.remove_unfinished(&name.repo)?;
        // With no files, this removes the empty folders.
        cache.remove(&name.repo, &[] as &[FileName])?;
        if freed > 0 {
            note(format_args!("removed an unfinished download of {}", name.repo));
            return Ok(());
        }
    }
    bail!("{} is not on this machine; `rustorch list` shows what is", args.name.display())
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhereArgs {
    /// The model, as for -m
    name: PathBuf,
}

pub(crate) fn where_is(args: WhereArgs) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let missing =
        || format!("{0} is not on this machine; `rustorch pull {0}` downloads it", args.name.display());
    let path = match Target::of(&args.name)? {
        Target::File(path) if path.exists() => path,
        Target::File(path) => bail!("{} does not exist", path.display()),
        Target::Held(held) => held.path().to_owned(),
        Target::Hub(name) => stores::find(&settings, &name)?.with_context(missing)?.0.path().to_owned(),
        Target::Address(address) => stores::find_address(&address)?.with_context(missing)?,
    };
    Ok(output::write_all(format!("{}\n", path.display()).as_bytes())?)
}
