//! From a model's name to its file: on this machine, or downloaded.

mod addresses;
pub(crate) mod args;
mod checkpoints;
pub(crate) mod commands;
pub(crate) mod fetch;
mod held;
pub(crate) mod name;
mod ollama;
mod progress;
pub(crate) mod short;
pub(crate) mod stores;
pub(crate) mod suggest;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use hub::Settings;
use hub::choice::Reason;

use crate::args::ModelArgs;
use crate::cli_errors::is_near;
use crate::interrupt::{self, Farewell};
use crate::output::{note, printable, size};
use crate::{folders, terminal};
use args::{DownloadArgs, NetworkArgs};
use fetch::Hub;
use held::Held;
use name::{HubName, Name};

/// What a name stands for, without the network.
pub(crate) enum Target {
    /// On the hub, possibly here, too.
    Hub(HubName),
    Address(String),
    /// Of another program or a folder.
    Held(Held),
    File(PathBuf),
}

impl Target {
    pub(crate) fn of(typed: &Path) -> anyhow::Result<Target> {
        Ok(match Name::of(typed)? {
            // A name of ollama may have several slashes.
            Name::File(path) => match typed.to_str().filter(|_| !path.exists()).and_then(ollama::find) {
                Some(held) => Target::Held(held),
                None => Target::File(path),
            },
            Name::Hub(name) => Target::Hub(name),
            Name::Address(address) => Target::Address(address),
            Name::Short(name) => {
                if let Some(path) = in_folder(&name) {
                    return Ok(Target::File(path));
                }
                match (short::find(&name), ollama::find(&name)) {
                    (Some(target), None) => Target::Hub(target),
                    (Some(target), Some(_)) if stores::find(&Settings::from_env()?, &target)?.is_some() => {
                        Target::Hub(target)
                    }
                    (_, Some(held)) => Target::Held(held),
                    (None, None) => return Err(unknown(&name)),
                }
            }
        })
    }
}

/// The file of the model that `args` name; `None` for the embedded one.
pub(crate) fn locate(args: &ModelArgs) -> anyhow::Result<Option<PathBuf>> {
    let DownloadArgs { network, hf_repo, hf_file, model_url } = &args.open.download;
    // As in llama.cpp, which does not ask.
    let agreed = NetworkArgs { yes: true, ..*network };
    if let Some(repo) = hf_repo {
        let mut name = match Name::of(Path::new(repo))? {
            Name::Hub(name) => name,
            _ => HubName::of(repo)?,
        };
        name.part = hf_file.clone().or(name.part);
        return hub_file(&name.to_string(), &name, agreed).map(Some);
    }
    if let Some(address) = model_url {
        return match Name::of(Path::new(address))? {
            Name::Hub(name) => hub_file(&name.to_string(), &name, agreed),
            _ => address_file(address, agreed),
        }
        .map(Some);
    }
    let Some(named) = &args.model else { return Ok(None) };
    checkpoints::refuse(&folders::expand(named))?;
    match Target::of(named)? {
        Target::File(path) => match near_file(&path).filter(|_| !path.exists()) {
            Some(near) => bail!("there is no file {}; did you mean {}?", path.display(), near.display()),
            None => Ok(path),
        },
        Target::Hub(name) => hub_file(&note_short(named, &name), &name, *network),
        Target::Address(address) => address_file(&address, *network),
        Target::Held(held) => {
            if named.components().count() == 1 {
                note(format_args!("{} is {}, from {}", named.display(), held.name, held.origin.label()));
            }
            Ok(held.path().to_owned())
        }
    }
    .map(Some)
}

/// Says what a short name stands for. Returns what the user calls the model.
fn note_short(typed: &Path, name: &HubName) -> String {
    let typed = typed.to_string_lossy();
    if short::find(&typed).as_ref() != Some(name) {
        return name.to_string();
    }
    note(format_args!("{typed} is {name}"));
    typed.into_owned()
}

/// A GGUF file beside `path` that was probably meant.
fn near_file(path: &Path) -> Option<PathBuf> {
    let typed = path.file_name()?.to_str()?.to_lowercase();
    let folder = path.parent().unwrap_or(Path::new(""));
    let entries = fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let near = names.filter(|name| {
        let name = name.to_lowercase();
        name.ends_with(".gguf") && is_near(&typed, &name)
    });
    Some(folder.join(near.min_by_key(|name| strsim::damerau_levenshtein(&typed, &name.to_lowercase()))?))
}

/// The file of a repository; `typed` is what the user calls it.
fn hub_file(typed: &str, name: &HubName, network: NetworkArgs) -> anyhow::Result<PathBuf> {
    let settings = Settings::from_env()?;
    if let Some((held, reason)) = stores::find(&settings, name)? {
        if reason == Reason::Instead {
            note(format_args!(
                "taking {}, which is here; `rustorch pull {name}` gets the usual one",
                held.name
            ));
        }
        return Ok(held.path().to_owned());
    }
    check_network(typed, &settings, network, || {
        let near = nearest(&name.to_string(), &settings);
        format!("`rustorch pull {typed}` downloads it, and so does --yes{near}")
    })?;
    let hub = Hub::open(network.offline)?;
    let plan = hub.plan(name)?;
    let bytes = plan.chosen.bytes().map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
    let quant = plan.chosen.quant.as_deref().map_or_else(String::new, |quant| format!(" in {quant}"));
    agree(typed, &format!("{}{quant}{bytes}", name.repo), network)?;
    Ok(hub.pull(&plan)?.path())
}

fn address_file(address: &str, network: NetworkArgs) -> anyhow::Result<PathBuf> {
    if let Some(path) = addresses::find(address)? {
        return Ok(path);
    }
    check_network(address, &Settings::from_env()?, network, || {
        "`rustorch pull` with this address downloads it, and so does --yes".to_owned()
    })?;
    agree(address, &printable(address, ""), network)?;
    Ok(Hub::open(network.offline)?.pull_address(address)?.path())
}

/// Fails if the model `typed` cannot be downloaded: offline, or if nobody can be asked.
fn check_network(
    typed: &str,
    settings: &Settings,
    network: NetworkArgs,
    advice: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if network.offline || settings.offline {
        return Err(hub::Error::Offline { what: typed.to_owned() }.into());
    }
    if !network.yes && !can_ask() {
        bail!("{typed} is not on this machine; {}", advice());
    }
    Ok(())
}

fn agree(typed: &str, what: &str, network: NetworkArgs) -> anyhow::Result<()> {
    if !network.yes && !ask(&format!("Download {what}?"), true)? {
        bail!("{typed} is not on this machine");
    }
    Ok(())
}

/// The file `name` or `name.gguf` in `~/.rustorch/models`.
fn in_folder(name: &str) -> Option<PathBuf> {
    let folder = folders::models()?;
    [folder.join(name), folder.join(format!("{name}.gguf"))].into_iter().find(|path| path.is_file())
}

/// An error about a name without a slash that nothing has.
fn unknown(name: &str) -> anyhow::Error {
    let tags = short::tags(name);
    if !tags.is_empty() {
        return anyhow::anyhow!("no model `{name}`; there are {}", tags.join(", "));
    }
    let near = match near_file(Path::new(name)) {
        Some(near) => format!("; did you mean {}?", near.display()),
        None => Settings::from_env().map(|settings| nearest(name, &settings)).unwrap_or_default(),
    };
    let folder = folders::models().map_or_else(String::new, |folder| format!(" or in {}", folder.display()));
    anyhow::anyhow!(
        "no model `{name}` here{folder}; give its path, a repository as user/repo, or a name that `rustorch list` \
         shows{near}"
    )
}

/// Suggests the name that was probably meant.
fn nearest(typed: &str, settings: &Settings) -> String {
    let typed = typed.to_lowercase();
    let held = stores::all(settings).unwrap_or_default();
    let names = held.iter().map(|held| held.name.as_str()).chain(short::all().map(|(name, _)| name));
    // Of repositories also without the quantisation.
    let names = names.flat_map(|name| [Some(name), name.split_once(':').map(|(repo, _)| repo)]).flatten();
    let near = names.filter(|name| is_near(&typed, &name.to_lowercase()) && *name != typed);
    let nearest = near.min_by_key(|name| strsim::damerau_levenshtein(&typed, &name.to_lowercase()));
    nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
}

fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question on the terminal; Enter alone means `default`.
fn ask(question: &str, default: bool) -> anyhow::Result<bool> {
    terminal::restore();
    interrupt::install()?;
    // Ctrl-C and Ctrl-D end the line that the question begins.
    let _farewell = Farewell::begin("");
    let mut stderr = anstream::stderr();
    write!(stderr, "{question} [{}] ", if default { "Y/n" } else { "y/N" })?;
    stderr.flush()?;
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer)?;
    if read == 0 {
        note(format_args!(""));
    }
    Ok(match answer.trim().to_lowercase().as_str() {
        "" => default && read > 0,
        answer => ["y", "yes"].contains(&answer),
    })
}
