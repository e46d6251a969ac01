//! `rustorch show`: what a model is and whether it fits here, before it is downloaded.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use engine::Model;
use gguf::Gguf;
use hub::Settings;
use hub::choice;
use outfile::TempFolder;
use serde::Serialize;

use super::super::fetch::{Hub, Plan};
use super::super::held::{self, Held};
use super::super::name::HubName;
use super::super::stores;
use super::Target;
use crate::args::{ContextArgs, WeightsArgs};
use crate::inspect::{MemoryNeeded, memory_needed};
use crate::output::{self, printable, size};
use crate::{interrupt, load};

/// How much of a file is fetched to read its header: enough for most, for large vocabularies, and for anything.
const HEADS: [u64; 3] = [8 << 20, 32 << 20, 128 << 20];

#[derive(Debug, clap::Args)]
#[command(after_help = "\
MEMORY is what the model takes on the CPU with the context of -c, weights included; FITS compares it
with the available memory. It is computed from the header of one file, which is fetched, and from
the sizes of the others.")]
pub(crate) struct Args {
    /// The model, as for `pull`
    name: PathBuf,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    /// Do not fetch a header: no memory is computed
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
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
    /// Why no memory is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    models: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    quant: Option<String>,
    files: Vec<String>,
    bytes: Option<u64>,
    memory: Option<u64>,
    fits: Option<bool>,
    /// Where it is on this machine.
    path: Option<PathBuf>,
    /// Whether it is what the name alone stands for.
    usual: bool,
}

/// What a header tells.
struct Facts {
    architecture: String,
    parameters: usize,
    memory: MemoryNeeded,
    /// Bytes of the files that it is from.
    bytes: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let settings = Settings::from_env()?;
    let report = match Target::of(&args.name, &settings)? {
        Target::Hub(name) => match Hub::open(false).and_then(|hub| of_hub(&args, &hub, &name)) {
            // Without the hub, what is here can be shown.
            Err(error) if is_unreachable(&error) => match stores::of_hub(&settings, &name)? {
                Some((held, _)) => of_held(&args, &held),
                None => return Err(error),
            },
            report => report?,
        },
        Target::Held(held) => of_held(&args, &held),
        Target::File(path) => of_held(&args, &of_file(&path)?),
        Target::Address(address) => match super::of_address(&address)? {
            Some(held) => of_held(&args, &held),
            None => {
                bail!("{address} is not on this machine; only models on Hugging Face can be shown before")
            }
        },
    };
    match args.json {
        true => output::json(&report)?,
        false => output::write_all(report.text().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &hub::Error| {
        error.is_of_network() || matches!(error, hub::Error::Offline { .. })
    })
}

fn of_hub(args: &Args, hub: &Hub, name: &HubName) -> anyhow::Result<Report> {
    let plan = hub.plan(name)?;
    let facts = match args.quick {
        true => Err(anyhow::anyhow!("--quick fetches no header")),
        false => facts_of_hub(args, hub, &plan),
    };
    let Plan { snapshot, models, chosen } = &plan;
    let local = stores::of_cache(&hub.cache, &name.repo)?;
    let rows = models.iter().map(|model| {
        let label = held::name_in(&name.repo, model, models);
        let memory = facts.as_ref().ok().and_then(|facts| facts.memory_of(model.bytes()?));
        Row {
            path: local.iter().find(|held| held.is(&name.repo, model)).map(|held| held.path().to_owned()),
            name: label,
            quant: model.quant.clone(),
            files: model.names().iter().map(ToString::to_string).collect(),
            bytes: model.bytes(),
            memory: memory.map(|memory| memory.0),
            fits: memory.and_then(|memory| memory.1),
            usual: model == chosen,
        }
    });
    Ok(Report {
        name: name.to_string(),
        from: format!("{}/{}", hub.settings.endpoint, name.repo),
        commit: Some(snapshot.commit.to_string()),
        license: snapshot.license.clone(),
        gated: snapshot.is_gated,
        downloads: snapshot.downloads,
        models: rows.collect(),
        ..Report::of(facts)
    })
}

fn of_held(args: &Args, held: &Held) -> Report {
    let facts = facts_of(args, held.path(), held.bytes);
    let memory = facts.as_ref().ok().and_then(|facts| facts.memory_of(held.bytes));
    let row = Row {
        name: held.name.clone(),
        quant: held.quant.clone(),
        files: held.files.iter().map(|file| file.display().to_string()).collect(),
        bytes: Some(held.bytes),
        memory: memory.map(|memory| memory.0),
        fits: memory.and_then(|memory| memory.1),
        path: Some(held.path().to_owned()),
        usual: true,
    };
    let (name, from) = (held.name.clone(), format!("{}, {}", held.origin.label(), held.path().display()));
    Report { name, from, models: vec![row], ..Report::of(facts) }
}

fn of_file(path: &Path) -> anyhow::Result<Held> {
    let file = Gguf::open(path)?;
    let name: Option<hub::FileName> = path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let models = choice::models(name.map(|name| (name, None)));
    Ok(Held {
        name: path.display().to_string(),
        quant: models.into_iter().next().and_then(|model| model.quant),
        files: file.files().map(|(path, _)| path.into()).collect(),
        bytes: file.files().map(|(_, bytes)| bytes).sum(),
        origin: held::Origin::Folder,
    })
}

/// Reads a model on the hub by the beginnings of its files: the rest is holes, which nothing reads.
fn facts_of_hub(args: &Args, hub: &Hub, plan: &Plan) -> anyhow::Result<Facts> {
    let folder = TempFolder::new().context("cannot create a temporary folder")?;
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
        match facts_of(args, &path, bytes) {
            Ok(facts) => return Ok(facts),
            Err(error) if most >= bytes => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("the header is too long")))
}

fn facts_of(args: &Args, path: &Path, bytes: u64) -> anyhow::Result<Facts> {
    let file = Gguf::open(path)?;
    let architecture =
        file.metadata().str("general.architecture").ok().flatten().unwrap_or_default().to_owned();
    let parameters = load::parameters(&file);
    let memory = memory_needed(&Model::new(file)?, &args.context, args.weights)?;
    Ok(Facts { architecture, parameters, memory, bytes })
}

impl Facts {
    /// Memory with weights of this size, and whether it is available: weights vary with the quantisation, the rest does not.
    fn memory_of(&self, bytes: u64) -> Option<(u64, Option<bool>)> {
        let scale = |part: u64| (part as f64 * bytes as f64 / self.bytes.max(1) as f64) as u64;
        let MemoryNeeded { weights_mapped, weights_copied, kv_cache, activations, available, .. } =
            &self.memory;
        let allocated = scale(*weights_copied).checked_add(*kv_cache)?.checked_add(*activations)?;
        Some((allocated + scale(*weights_mapped), available.map(|available| allocated <= available)))
    }
}

impl Report {
    /// A report without a name.
    fn of(facts: anyhow::Result<Facts>) -> Report {
        let (facts, error) = match facts {
            Ok(facts) => (Some(facts), None),
            Err(error) => (None, Some(output::message(&error))),
        };
        Report {
            name: String::new(),
            from: String::new(),
            commit: None,
            license: None,
            gated: false,
            downloads: None,
            architecture: facts.as_ref().map(|facts| facts.architecture.clone()),
            parameters: facts.as_ref().map(|facts| facts.parameters),
            n_ctx: facts.as_ref().map(|facts| facts.memory.n_ctx),
            available: facts.as_ref().and_then(|facts| facts.memory.available),
            error,
            models: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let known = [
            ("from", Some(self.from.clone())),
            ("commit", self.commit.clone()),
            ("licence", self.license.clone()),
            ("access", self.gated.then(|| "gated: its owner decides who may download it".to_owned())),
            ("downloads", self.downloads.map(|number| format!("{number} in a month"))),
            ("architecture", self.architecture.clone()),
            ("parameters", self.parameters.map(output::count)),
            (
                "memory",
                self.n_ctx.zip(self.available).map(|(n_ctx, available)| {
                    format!("{} are available; computed for a context of {n_ctx} tokens", size(available))
                }),
            ),
            ("memory", self.error.as_ref().map(|why| format!("unknown: {why}"))),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name, printable(&value?, ""))));
        let head = ["", "NAME", "SIZE", "MEMORY", "FITS", "HERE"].map(str::to_owned);
        let row = |row: &Row| {
            let sized = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), size);
            let fits = row.fits.map_or("?", |fits| if fits { "yes" } else { "no" });
            let here = if row.path.is_some() { "yes" } else { "" };
            let mark = if row.usual { "*" } else { "" };
            [
                mark.to_owned(),
                printable(&row.name, ""),
                sized(row.bytes),
                sized(row.memory),
                fits.to_owned(),
                here.to_owned(),
            ]
        };
        let rows: Vec<_> = [head].into_iter().chain(self.models.iter().map(row)).collect();
        format!(
            "{}\n{}\n{}",
            printable(&self.name, ""),
            output::pairs(known),
            output::columns(&rows, &[2, 3])
        )
    }
}
