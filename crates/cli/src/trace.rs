//! `rustorch trace`: records what a model computes.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use backend::{KV_BLOCK, KvLayout, Taps};
use models::Model;
use runner::{FileWeights, Workload};
use serde::Serialize;
use trace::{Recording, Summary, Trace};

use crate::args::{BackendArgs, CacheArgs, ModelArgs};
use crate::logits::SequenceArgs;
use crate::placement::Placement;
use crate::values::layer_range;
use crate::{files, load, output};

pub(crate) const PRODUCER: &str = concat!("rustorch ", env!("CARGO_PKG_VERSION"));

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Values are named as in llama.cpp: embd, attn_norm-0, Qcur_pre-0 (before RoPE), Qcur-0, ...,
result_norm, result_output. The model runs twice: result_output.tapped is the output of the run
with recording, result_output that of a normal run. tools/oracle has programs that record the same
values with llama.cpp and transformers.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sequence: SequenceArgs,
    /// Only values whose names contain a match of this regular expression
    #[arg(long, value_name = "REGEX", help_heading = "Values")]
    filter: Option<regex::Regex>,
    /// Only values of these decoder layers, such as 0-3 or 5
    #[arg(long, value_name = "LAYERS", value_parser = layer_range, help_heading = "Values")]
    layers: Option<RangeInclusive<usize>>,
    /// Write the values to a safetensors file, float32 [positions, columns] each
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Print one JSON object instead of the table; infinities and NaN are null
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let file = load::introduced(&args.model)?;
    if let Some(path) = &args.output {
        files::target("-o", path, &files::model_files(&file), "trace", |path| Trace::open(path).is_ok())?;
    }
    let model = Model::new(&file)?;
    let tokens = args.sequence.tokens(&file)?;
    let select = |name: &str| {
        // Names end with the layer: `Qcur-0`.
        let layer = name.rsplit_once('-').and_then(|(_, layer)| layer.parse().ok());
        args.filter.as_ref().is_none_or(|filter| filter.is_match(name))
            && args.layers.as_ref().is_none_or(|range| layer.is_some_and(|layer| range.contains(&layer)))
    };
    let recording = Recording {
        file: &file,
        graph: &model.graph,
        tokens: &tokens,
        kv: args.cache.format(),
        rows: args.backend.batch_size.get(),
        select: &select,
        producer: PRODUCER,
    };
    let values = record(&recording, &args.backend, args.output.as_deref())?;
    if args.json {
        let values = values.iter().map(|Summary { shape, stats }| Value {
            name: &shape.name,
            shape: [shape.rows, shape.cols],
            rms: stats.rms(),
            mean: stats.mean(),
            min: stats.min,
            max: stats.max,
            nan: stats.nan,
            first: &stats.first,
        });
        return output::json(&Report { tokens: &tokens, values: values.collect() });
    }
    let mut out = output::stdout();
    out.write_all(trace::table(&values).as_bytes())?;
    Ok(out.flush()?)
}

pub(crate) fn record(
    recording: &Recording<'_>,
    args: &BackendArgs,
    to: Option<&Path>,
) -> anyhow::Result<Vec<Summary>> {
    let (graph, weights) = (recording.graph, FileWeights(recording.file));
    let kv_layout = KvLayout::uniform(graph, recording.tokens.len().div_ceil(KV_BLOCK), recording.kv);
    let (buckets, selected) = (vec![recording.bucket()], recording.selected());
    let workload = Workload { weights: &weights, graph, kv_layout, buckets, taps: Taps::Names(&selected) };
    Placement::new(args, &workload)?.with(|backend, _| Ok(recording.run(backend, to)?))
}

#[derive(Serialize)]
struct Report<'a> {
    tokens: &'a [u32],
    values: Vec<Value<'a>>,
}

#[derive(Serialize)]
struct Value<'a> {
    name: &'a str,
    shape: [usize; 2],
    rms: f64,
    mean: f64,
    min: f32,
    max: f32,
    nan: u64,
    first: &'a [f32],
}
