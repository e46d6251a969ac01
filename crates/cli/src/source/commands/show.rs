//! `rustorch show`: what a model is and whether it fits here, before it is downloaded.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use backend::Weights;
use engine::{Model, Options};
use gguf::Gguf;
use gguf::output::temporary_folder;
use hub::{Settings, choice};
use runner::FileWeights;
use serde::Serialize;

use super::super::fetch::{Hub, Plan};
use super::super::name::HubName;
use super::super::stores::{self, Held, Origin};
use super::{Target, is_unreachable};
use crate::args::{ContextArgs, WeightsArgs};
use crate::fit::{self, DeviceArgs, Fit, Machine, OtherFormats, Zeros};
use crate::output::{self, printable, size};
use crate::{files, interrupt, load};

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

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::install()?;
    let settings = Settings::from_env()?;
    let gpus = fit::chosen(&args.devices)?;
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
        Target::Address(address) => held_report(&super::downloaded(&address)?.with_context(|| {
            format!("{address} is not on this machine; only models on Hugging Face can be shown before")
        })?),
    };
    let rows = report.models.iter();
    let candidates = rows.map(|row| (row.fit.as_ref(), row.bytes, row.quant.as_deref()));
    report.best = fit::best(candidates).map(|at| report.models[at].name.clone());
    if args.json { output::json(&report) } else { Ok(output::write_all(text(&report).as_bytes())?) }
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
        Err(anyhow!("--quick fetches no header"))
    } else {
        Facts::from_hub(&args.context, hub, plan)
    };
    let Plan { snapshot, models, chosen } = plan;
    let local = stores::cached(&hub.cache, &name.repo)?;
    let mut rows = Vec::new();
    for model in models {
        let fit =
            facts.as_ref().ok().map(|facts| facts.fit(machine, Some(model).filter(|&model| model != chosen)));
        let fit = fit.transpose().unwrap_or_else(|error| {
            facts = Err(error);
            None
        });
        rows.push(Row {
            path: local.iter().find(|held| held.is(&name.repo, model)).map(|held| held.path().to_owned()),
            name: stores::name_in(&name.repo, model, models),
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
        ..Report::unnamed(facts, machine)
    })
}

fn held_report(args: &Args, machine: &mut Machine<'_>, held: &Held) -> Report {
    let facts = Facts::read(&args.context, held.path(), held.bytes);
    let (facts, fit) = match facts.and_then(|facts| Ok((facts.fit(machine, None)?, facts))) {
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
    Report { name, from, models: vec![row], ..Report::unnamed(facts, machine) }
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
        origin: if path.parent().is_some_and(|folder| files::models_folder().as_deref() == Some(folder)) {
            Origin::Folder
        } else {
            Origin::File
        },
    })
}

impl Report {
    fn unnamed(facts: anyhow::Result<Facts>, machine: &Machine<'_>) -> Report {
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

/// How much of a file is fetched to read its header: enough for most, for large vocabularies, and for anything.
const HEADS: [u64; 3] = [8 << 20, 32 << 20, 128 << 20];

struct Facts {
    architecture: String,
    parameters: usize,
    n_ctx: usize,
    model: Model,
    options: Options,
    zeros: Zeros,
    /// Bytes of the files that the header is from.
    bytes: u64,
}

impl Facts {
    /// Reads a model on the hub by the beginnings of its files: the rest is holes.
    fn from_hub(context: &ContextArgs, hub: &Hub, plan: &Plan) -> anyhow::Result<Facts> {
        let folder = temporary_folder().context("cannot create a temporary folder")?;
        let mut last = None;
        for most in HEADS {
            let mut first = None;
            for (name, bytes) in &plan.chosen.files {
                let bytes = bytes.context("the hub does not say how large the file is")?;
                let head = hub.client.head(&plan.snapshot, name, most.min(bytes), &|_| {})?;
                let path = folder.path().join(name.base());
                let mut file = File::create(&path)?;
                file.write_all(&head)?;
                file.set_len(bytes)?;
                first.get_or_insert(path);
            }
            let path = first.context("the model has no file")?;
            let bytes = plan.chosen.bytes().unwrap_or(0);
            match Facts::read(context, &path, bytes) {
                Ok(facts) => return Ok(facts),
                Err(error) if most >= bytes => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("the header is too long")))
    }

    /// Reads a file; `bytes` is the size of all files of the model.
    fn read(context: &ContextArgs, path: &Path, bytes: u64) -> anyhow::Result<Facts> {
        let file = Gguf::open(path)?;
        let architecture = file.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
        let (architecture, parameters) = (architecture.to_owned(), load::parameters(&file));
        let zeros = Zeros::for_tensors_of(&file)?;
        let model = Model::new(file)?;
        let options = load::options(context, &model);
        let n_ctx = options.layout(&model)?.limits.n_ctx;
        Ok(Facts { architecture, parameters, n_ctx, model, options, zeros, bytes })
    }

    /// Where the model of the header fits, or `other`, which is another quantisation.
    fn fit(&self, machine: &mut Machine<'_>, other: Option<&choice::Model>) -> anyhow::Result<Fit> {
        let (file, options) = (self.model.file(), &self.options);
        let Some(other) = other else { return machine.fit(&self.model, &FileWeights(file), options, 1.0) };
        let own: u64 = file.tensors().map(|tensor| tensor.data.len() as u64).sum();
        let bytes = other.bytes().context("the hub does not say how large the file is")?;
        // Headers are alike.
        let bytes = bytes.saturating_sub(self.bytes.saturating_sub(own)) as f64;
        let formats = other.quant.as_deref().and_then(|quant| OtherFormats::named(file, quant, &self.zeros));
        let (weights, tensors): (&dyn Weights, u64) = match &formats {
            Some(formats) => (formats, formats.bytes()),
            None => (&FileWeights(file), own),
        };
        machine.fit(&self.model, weights, options, bytes / tensors.max(1) as f64)
    }
}

fn text(report: &Report) -> String {
    let memory = report.n_ctx.zip(report.available).map(|(n_ctx, available)| {
        format!("{} are available; computed for a context of {n_ctx} tokens", size(available))
    });
    let gpus = report.gpus.iter().map(|Gpu { name, memory }| ("GPU", Some(format!("{name}, {memory}"))));
    let known = [
        ("from", Some(report.from.clone())),
        ("commit", report.commit.clone()),
        ("licence", report.license.clone()),
        ("access", report.gated.then(|| "gated: its owner decides who may download it".to_owned())),
        ("downloads", report.downloads.map(|number| format!("{number} in a month"))),
        ("architecture", report.architecture.clone()),
        ("parameters", report.parameters.map(output::count)),
        ("memory", memory),
        ("memory", report.error.as_ref().map(|why| format!("unknown: {why}"))),
    ];
    let known = known.into_iter().chain(gpus);
    let known = known.filter_map(|(name, value)| Some((name, printable(&value?, ""))));
    let has_gpu = !report.gpus.is_empty();
    let rows = report.models.iter().map(|row| {
        let (mark, here) = (if row.usual { "*" } else { "" }, if row.path.is_some() { "yes" } else { "" });
        let bytes = row.bytes.map_or_else(|| "?".to_owned(), size);
        ([mark.to_owned(), printable(&row.name, ""), bytes], row.fit.as_ref(), here)
    });
    let table = fit::table(["", "NAME", "SIZE"], "HERE", rows, has_gpu);
    let is_known = report.models.iter().any(|row| row.fits.is_some());
    let says_best = if report.best.is_some() { report.models.len() > 1 } else { is_known };
    let best = report.best.as_ref().map(|name| printable(name, ""));
    let best = if says_best { fit::best_in_words(best.as_deref(), has_gpu) } else { String::new() };
    format!("{}\n{}\n{table}{best}", printable(&report.name, ""), output::pairs(known))
}
