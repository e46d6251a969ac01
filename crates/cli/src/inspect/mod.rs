//! `rustorch inspect`: what is in a file, whether it can be run, and the memory that takes.

mod fits;
mod text;
mod value;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use backend::{KvLayout, OpenOptions, PAGE, Taps, host_memory};
use engine::Model;
use gguf::{Gguf, UnsupportedTensor};
use graph::{Graph, Group};
use quant::UnsupportedFormat;
use runner::Workload;
use serde::Serialize;
use tokenizer::{Choice, Tokenizer};

use crate::args::{ContextArgs, CpuArgs, ModelArgs, WeightsArgs};
use crate::backends;
use crate::placement::{self, Read};
use crate::registry::BackendName;
use crate::values::Size;
use crate::{load, output};
use fits::Fit;
use value::{Entries, Plain};

/// What `inspect` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The GGUF file; the same as -m FILE [default: the small model in the program]
    file: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    /// Say how many layers fit on the devices of this backend; auto asks where there may be a graphics processor
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env = "RUSTORCH_BACKEND")]
    backend: BackendName,
    /// The same with so much of their memory, at most, such as 2GiB [default: what is free]
    #[arg(long, value_name = "SIZE", env = "RUSTORCH_GPU_MEMORY")]
    gpu_memory: Option<Size>,
    /// Print one JSON object with everything, arrays in full
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let model = ModelArgs { model: args.file.as_ref().or(args.model.model.as_ref()).cloned() };
    let (file, unsupported) = load::inspect(&model)?;
    load::introduce(&model, &file);
    // Opened again: an engine takes its file, and refuses tensors in unknown formats.
    let memory = load::file(&model).and_then(|file| Ok(Model::new(file)?));
    let report = Report::new(&file, &unsupported, memory.and_then(|model| memory_needed(&model, &args)));
    if args.json {
        output::json(&report)?
    } else {
        text::print(&report)?
    }
    Ok(ExitCode::SUCCESS)
}

/// All there is to say about a file.
#[derive(Serialize)]
struct Report<'a> {
    files: Vec<File<'a>>,
    version: u32,
    alignment: u32,
    metadata: Entries<'a>,
    /// What the model's family reads, by the keys of the file.
    hyper_parameters: Option<BTreeMap<&'static str, Plain>>,
    #[serde(serialize_with = "value::or_error")]
    tokenizer: Result<TokenizerFacts, String>,
    tensors: Vec<TensorFacts<'a>>,
    formats: BTreeMap<String, Total>,
    total: Total,
    /// What it takes to run the model on the CPU, or why it cannot be run.
    #[serde(serialize_with = "value::or_error")]
    memory: Result<MemoryNeeded, String>,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct TensorFacts<'a> {
    name: &'a str,
    /// Such as `Q4_K`, or `type 42 (unknown)`.
    format: String,
    /// Fastest dimension first, as in the file.
    shape: &'a [usize],
    /// Null if the format is unknown.
    bytes: Option<usize>,
}

#[derive(Clone, Copy, Serialize)]
struct Total {
    tensors: usize,
    values: usize,
    /// Null if a format is unknown.
    bytes: Option<usize>,
}

#[derive(Serialize)]
struct TokenizerFacts {
    model: &'static str,
    pre_tokenizer: Option<String>,
    vocab_size: usize,
    add_bos: Decision,
    add_eos: Decision,
    add_space_prefix: Decision,
    special: BTreeMap<&'static str, Token>,
    /// Tokens after which an answer ends.
    stop: Vec<Token>,
    chat_template: bool,
}

/// A yes or no, and whether the file says it.
#[derive(Clone, Copy, Serialize)]
struct Decision {
    value: bool,
    stated: bool,
}

#[derive(Serialize)]
struct Token {
    id: u32,
    text: String,
}

#[derive(Serialize)]
struct MemoryNeeded {
    n_ctx: usize,
    /// Used where they lie in the file.
    weights_mapped: u64,
    weights_copied: u64,
    kv_cache: u64,
    /// The parts of the KV cache: stores whose positions live equally long.
    kv_groups: Vec<KvGroup>,
    activations: u64,
    total: u64,
    /// What of it is not in the file's map: what has to fit.
    allocated: u64,
    /// What it may take, as far as the system says.
    available: Option<u64>,
    /// How much of it graphics processors have room for.
    devices: Vec<Fit>,
}

/// Stores of the KV cache that have the same window.
#[derive(Serialize)]
struct KvGroup {
    /// Positions that a row sees; all when there is none.
    window: Option<usize>,
    /// One for each attention that keeps keys and values of its own.
    stores: usize,
    /// Positions that each has room for.
    positions: usize,
    bytes: u64,
}

impl<'a> Report<'a> {
    fn new(
        file: &'a Gguf,
        unsupported: &'a [UnsupportedTensor],
        memory: anyhow::Result<MemoryNeeded>,
    ) -> Report<'a> {
        let known = file.tensors().map(|tensor| TensorFacts {
            name: &tensor.name,
            format: tensor.format.name().to_owned(),
            shape: &tensor.shape,
            bytes: Some(tensor.data.len()),
        });
        let mut tensors: Vec<TensorFacts<'_>> = known.collect();
        for UnsupportedTensor { index, name, shape, format: UnsupportedFormat { id, name: format } } in
            unsupported
        {
            let format = format!("type {id} ({})", format.unwrap_or("unknown"));
            tensors.insert(*index, TensorFacts { name, format, shape, bytes: None });
        }
        let none = Total { tensors: 0, values: 0, bytes: Some(0) };
        let (mut formats, mut total) = (BTreeMap::new(), none);
        for TensorFacts { format, shape, bytes, .. } in &tensors {
            for total in [formats.entry(format.clone()).or_insert(none), &mut total] {
                let values = shape.iter().fold(1, |values: usize, &dim| values.saturating_mul(dim));
                total.tensors += 1;
                total.values = total.values.saturating_add(values);
                total.bytes = total.bytes.zip(*bytes).map(|(sum, bytes)| sum + bytes);
            }
        }
        Report {
            files: file.files().map(|(path, bytes)| File { path, bytes }).collect(),
            version: file.version() as u32,
            alignment: file.alignment(),
            metadata: Entries(file.metadata()),
            hyper_parameters: hyper_parameters(file),
            tokenizer: tokenizer_facts(file).map_err(|error| error.to_string()),
            tensors,
            formats,
            total,
            memory: memory.map_err(|error| error.to_string()),
        }
    }
}

/// None of a model that cannot be computed.
fn hyper_parameters(file: &Gguf) -> Option<BTreeMap<&'static str, Plain>> {
    let model = models::Model::of(file.metadata(), &|name| file.tensor(name).is_some()).ok()?;
    let read = model.config.hyper_parameters.into_iter();
    Some(read.map(|(key, value)| (key, Plain(value))).collect())
}

fn tokenizer_facts(file: &Gguf) -> Result<TokenizerFacts, tokenizer::Error> {
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let facts = tokenizer.facts();
    let token = |id| Token { id, text: tokenizer.token_text(id).unwrap_or_default().to_owned() };
    let special = tokenizer.special_ids();
    Ok(TokenizerFacts {
        model: facts.model,
        pre_tokenizer: facts.pre_tokenizer.clone(),
        vocab_size: tokenizer.vocab_size(),
        add_bos: facts.add_bos.into(),
        add_eos: facts.add_eos.into(),
        add_space_prefix: facts.add_space_prefix.into(),
        special: special.roles.iter().map(|(&name, &id)| (name, token(id))).collect(),
        stop: special.end_of_generation.iter().map(|&id| token(id)).collect(),
        chat_template: file.metadata().contains("tokenizer.chat_template"),
    })
}

impl From<Choice> for Decision {
    fn from(choice: Choice) -> Decision {
        Decision { value: choice.value(), stated: matches!(choice, Choice::Stated(_)) }
    }
}

/// What an engine on the CPU backend would hold.
fn memory_needed(model: &Model, args: &Args) -> anyhow::Result<MemoryNeeded> {
    let options = load::options(&args.context, model);
    let host = backends::host(
        BackendName::CPU,
        OpenOptions::from(CpuArgs { threads: None, isa: None, weights: args.weights }),
    );
    let cpu = host.open()?;
    let n_ctx = options.layout(model)?.limits.n_ctx;
    let (held, kv_groups) = placement::of_engine(model, &options, Read::LAST, |workload| {
        let Workload { weights, graph, kv_layout, buckets, .. } = workload;
        let held = cpu.requirements(graph, *weights, kv_layout, buckets, Taps::None)?;
        Ok((held, kv_groups(graph, kv_layout)))
    })?;
    let parts = [held.weights_owned, held.kv, held.activations];
    let allocated = parts.into_iter().fold(0, u64::saturating_add);
    Ok(MemoryNeeded {
        n_ctx,
        weights_mapped: held.weights_mapped,
        weights_copied: held.weights_owned,
        kv_cache: held.kv,
        kv_groups,
        activations: held.activations,
        total: held.weights_mapped.saturating_add(allocated),
        allocated,
        available: host.options.memory.or_else(|| host_memory().free),
        devices: fits::all(model, &options, args.backend, args.gpu_memory)?,
    })
}

/// What the stores of each group take.
fn kv_groups(graph: &Graph, kv_layout: &KvLayout) -> Vec<KvGroup> {
    let layouts = kv_layout.stores(graph);
    let groups = graph.groups().iter().zip(&kv_layout.pages).enumerate();
    let group = |(number, (group, pages)): (usize, (&Group, &usize))| {
        let stores = graph.stores().zip(&layouts).filter(|((id, _), _)| graph.group_of(*id) == number);
        let bytes: Vec<u64> = stores.map(|(_, layout)| layout.bytes()).collect();
        KvGroup {
            window: group.window,
            stores: bytes.len(),
            positions: pages.saturating_mul(PAGE),
            bytes: bytes.into_iter().fold(0, u64::saturating_add),
        }
    };
    groups.map(group).collect()
}
