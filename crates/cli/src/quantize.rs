//! `rustorch quantize`: quantises a model.
//!
//! All checks precede the first write: the format of each tensor, and whether every value is finite.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use convert::imatrix::Imatrix;
use convert::quantize::{Error, Override, Plan, Planned, Recipe, Warning};
use gguf::Gguf;
use gguf::output::Target;
use indicatif::ProgressBar;
use quant::Mix;
use serde_json::json;

use crate::args::{ModelArgs, NetworkArgs};
use crate::output::{self, Usage, counted, note, size};
use crate::values::from_1_to;
use crate::{files, load};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each tensor gets the format that llama-quantize chooses: in most types some tensors have more bits
than the name says, norms stay as they are, and rows that are no multiple of 256 get formats with
blocks of 32. --pure gives every matrix the same format; --dry-run lists the formats.")]
pub(crate) struct Args {
    /// GGUF file; of a split model, the first part
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Type, such as Q4_K_M; Q3_K, Q4_K and Q5_K are the types that end in _M, COPY changes nothing
    #[arg(value_name = "TYPE", value_parser = mix_or_copy(), ignore_case = true)]
    mix: MixOrCopy,
    /// Importance matrix, as `rustorch imatrix` and llama-imatrix write it: a GGUF file or the older .dat
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Format for matrices whose names match a regular expression, such as attn_v=Q8_0; the first match counts
    #[arg(long, value_name = "PATTERN=TYPE")]
    tensor_type: Vec<Override>,
    /// Use the same format for every matrix
    #[arg(long)]
    pure: bool,
    /// Quantise tensors again that are already quantised, which adds up the errors
    #[arg(long)]
    allow_requantize: bool,
    /// Print the format of each tensor, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// CPU threads [default: as many as the system suggests]
    #[arg(short, long, value_name = "N", env, value_parser = from_1_to::<1024>)]
    threads: Option<NonZero<usize>>,
    #[command(flatten)]
    network: NetworkArgs,
}

fn mixes() -> impl Iterator<Item = PossibleValue> {
    Mix::all().map(|mix| PossibleValue::new(mix.name()).aliases(mix.aliases()))
}

pub(crate) fn mix() -> impl TypedValueParser<Value = Mix> {
    PossibleValuesParser::new(mixes()).try_map(|name| name.parse::<Mix>())
}

/// A type; `None` is COPY.
#[derive(Clone, Copy, Debug)]
struct MixOrCopy(Option<Mix>);

const COPY: &str = "COPY";

fn mix_or_copy() -> impl TypedValueParser<Value = MixOrCopy> {
    PossibleValuesParser::new(mixes().chain([PossibleValue::new(COPY)])).try_map(|name| {
        if name.eq_ignore_ascii_case(COPY) {
            Ok(MixOrCopy(None))
        } else {
            name.parse().map(|mix| MixOrCopy(Some(mix)))
        }
    })
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let file = load::file(&ModelArgs::at(args.input, args.network))?;
    let mut read = files::model_files(&file);
    read.extend(args.imatrix.as_deref());
    let is_quantised = |path: &Path| {
        Gguf::open(path).is_ok_and(|file| file.tensors().any(|tensor| tensor.format.block_len() > 1))
    };
    let target = files::target("OUT", &args.output, &read, "quantised GGUF file", is_quantised)?;
    let imatrix = args.imatrix.as_deref().map(Imatrix::open).transpose()?;
    let named = args.imatrix.as_deref().map(|path| path.display().to_string());
    let recipe = Recipe {
        mix: args.mix.0,
        overrides: &args.tensor_type,
        pure: args.pure,
        imatrix: named.as_deref().zip(imatrix.as_ref()),
        requantize: args.allow_requantize,
    };
    let plan = Plan::new(&file, &recipe).map_err(|error| match error {
        Error::Requantize { .. } => Usage(format!("{error}, or allow it with --allow-requantize")).into(),
        error => anyhow::Error::from(error),
    })?;
    plan.warnings.iter().for_each(warn);

    let begin = Instant::now();
    if !args.dry_run {
        write(&plan, &target, load::threads(args.threads))?;
    }
    let seconds = (!args.dry_run).then(|| begin.elapsed().as_secs_f64());
    let (tensors, output) = (plan.tensors(), args.output.display().to_string());
    let bytes: u64 = tensors.iter().map(Planned::bytes).sum();
    let (before, after) = (file.file_len(), plan.file_len()?);
    let values: u64 = tensors.iter().map(Planned::values).sum();
    let [bits_before, bits] = [plan.work(), bytes].map(|bytes| bytes as f64 * 8.0 / values.max(1) as f64);
    if args.json {
        let row = |planned: &Planned<'_>| {
            json!({
                "name": planned.tensor.name,
                "shape": planned.tensor.shape,
                "from": planned.tensor.format.name(),
                "to": planned.format.name(),
                "bytes": planned.bytes(),
                "importance": planned.importance.is_some(),
            })
        };
        return output::json(&json!({
            "input": file.file(),
            "output": output,
            "type": recipe.mix.map_or(COPY, Mix::name),
            "pure": recipe.pure,
            "imatrix": named,
            "dry_run": args.dry_run,
            "before": { "file_bytes": before, "tensor_bytes": plan.work(), "bits_per_weight": bits_before },
            "after": { "file_bytes": after, "tensor_bytes": bytes, "bits_per_weight": bits },
            "seconds": seconds,
            "tensors": tensors.iter().map(row).collect::<Vec<_>>(),
        }));
    }
    if args.dry_run {
        let row = |planned: &Planned<'_>| {
            let (from, to) = (planned.tensor.format.name(), planned.format.name());
            let shape: Vec<String> = planned.tensor.shape.iter().map(ToString::to_string).collect();
            let format = format!("{from} -> {}", if from == to { "unchanged" } else { to });
            let importance = if planned.importance.is_some() { "by importance" } else { "" };
            let name = output::printable(&planned.tensor.name, "");
            [name, shape.join(" x "), format, size(planned.bytes()), importance.to_owned()]
        };
        let rows: Vec<_> = tensors.iter().map(row).collect();
        output::write_all(output::columns(&rows, &[1, 3]).as_bytes())?;
    }
    let name = if args.dry_run { "the file would be" } else { &output };
    let (before, after) = (size(before), size(after));
    note(format_args!("{name}: {after}, {bits:.2} bits per weight; was {before}, {bits_before:.2}"));
    let mut formats: BTreeMap<&str, usize> = BTreeMap::new();
    for planned in tensors {
        *formats.entry(planned.format.name()).or_default() += 1;
    }
    let formats: Vec<String> = formats.iter().map(|(format, count)| format!("{count} {format}")).collect();
    let time = seconds.map(|seconds| format!("; {seconds:.1} s")).unwrap_or_default();
    note(format_args!("{}: {}{time}", counted(tensors.len(), "tensor"), formats.join(", ")));
    Ok(())
}

fn warn(warning: &Warning) {
    note(format_args!("warning: {warning}"));
}

fn write(plan: &Plan<'_>, target: &Target, threads: NonZero<usize>) -> anyhow::Result<()> {
    let progress = |what| {
        let template = format!("{what} {{bar:20}} {{binary_bytes}} of {{binary_total_bytes}}, {{eta}} left");
        output::show(ProgressBar::new(plan.work()), &template)
    };
    let bar = progress("checking");
    let warnings = plan.check(threads, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    warnings.iter().for_each(warn);
    let mut out = target.create()?;
    let bar = progress("quantising");
    plan.write(&mut out, threads, &|bytes| bar.inc(bytes))?;
    bar.finish_and_clear();
    Ok(out.finish()?)
}
