//! `rustorch pull`: downloads a model.

use std::path::PathBuf;
use std::process::ExitCode;

use hub::Fetched;
use serde_json::json;

use super::super::fetch::{Hub, Pulled};
use super::super::held::Held;
use super::super::{nearest, note_short, stores};
use super::{Target, is_unreachable};
use crate::output::{self, Usage, note, size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Names are user/repo[:QUANT] on Hugging Face, also as hf.co/user/repo or its address, addresses of
GGUF files, and short names such as qwen3:0.6b. Without QUANT, it is Q4_K_M, or else what there is.
The path goes to stdout. An interrupted download continues where it stopped. Models are in the
cache of huggingface_hub (HF_HOME, HF_HUB_CACHE); HF_TOKEN, HF_ENDPOINT and HTTPS_PROXY are obeyed.")]
pub(crate) struct Args {
    /// The model
    name: PathBuf,
    /// Never use the network: the path of what is here
    #[arg(long)]
    offline: bool,
    /// Print one JSON object: name, commit, files
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
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
            let why = format!("{} {what}; expected user/repo, a short name or an address", path.display());
            return Err(Usage(why).into());
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
        match transferred {
            0 => note(format_args!("{} was here: {}", pulled.name, size(bytes))),
            _ => note(format_args!("{} is here: {}", pulled.name, size(bytes))),
        }
        output::write_all(format!("{}\n", pulled.path().display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
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
                near => anyhow::anyhow!("{error}{near}"),
            }
        }
        _ => error,
    }
}
