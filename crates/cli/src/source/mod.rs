//! From a model's name to its file: on this machine, or downloaded.

mod addresses;
pub(crate) mod args;
mod checkpoints;
pub(crate) mod commands;
pub(crate) mod fetch;
mod held;
pub(crate) mod known;
pub(crate) mod name;
mod ollama;
mod progress;
mod short;
mod stores;
pub(crate) mod suggest;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use hub::Settings;
use hub::choice::Reason;

use crate::args::ModelArgs;
use crate::interrupt::{self, Farewell};
use crate::mistakes::is_near;
use crate::output::{note, printable, size};
use crate::{folders, terminal};
use args::{DownloadArgs, NetworkArgs};
use fetch::Hub;
use held::Held;
use name::{HubName, Name};

/// The file of the model that `args` name; `None` for the embedded one.
pub(crate) fn locate(args: &ModelArgs) -> anyhow::Result<Option<PathBuf>> {
    let DownloadArgs { network: NetworkArgs { yes, offline }, hf_repo, hf_file, model_url } =
        &args.open.download;
    let consent = if *yes { Consent::Given } else { Consent::Ask };
    if let Some(repo) = hf_repo {
        let mut name = match Name::of(Path::new(repo))? {
            Name::Hub(name) => name,
            _ => HubName::of(repo)?,
        };
        name.part = hf_file.clone().or(name.part);
        // As in llama.cpp, which does not ask.
        return of_hub(&name.to_string(), &name, Consent::Given, *offline).map(Some);
    }
    if let Some(address) = model_url {
        return match Name::of(Path::new(address))? {
            Name::Hub(name) => of_hub(&name.to_string(), &name, Consent::Given, *offline),
            _ => of_address(address, Consent::Given, *offline),
        }
        .map(Some);
    }
    let Some(named) = &args.model else { return Ok(None) };
    checkpoints::refuse(&folders::expand(named))?;
    match Name::of(named)? {
        Name::File(path) => of_file(named, path),
        Name::Hub(name) => of_hub(&name.to_string(), &name, consent, *offline),
        Name::Address(address) => of_address(&address, consent, *offline),
        Name::Short(name) => of_short(&name, consent, *offline),
    }
    .map(Some)
}

/// A path, or a name of ollama with several slashes.
fn of_file(typed: &Path, path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    if let Some(held) = typed.to_str().and_then(ollama::find) {
        return Ok(held.path().to_owned());
    }
    if let Some(near) = near_file(&path) {
        bail!("there is no file {}; did you mean {}?", path.display(), near.display());
    }
    Ok(path)
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

/// Whether to download what is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    Given,
    Ask,
}

/// The file of a repository; `typed` is what the user calls it.
fn of_hub(typed: &str, name: &HubName, consent: Consent, is_offline: bool) -> anyhow::Result<PathBuf> {
    let settings = Settings::from_env()?;
    if let Some((held, reason)) = stores::of_hub(&settings, name)? {
        if reason == Reason::Instead {
            note(format_args!(
                "taking {}, which is here; `rustorch pull {name}` gets the usual one",
                held.name
            ));
        }
        return Ok(held.path().to_owned());
    }
    if consent == Consent::Ask && (is_offline || settings.offline || !can_ask()) {
        if is_offline || settings.offline {
            return Err(hub::Error::Offline { what: typed.to_owned() }.into());
        }
        let near = nearest(&name.to_string(), &settings);
        bail!(
            "{typed} is not on this machine; `rustorch pull {typed}` downloads it, and so does --yes{near}"
        );
    }
    let hub = Hub::open(is_offline)?;
    let plan = hub.plan(name)?;
    let bytes = plan.chosen.bytes().map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
    let quant = plan.chosen.quant.as_deref().map_or_else(String::new, |quant| format!(" in {quant}"));
    if consent == Consent::Ask && !ask(&format!("Download {}{quant}{bytes}?", name.repo), true)? {
        bail!("{typed} is not on this machine");
    }
    Ok(hub.pull(&plan)?.path())
}

fn of_address(address: &str, consent: Consent, is_offline: bool) -> anyhow::Result<PathBuf> {
    if let Some(path) = addresses::find(address)? {
        return Ok(path);
    }
    if is_offline || Settings::from_env()?.offline {
        return Err(hub::Error::Offline { what: address.to_owned() }.into());
    }
    if consent == Consent::Ask && !can_ask() {
        bail!(
            "{address} is not on this machine; `rustorch pull` with this address downloads it, and so does --yes"
        );
    }
    if consent == Consent::Ask && !ask(&format!("Download {}?", printable(address, "")), true)? {
        bail!("{address} is not on this machine");
    }
    Ok(Hub::open(is_offline)?.pull_address(address)?.path())
}

fn of_short(name: &str, consent: Consent, is_offline: bool) -> anyhow::Result<PathBuf> {
    if let Some(path) = in_folder(name) {
        return Ok(path);
    }
    let Some(target) = short::find(name) else {
        return match ollama::find(name) {
            Some(held) => Ok(say_where(name, &held)),
            None => Err(unknown(name)),
        };
    };
    let settings = Settings::from_env()?;
    if stores::of_hub(&settings, &target)?.is_none()
        && let Some(held) = ollama::find(name)
    {
        return Ok(say_where(name, &held));
    }
    note(format_args!("{name} is {target}"));
    of_hub(name, &target, consent, is_offline)
}

/// The file `name` or `name.gguf` in `~/.rustorch/models`.
fn in_folder(name: &str) -> Option<PathBuf> {
    let folder = folders::models()?;
    [folder.join(name), folder.join(format!("{name}.gguf"))].into_iter().find(|path| path.is_file())
}

fn say_where(name: &str, held: &Held) -> PathBuf {
    note(format_args!("{name} is {}, from {}", held.name, held.origin.label()));
    held.path().to_owned()
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
