//! `rustorch inspect`: the contents of a file, and the memory to run it.

mod fits;
mod text;

use std::collections::BTreeMap;

use backend::{KvLayout, PAGE, Taps};
use engine::{Model, Options};
use gguf::{Gguf, UnsupportedTensor};
use graph::{Graph, Group, Mask};
use indexmap::IndexMap;
use quant::UnsupportedFormat;
use runner::{FileWeights, Workload};
use serde::Serialize;
use tokenizer::{Choice, Tokenizer};

use crate::advice::allocated;
use crate::args::{ContextArgs, ModelArgs, PositionalModel, WeightsArgs};
use crate::fit::{self, DeviceArgs, Machine};
use crate::placement::{self, Read};
use crate::{load, output};
use fits::{DeviceFit, Fits};
use text::Entry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    weights: WeightsArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    /// Print one JSON object with everything, arrays in full
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    args.positional.clone().apply(&mut args.model);
    let (file, unsupported) = load::inspect(&args.model)?;
    let gpus = fit::chosen(&args.devices)?;
    // Opened again: an engine takes its file, and refuses tensors in unknown formats.
    let memory = load::file(&args.model).and_then(|file| Ok(Model::new(file)?));
    let memory = memory.and_then(|model| {
        let options = load::options(&args.context, &model);
        let devices = DeviceFit::all(&model, &options, &args.devices)?;
        memory_needed(&mut Machine::new(&gpus, args.weights)?, &model, &options, devices)
    });
    let elements = if args.json { usize::MAX } else { text::FEW };
    let report = Report::new(&file, &unsupported, memory, elements);
    if args.json { output::json(&report) } else { Ok(text::print(&report)?) }
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<File<'a>>,
    version: u32,
    alignment: u32,
    metadata: IndexMap<&'a str, Entry>,
    /// Metadata that the model family reads.
    hyper_parameters: Option<BTreeMap<&'static str, serde_json::Value>>,
    #[serde(serialize_with = "text::or_error")]
    tokenizer: Result<TokenizerFacts, String>,
    tensors: Vec<TensorFacts<'a>>,
    formats: BTreeMap<String, Total>,
    total: Total,
    /// Memory to run the model on the CPU, or why it cannot be run.
    #[serde(serialize_with = "text::or_error")]
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
    bytes: Option<usize>,
}

#[derive(Clone, Copy, Serialize)]
struct Total {
    tensors: usize,
    values: usize,
    bytes: Option<usize>,
}

#[derive(Serialize)]
struct TokenizerFacts {
    model: &'static str,
    pre_tokenizer: Option<String>,
    vocab_size: usize,
    add_bos: Decision,
    add_eos: Decision,
    add_sep: Decision,
    add_space_prefix: Decision,
    special: BTreeMap<&'static str, Token>,
    /// Tokens after which an answer ends.
    stop: Vec<Token>,
    chat_template: bool,
}

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
    /// Used from the file.
    weights_mapped: u64,
    weights_copied: u64,
    kv_cache: u64,
    kv_groups: Vec<KvGroup>,
    activations: u64,
    total: u64,
    /// The total without the mapped file.
    allocated: u64,
    available: Option<u64>,
    /// Each on its own.
    devices: Vec<DeviceFit>,
    /// On CPU and GPUs together.
    fits: Fits,
}

/// Stores of the KV cache with the same mask.
#[derive(Serialize)]
struct KvGroup {
    /// Positions that later rows can see; all if `None`.
    window: Option<usize>,
    #[serde(skip)]
    mask: Mask,
    stores: usize,
    /// Positions per store.
    positions: usize,
    bytes: u64,
}

impl<'a> Report<'a> {
    fn new(
        file: &'a Gguf,
        unsupported: &'a [UnsupportedTensor],
        memory: anyhow::Result<MemoryNeeded>,
        elements: usize,
    ) -> Report<'a> {
        let entry = |(key, value)| (key, Entry::new(value, elements));
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
            version: file.version(),
            alignment: file.alignment(),
            metadata: file.metadata().iter().map(entry).collect(),
            hyper_parameters: hyper_parameters(file),
            tokenizer: tokenizer_facts(file).map_err(|error| error.to_string()),
            tensors,
            formats,
            total,
            memory: memory.map_err(|error| error.to_string()),
        }
    }
}

/// `None` if the model is not supported.
fn hyper_parameters(file: &Gguf) -> Option<BTreeMap<&'static str, serde_json::Value>> {
    let model = models::Model::from_metadata(file.metadata(), &|name| file.tensor(name).is_some()).ok()?;
    let read = model.config.hyper_parameters.into_iter();
    Some(read.map(|(key, value)| (key, text::json(&value, usize::MAX))).collect())
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
        add_sep: facts.add_sep.into(),
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

/// Memory to run `model` on the CPU, and what fits where.
fn memory_needed(
    machine: &mut Machine<'_>,
    model: &Model,
    options: &Options,
    devices: Vec<DeviceFit>,
) -> anyhow::Result<MemoryNeeded> {
    let fits = Fits::new(machine, model, options)?;
    let weights = FileWeights(model.file());
    let Workload { weights, graph, kv_layout, buckets, .. } =
        &placement::workload(model, &weights, options, Read::LAST)?;
    let held = machine.host.requirements(graph, *weights, kv_layout, buckets, Taps::None)?;
    let allocated = allocated(&held);
    Ok(MemoryNeeded {
        n_ctx: options.layout(model)?.limits.n_ctx,
        weights_mapped: held.weights_mapped,
        weights_copied: held.weights_owned,
        kv_cache: held.kv,
        kv_groups: kv_groups(graph, kv_layout),
        activations: held.activations,
        total: held.weights_mapped.saturating_add(allocated),
        allocated,
        available: machine.available,
        devices,
        fits,
    })
}

fn kv_groups(graph: &Graph, kv_layout: &KvLayout) -> Vec<KvGroup> {
    let layouts = kv_layout.stores(graph);
    let groups = graph.groups().iter().zip(&kv_layout.pages).enumerate();
    let group = |(number, (group, pages)): (usize, (&Group, &usize))| {
        let stores = graph.stores().zip(&layouts).filter(|((id, _), _)| graph.store_group(*id) == number);
        let bytes: Vec<u64> = stores.map(|(_, layout)| layout.bytes()).collect();
        KvGroup {
            window: group.mask.span(),
            mask: group.mask,
            stores: bytes.len(),
            positions: pages.saturating_mul(PAGE),
            bytes: bytes.into_iter().fold(0, u64::saturating_add),
        }
    };
    groups.map(group).collect()
}
