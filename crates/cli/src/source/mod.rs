//! From a model's name to its file: on this machine, or downloaded.

pub(crate) mod commands;
pub(crate) mod fetch;
pub(crate) mod name;
pub(crate) mod stores;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use backend::host_memory;
use gguf::Gguf;
use hub::Settings;
use hub::choice::Reason;

use crate::args::{ModelArgs, NetworkArgs, OpenArgs};
use crate::output::{note, printable, size};
use crate::{cli_errors, files, interrupt};
use fetch::Hub;
use name::{HubName, Name};
use stores::Held;

/// The meaning of a name, without the network.
pub(crate) enum Target {
    /// On the hub, possibly here, too.
    Hub(HubName),
    Address(String),
    /// A model of another program.
    Held(Held),
    File(PathBuf),
}

impl Target {
    pub(crate) fn of(typed: &Path) -> anyhow::Result<Target> {
        Ok(match Name::of(typed)? {
            // A name of ollama may have several slashes.
            Name::File(path) => {
                match typed.to_str().filter(|_| !path.exists()).and_then(stores::find_in_ollama) {
                    Some(held) => Target::Held(held),
                    None => Target::File(path),
                }
            }
            Name::Hub(name) => Target::Hub(name),
            Name::Address(address) => Target::Address(address),
            Name::Short(name) => {
                let paths = [name.clone(), format!("{name}.gguf")];
                let mut paths = paths.iter().filter_map(|name| Some(files::models_folder()?.join(name)));
                if let Some(path) = paths.find(|path| path.is_file()) {
                    return Ok(Target::File(path));
                }
                match (name::find_short(&name), stores::find_in_ollama(&name)) {
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

/// The meaning of a word where a model or a prompt may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Model,
    Prompt,
    /// It looks like the name of a model, but none has it.
    Unclear,
}

impl Word {
    pub(crate) fn of(typed: &Path) -> Word {
        let Some(text) = typed.to_str().filter(|_| !files::expand(typed).is_file()) else {
            return Word::Model;
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.:/\\@~+".contains(c);
        if text.is_empty() || !text.chars().all(is_name) {
            let is_model = text.to_lowercase().ends_with(".gguf") || text.starts_with("https://");
            return if is_model { Word::Unclear } else { Word::Prompt };
        }
        match Name::of(typed) {
            Ok(Name::Short(name)) if Target::of(typed).is_ok() || !name::short_tags(&name).is_empty() => {
                Word::Model
            }
            Ok(Name::Short(name)) => {
                let is_plain = name.trim_end_matches('.').chars().all(char::is_alphabetic);
                let is_misspelt = || Settings::from_env().is_ok_and(|here| !nearest(&name, &here).is_empty());
                if is_plain && !is_misspelt() { Word::Prompt } else { Word::Unclear }
            }
            _ => Word::Model,
        }
    }
}

/// The file of the model that `args` name; `None` for the embedded one.
pub(crate) fn locate(args: &ModelArgs) -> anyhow::Result<Option<PathBuf>> {
    let OpenArgs { network, hf_repo, hf_file, model_url, .. } = &args.open;
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
    stores::refuse_checkpoint(&files::expand(named))?;
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
    if name::find_short(&typed).as_ref() != Some(name) {
        return name.to_string();
    }
    note(format_args!("{typed} is {name}"));
    typed.into_owned()
}

/// A GGUF file beside `path` that was probably meant.
fn near_file(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let entries = fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| name.to_lowercase().ends_with(".gguf"));
    Some(folder.join(cli_errors::nearest(path.file_name()?.to_str()?, names)?))
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
    if let Some(path) = stores::find_address(address)? {
        return Ok(path);
    }
    check_network(address, &Settings::from_env()?, network, || {
        "`rustorch pull` with this address downloads it, and so does --yes".to_owned()
    })?;
    agree(address, &printable(address, ""), network)?;
    Ok(Hub::open(network.offline)?.pull_address(address)?.path())
}

/// Fails if the model `typed` cannot be downloaded: offline, or if the user cannot be asked.
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

/// An error about a name without a slash that nothing has.
fn unknown(name: &str) -> anyhow::Error {
    let tags = name::short_tags(name);
    if !tags.is_empty() {
        return anyhow::anyhow!("no model `{name}`; there are {}", tags.join(", "));
    }
    let near = match near_file(Path::new(name)) {
        Some(near) => format!("; did you mean {}?", near.display()),
        None => Settings::from_env().map(|settings| nearest(name, &settings)).unwrap_or_default(),
    };
    let folder =
        files::models_folder().map_or_else(String::new, |folder| format!(" or in {}", folder.display()));
    anyhow::anyhow!(
        "no model `{name}` here{folder}; give its path, a repository as user/repo, or a name that `rustorch list` \
         shows{near}"
    )
}

/// Suggests the name that was probably meant.
fn nearest(typed: &str, settings: &Settings) -> String {
    let held = stores::all(settings).unwrap_or_default();
    let names = held.iter().map(|held| held.name.as_str()).chain(name::short_names().map(|(name, _)| name));
    // Names of repositories also without the quantisation.
    let names = names.flat_map(|name| [Some(name), name.split_once(':').map(|(repo, _)| repo)]).flatten();
    cli_errors::did_you_mean(typed, names.filter(|name| *name != typed.to_lowercase()))
}

fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question on the terminal; Enter alone means `default`.
pub(crate) fn ask(question: &str, default: bool) -> anyhow::Result<bool> {
    interrupt::restore();
    // Ctrl-C and Ctrl-D end the line that the question begins.
    let _farewell = interrupt::farewell("")?;
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

/// A value for `-m`: a chat model on this machine, the largest that leaves half of the free memory, or else the smallest.
/// Without any, a small one to download.
pub(crate) fn suggestion() -> String {
    let held = Settings::from_env().map_err(Into::into).and_then(|settings| stores::all(&settings));
    let room = host_memory().free.map_or(u64::MAX, |free| free / 2);
    let mut held: Vec<Held> = held.unwrap_or_default();
    held.sort_by_key(|held| {
        (held.bytes > room, held.bytes.abs_diff(if held.bytes > room { 0 } else { room }))
    });
    // The family is known, and there is a chat template.
    let chats = |held: &Held| {
        let Ok(file) = Gguf::open(held.path()) else { return false };
        let model = models::Model::from_metadata(file.metadata(), &|name| file.tensor(name).is_some());
        file.metadata().contains("tokenizer.chat_template")
            && model.is_ok_and(|model| model.config.pooling.is_none())
    };
    match held.into_iter().find(chats) {
        Some(held) => format!("-m {}, which is here", printable(&held.name, "")),
        None => "-m qwen3:0.6b (0.6 GB to download)".to_owned(),
    }
}
