//! `rustorch list`: the models on this machine.

use std::process::ExitCode;

use hub::Settings;
use serde_json::json;

use super::super::held::Held;
use super::super::{checkpoints, stores};
use crate::output::{self, counted, note, printable, size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lists models in the cache of Hugging Face (HF_HOME, HF_HUB_CACHE), in ~/.rustorch/models, those that
were downloaded from addresses, and those of ollama (OLLAMA_MODELS) and LM Studio, which are used in
place. Every name can be given to -m, that of a checkpoint to `rustorch convert`.")]
pub(crate) struct Args {
    /// Print a JSON array: names, files, sizes
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::from_env()?;
    let (models, checkpoints) = (stores::all(&settings)?, checkpoints::all(&settings)?);
    let models = models.into_iter().map(|held| ("model", held));
    let held: Vec<_> = models.chain(checkpoints.into_iter().map(|held| ("checkpoint", held))).collect();
    if args.json {
        let json = |(kind, held): &(&str, Held)| {
            let Held { name, quant, files, bytes, origin } = held;
            let from = origin.label();
            json!({ "name": name, "kind": kind, "quant": quant, "bytes": bytes, "from": from, "files": files })
        };
        output::json(&held.iter().map(json).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if held.is_empty() {
        note(format_args!("no models yet; `rustorch pull qwen3:0.6b` downloads a small one"));
        return Ok(ExitCode::SUCCESS);
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
    Ok(ExitCode::SUCCESS)
}
