//! `rustorch inspect`: the contents of a file, and the memory to run it.

mod fits;

use std::collections::BTreeMap;
use std::io::{self, Write};

use backend::{KV_BLOCK, KvLayout, Taps};
use engine::{Model, Options};
use gguf::{Array, Gguf, UnsupportedTensor, Value};
use graph::{Graph, Group, Mask};
use indexmap::IndexMap;
use quant::UnsupportedFormat;
use runner::{FileWeights, Workload};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};
use tokenizer::{Choice, Tokenizer};

use crate::advice::allocated;
use crate::args::{ContextArgs, ModelArgs, PositionalModel, WeightsArgs};
use crate::fit::{self, DeviceArgs, Machine};
use crate::load;
use crate::output::{self, BOLD, abbreviated, columns, counted, pairs, printable, size};
use crate::placement::{self, Read};
use fits::{DeviceFit, Fits};

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
    let elements = if args.json { usize::MAX } else { FEW };
    let report = Report::new(&file, &unsupported, memory, elements);
    if args.json { output::json(&report) } else { Ok(print(&report)?) }
}

#[derive(Serialize)]
struct Report<'a> {
    files: Vec<File<'a>>,
    version: u32,
    alignment: u32,
    metadata: IndexMap<&'a str, Entry>,
    /// Metadata that the model family reads.
    hyper_parameters: Option<BTreeMap<&'static str, serde_json::Value>>,
    #[serde(serialize_with = "or_error")]
    tokenizer: Result<TokenizerFacts, String>,
    tensors: Vec<TensorFacts<'a>>,
    formats: BTreeMap<String, Total>,
    total: Total,
    /// Memory to run the model on the CPU, or why it cannot be run.
    #[serde(serialize_with = "or_error")]
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
    Some(read.map(|(key, value)| (key, json_value(&value, usize::MAX))).collect())
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
    let groups = graph.groups().iter().zip(&kv_layout.blocks).enumerate();
    let group = |(number, (group, blocks)): (usize, (&Group, &usize))| {
        let stores = graph.stores().zip(&layouts).filter(|((id, _), _)| graph.store_group(*id) == number);
        let bytes: Vec<u64> = stores.map(|(_, layout)| layout.bytes()).collect();
        KvGroup {
            window: group.mask.span(),
            mask: group.mask,
            stores: bytes.len(),
            positions: blocks.saturating_mul(KV_BLOCK),
            bytes: bytes.into_iter().fold(0, u64::saturating_add),
        }
    };
    groups.map(group).collect()
}

/// Maximum characters of a token's text.
const TOKEN: usize = 40;

fn print(report: &Report<'_>) -> io::Result<()> {
    let mut out = output::stdout();
    for file in &report.files {
        writeln!(out, "{BOLD}{}{BOLD:#}  {}", printable(file.path, ""), size(file.bytes))?;
    }
    writeln!(out, "GGUF version {}, aligned to {}", report.version, counted(report.alignment, "byte"))?;

    heading(&mut out, "Metadata")?;
    let entries = report.metadata.iter();
    let entries = entries.map(|(key, entry)| [printable(key, ""), entry.r#type.clone(), short(&entry.value)]);
    write!(out, "{}", columns(&entries.collect::<Vec<_>>(), &[]))?;
    if let Some(parameters) = &report.hyper_parameters {
        heading(&mut out, "Hyper-parameters")?;
        write!(out, "{}", pairs(parameters.iter().map(|(name, value)| (*name, short(value)))))?;
    }
    heading(&mut out, "Tokenizer")?;
    match &report.tokenizer {
        Ok(facts) => write!(out, "{}", tokenizer_in_words(facts))?,
        Err(why) => writeln!(out, "  cannot be used: {}", printable(why, ""))?,
    }
    tensors(&mut out, report)?;
    match &report.memory {
        Ok(memory) => {
            heading(&mut out, &format!("Memory on the CPU with a context of {} tokens", memory.n_ctx))?;
            let mut parts = vec![
                ("weights, used in the file", size(memory.weights_mapped)),
                ("weights, packed", size(memory.weights_copied)),
                ("KV cache", size(memory.kv_cache)),
            ];
            // A single group is the whole cache.
            if let [_, _, ..] = &memory.kv_groups[..] {
                parts.extend(memory.kv_groups.iter().map(|group| ("", group_in_words(group))));
            }
            parts.extend([("activations", size(memory.activations)), ("total", size(memory.total))]);
            parts.extend(memory.available.map(|available| {
                let fits = if memory.allocated <= available { "fits" } else { "does not fit" };
                let allocated = size(memory.allocated);
                (fits, format!("{allocated} besides the file, of {} available", size(available)))
            }));
            write!(out, "{}", pairs(parts))?;
            if !memory.devices.is_empty() {
                heading(&mut out, "On GPUs")?;
                let fits = memory.devices.iter().map(|fit| [fit.label(), fit.in_words()]);
                write!(out, "{}", columns(&fits.collect::<Vec<_>>(), &[]))?;
                writeln!(out, "  the model runs on: {}", memory.fits.own.in_words(true))?;
            }
            let table = memory.fits.table();
            if !table.is_empty() {
                heading(&mut out, "After `rustorch quantize IN OUT TYPE`")?;
                write!(out, "{table}")?;
            }
        }
        Err(why) => {
            heading(&mut out, "Cannot be run")?;
            writeln!(out, "  {}", printable(why, ""))?;
        }
    }
    out.flush()
}

fn group_in_words(group: &KvGroup) -> String {
    let (stores, bytes) = (counted(group.stores, "store"), size(group.bytes));
    match group.mask {
        Mask::Causal => format!("{bytes} in {stores} without a window"),
        Mask::Window(n) => format!("{bytes} in {stores} with a window of {}", counted(n, "position")),
        Mask::Chunk(n) => format!("{bytes} in {stores} with chunks of {}", counted(n, "position")),
        Mask::Full | Mask::Around(_) => format!("{bytes} in {stores} whose rows see {}", group.mask),
    }
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{text}{BOLD:#}")
}

fn tensors(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    if report.total.tensors == 0 {
        return heading(out, "No tensors: only a vocabulary");
    }
    let total = |&Total { tensors, values, bytes }: &Total| {
        format!("{}, {}, {}", counted(tensors, "tensor"), counted(values, "value"), size_if_known(bytes))
    };
    heading(out, &total(&report.total))?;
    let rows = report.tensors.iter().map(|TensorFacts { name, format, shape, bytes }| {
        [printable(name, ""), format.clone(), format!("{shape:?}"), size_if_known(*bytes)]
    });
    write!(out, "{}", columns(&rows.collect::<Vec<_>>(), &[3]))?;
    heading(out, "By format")?;
    write!(out, "{}", pairs(report.formats.iter().map(|(format, sum)| (format.as_str(), total(sum)))))
}

fn size_if_known(bytes: Option<usize>) -> String {
    bytes.map_or("size unknown".to_owned(), |bytes| size(bytes as u64))
}

fn tokenizer_in_words(facts: &TokenizerFacts) -> String {
    let token = |token: &Token| format!("{} \"{}\"", token.id, abbreviated(&token.text, TOKEN));
    let decision = |Decision { value, stated }: Decision| {
        let answer = if value { "yes" } else { "no" };
        format!("{answer}, {}", if stated { "the file says" } else { "by default" })
    };
    let pre = facts.pre_tokenizer.as_deref();
    let first = [
        ("model", facts.model.to_owned()),
        ("pre-tokenizer", pre.map_or("not named".to_owned(), |name| abbreviated(name, TOKEN))),
        ("tokens", facts.vocab_size.to_string()),
        ("BOS before a prompt", decision(facts.add_bos)),
        ("EOS after text", decision(facts.add_eos)),
        ("space before text", decision(facts.add_space_prefix)),
        ("chat template", if facts.chat_template { "yes" } else { "none" }.to_owned()),
    ];
    let sep = facts.special.contains_key("sep").then(|| ("SEP after text", decision(facts.add_sep)));
    let special = facts.special.iter().map(|(name, special)| (*name, token(special)));
    let stop = facts.stop.iter().map(token).collect::<Vec<_>>().join(", ");
    pairs(first.into_iter().chain(sep).chain(special).chain([("ends an answer", stop)]))
}

/// Maximum characters of a string.
const STRING: usize = 80;
/// Maximum characters of a string in an array.
const ELEMENT: usize = 16;
/// Maximum elements of an array.
const ELEMENTS: usize = 6;
/// The elements of arrays that [`short`] needs.
const FEW: usize = ELEMENTS + 1;

/// A value with its type, such as `u32` or `[string; 32000]`.
#[derive(Serialize)]
struct Entry {
    r#type: String,
    value: Json,
}

impl Entry {
    /// With up to `limit` elements of arrays, which may have millions.
    fn new(value: &Value, limit: usize) -> Entry {
        let r#type = match value {
            Value::Array(array) => format!("[{}; {}]", array.element_type(), array.len()),
            other => other.value_type().to_string(),
        };
        Entry { r#type, value: json_value(value, limit) }
    }
}

/// Serialises the result, or `{"error": "reason"}`.
fn or_error<T: Serialize, S: Serializer>(
    result: &Result<T, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(found) => found.serialize(serializer),
        Err(why) => serializer.collect_map([("error", why)]),
    }
}

/// Infinities and NaN are null.
fn json_value(value: &Value, limit: usize) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => float(*v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(v) => elements(v, limit),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
    }
}

fn elements(array: &Array, limit: usize) -> Json {
    match array {
        // Without copies of whole arrays.
        Array::Array(arrays) => arrays.iter().take(limit).map(|array| elements(array, limit)).collect(),
        other => other.values().take(limit).map(|value| json_value(&value, limit)).collect(),
    }
}

/// The number with the digits of the f32, not those of its conversion to f64.
fn float(value: f32) -> Json {
    json!(value.to_string().parse::<f64>().ok())
}

/// On one line, with long strings and arrays cut short.
fn short(value: &Json) -> String {
    let element = |value: &Json| match value {
        Json::String(text) => format!("\"{}\"", abbreviated(text, ELEMENT)),
        Json::Array(_) => "[…]".to_owned(),
        other => other.to_string(),
    };
    match value {
        Json::String(text) => abbreviated(text, STRING),
        Json::Array(values) => {
            let shown: Vec<String> = values.iter().take(ELEMENTS).map(element).collect();
            format!("[{}{}]", shown.join(", "), if values.len() > ELEMENTS { ", …" } else { "" })
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_nothing_steers_the_terminal() {
        let tokens: Vec<String> = (0..9).map(|i| format!("\u{1b}{i}")).collect();
        let Entry { r#type, value } = Entry::new(&Value::from(tokens), FEW);
        assert_eq!(r#type, "[string; 9]");
        let text = short(&value);
        assert!(text.starts_with(r#"["\u{1b}0", "\u{1b}1""#) && text.ends_with(", …]"), "{text}");
        assert_eq!(short(&json_value(&Value::from("a\nb".repeat(100)), FEW)).chars().last(), Some('…'));
        assert_eq!(short(&json_value(&Value::from(vec![1u32, 2]), FEW)), "[1, 2]");
        assert_eq!(short(&json_value(&Value::from(0.1f32), FEW)), "0.1");
    }
}
