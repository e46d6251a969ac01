//! `rustorch show`: what a model is and whether it fits here, before it is downloaded.

mod facts;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use gguf::Gguf;
use hub::Settings;
use hub::choice;
use serde::Serialize;

use super::super::fetch::{Hub, Plan};
use super::super::held::{self, Held, Origin};
use super::super::name::HubName;
use super::super::stores;
use super::{Target, is_unreachable};
use crate::args::{ContextArgs, WeightsArgs};
use crate::fit::machine::{self, DeviceArgs, Machine};
use crate::fit::{self, Candidate, Fit};
use crate::{folders, interrupt, output};
use facts::Facts;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
MEMORY is what the model takes on the CPU with the context of -c, weights included, GPU MEMORY what
it takes on one GPU. FITS says where it runs: GPU, GPU+CPU with the number of layers on the GPU, CPU
or no; without a GPU, yes or no. Both come from a dry run on the header of one file, which is
fetched, with the formats that the others usually have, and their sizes. A star marks what the name
alone stands for.")]
pub(crate) struct Args {
    /// The model, as for `pull`
    name: PathBuf,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    /// Do not fetch a header: no memory is computed
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Default, Serialize)]
struct Report {
    name: String,
    from: String,
    commit: Option<String>,
    license: Option<String>,
    gated: bool,
    downloads: Option<u64>,
    architecture: Option<String>,
    parameters: Option<usize>,
    n_ctx: Option<usize>,
    /// Memory that is free now.
    available: Option<u64>,
    /// GPUs with their memory, such as `1.2 GiB free`.
    gpus: Vec<Gpu>,
    /// Why no memory is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    models: Vec<Row>,
    /// The name of the model that fits best.
    best: Option<String>,
}

#[derive(Serialize)]
struct Gpu {
    name: String,
    memory: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    quant: Option<String>,
    files: Vec<String>,
    bytes: Option<u64>,
    /// Whether it runs here.
    fits: Option<bool>,
    /// Missing if it is unknown.
    #[serde(flatten)]
    fit: Option<Fit>,
    /// Where it is on this machine.
    path: Option<PathBuf>,
    /// Whether it is what the name alone stands for.
    usual: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let settings = Settings::from_env()?;
    let gpus = machine::chosen(&args.devices)?;
    let mut machine = Machine::new(&gpus, args.weights)?;
    let mut held_report = |held: &Held| held_report(&args, &mut machine, held);
    let mut report = match Target::of(&args.name)? {
        Target::Hub(name) => match elsewhere(&settings, &name)? {
            Some(held) => held_report(&held),
            None => match Hub::open(false).and_then(|hub| Ok((hub.plan(&name)?, hub))) {
                // Without the hub, what is here can be shown.
                Err(error) if is_unreachable(&error) => match stores::find(&settings, &name)? {
                    Some((held, _)) => held_report(&held),
                    None => return Err(error),
                },
                found => {
                    let (plan, hub) = found?;
                    hub_report(&args, &mut machine, &hub, &name, &plan)?
                }
            },
        },
        Target::Held(held) => held_report(&held),
        Target::File(path) => held_report(&file_model(&path)?),
        Target::Address(address) => match super::downloaded(&address)? {
            Some(held) => held_report(&held),
            None => {
                bail!("{address} is not on this machine; only models on Hugging Face can be shown before")
            }
        },
    };
    let candidates = report.models.iter().map(|row| Candidate {
        fit: row.fit.as_ref(),
        bytes: row.bytes,
        quant: row.quant.as_deref(),
    });
    report.best = fit::best(candidates).map(|at| report.models[at].name.clone());
    if args.json {
        output::json(&report)?
    } else {
        output::write_all(text::text(&report).as_bytes())?
    }
    Ok(ExitCode::SUCCESS)
}

/// The model of another program that has exactly this name.
fn elsewhere(settings: &Settings, name: &HubName) -> anyhow::Result<Option<Held>> {
    let spelt = name.to_string();
    let is_it = |held: &Held| {
        let own = held.name.strip_prefix("hf.co/").unwrap_or(&held.name);
        matches!(held.origin, Origin::Ollama | Origin::LmStudio) && own.eq_ignore_ascii_case(&spelt)
    };
    Ok(stores::find(settings, name)?.map(|(held, _)| held).filter(is_it))
}

fn hub_report(
    args: &Args,
    machine: &mut Machine<'_>,
    hub: &Hub,
    name: &HubName,
    plan: &Plan,
) -> anyhow::Result<Report> {
    let mut facts = if args.quick {
        Err(anyhow::anyhow!("--quick fetches no header"))
    } else {
        Facts::from_hub(&args.context, hub, plan)
    };
    let Plan { snapshot, models, chosen } = plan;
    let local = stores::cached(&hub.cache, &name.repo)?;
    let mut rows = Vec::new();
    for model in models {
        let fit = facts.as_ref().ok().map(|facts| {
            if model == chosen {
                facts.fit(machine)
            } else {
                facts.fit_in(machine, model.quant.as_deref(), model.bytes())
            }
        });
        let fit = fit.transpose().unwrap_or_else(|error| {
            facts = Err(error);
            None
        });
        rows.push(Row {
            path: local.iter().find(|held| held.is(&name.repo, model)).map(|held| held.path().to_owned()),
            name: held::name_in(&name.repo, model, models),
            quant: model.quant.clone(),
            files: model.names().iter().map(ToString::to_string).collect(),
            bytes: model.bytes(),
            fits: fit.as_ref().and_then(Fit::fits),
            fit,
            usual: model == chosen,
        });
    }
    Ok(Report {
        name: name.to_string(),
        from: format!("{}/{}", hub.settings.endpoint, name.repo),
        commit: Some(snapshot.commit.to_string()),
        license: snapshot.license.clone(),
        gated: snapshot.is_gated,
        downloads: snapshot.downloads,
        models: rows,
        ..Report::of(facts, machine)
    })
}

fn held_report(args: &Args, machine: &mut Machine<'_>, held: &Held) -> Report {
    let facts = Facts::of(&args.context, held.path(), held.bytes);
    let (facts, fit) = match facts.and_then(|facts| Ok((facts.fit(machine)?, facts))) {
        Ok((fit, facts)) => (Ok(facts), Some(fit)),
        Err(error) => (Err(error), None),
    };
    let row = Row {
        name: held.name.clone(),
        quant: held.quant.clone(),
        files: held.files.iter().map(|file| file.display().to_string()).collect(),
        bytes: Some(held.bytes),
        fits: fit.as_ref().and_then(Fit::fits),
        fit,
        path: Some(held.path().to_owned()),
        usual: true,
    };
    let path = held.path().display();
    let from = match held.origin {
        Origin::File => path.to_string(),
        _ => format!("{}, {path}", held.origin.label()),
    };
    let name = held.name.clone();
    Report { name, from, models: vec![row], ..Report::of(facts, machine) }
}

fn file_model(path: &Path) -> anyhow::Result<Held> {
    let file = Gguf::open(path)?;
    let name: Option<hub::FileName> = path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let models = choice::models(name.map(|name| (name, None)));
    Ok(Held {
        name: path.display().to_string(),
        quant: models.into_iter().next().and_then(|model| model.quant),
        files: file.files().map(|(path, _)| path.into()).collect(),
        bytes: file.files().map(|(_, bytes)| bytes).sum(),
        origin: if path.parent().is_some_and(|folder| folders::models().as_deref() == Some(folder)) {
            Origin::Folder
        } else {
            Origin::File
        },
    })
}

impl Report {
    /// A report without a name.
    fn of(facts: anyhow::Result<Facts>, machine: &Machine<'_>) -> Report {
        let (facts, error) = match facts {
            Ok(facts) => (Some(facts), None),
            Err(error) => (None, Some(output::message(&error))),
        };
        let gpu = |(name, memory): (&str, String)| Gpu { name: name.to_owned(), memory };
        Report {
            architecture: facts.as_ref().map(|facts| facts.architecture.clone()),
            parameters: facts.as_ref().map(|facts| facts.parameters),
            n_ctx: facts.as_ref().map(|facts| facts.n_ctx),
            available: facts.as_ref().and(machine.available),
            gpus: machine.gpus().map(gpu).collect(),
            error,
            ..Report::default()
        }
    }
}
