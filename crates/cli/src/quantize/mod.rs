//! `rustorch quantize`: a model in fewer bits.
//!
//! Everything that can be wrong is looked for first: what becomes of each tensor ([`plan`]) and whether
//! every value is a number ([`convert::check`]). Then the file is written tensor by tensor; it gets its
//! name when it is whole.

mod convert;
mod imatrix;
pub(crate) mod mix;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use std::io::BufWriter;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use gguf::{Gguf, Layout};
use indicatif::ProgressBar;
use quant::Format;
use trace::Draft;

use crate::args::ModelArgs;
use crate::interrupt::Unfinished;
use crate::output::{self, note};
use crate::values::from_1_to;
use crate::{load, outfile};
use imatrix::Imatrix;
use mix::Mix;
use plan::Planned;
use report::{Asked, Report};

/// What `quantize` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Formats of tensors are those that llama-quantize chooses: in most types some tensors have more bits
than the name says, norms stay as they are, and rows that are no multiple of 256 get formats with
blocks of 32. --pure gives every matrix the one format; --dry-run shows which has which.")]
pub(crate) struct Args {
    /// The model, a GGUF file; of a split one, the first part
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// What to make of it, such as Q4_K_M; Q3_K, Q4_K and Q5_K are the types that end in _M
    #[arg(value_name = "TYPE", value_enum, ignore_case = true)]
    mix: Mix,
    /// Importance of columns, of llama-imatrix: a GGUF file or the older .dat
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// The same format for every matrix
    #[arg(long)]
    pure: bool,
    /// Quantise again what is quantised, which loses more than once
    #[arg(long)]
    allow_requantize: bool,
    /// Print what would become of each tensor, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Threads [default: as many as the system says are useful]
    #[arg(short, long, value_name = "N", env = "RUSTORCH_THREADS", value_parser = from_1_to::<1024>)]
    threads: Option<NonZero<usize>>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = load::file(&ModelArgs { model: Some(args.input) })?;
    let mut read = outfile::of(&file);
    read.extend(args.imatrix.as_deref());
    outfile::check("OUT", &args.output, &read)?;
    let imatrix = args.imatrix.as_deref().map(Imatrix::read).transpose()?;

    let facts = plan::facts(&file, imatrix.is_some(), args.pure)?;
    let plan = plan::plan(&file, args.mix, &facts, imatrix.as_ref(), args.allow_requantize)?;
    let metadata = plan::metadata(&file, args.mix, args.imatrix.as_deref().zip(imatrix.as_ref()));
    let mut layout = Layout::new(&metadata)?;
    for Planned { tensor, format, .. } in &plan {
        layout.tensor(tensor.name.as_str(), &tensor.shape, *format)?;
    }
    let sizes = (file.file_len(), layout.file_len());
    let is_quantised = |file: Gguf| file.tensors().any(|tensor| tensor.format.block_len() > 1);
    let draft =
        Draft::new(&args.output, "quantised GGUF file", |path| Gguf::open(path).is_ok_and(is_quantised))?;

    let begin = Instant::now();
    if !args.dry_run {
        let threads =
            args.threads.or(std::thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN);
        check(&file, &plan, threads)?;
        write(&file, &plan, layout, draft, threads)?;
    }
    let asked = Asked {
        input: file.file(),
        output: args.output.display().to_string(),
        mix: args.mix,
        pure: args.pure,
        imatrix: args.imatrix.map(|path| path.display().to_string()),
    };
    let report = Report::new(asked, &plan, sizes, (!args.dry_run).then(|| begin.elapsed()));
    if args.json {
        output::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        report.print_plan()?;
    }
    report.say();
    Ok(ExitCode::SUCCESS)
}

/// Refuses a model with values that are not finite; warns of some that are larger than any F16.
fn check(file: &Gguf, plan: &[Planned<'_>], threads: NonZero<usize>) -> anyhow::Result<()> {
    const LARGEST: f32 = 65504.0;
    let bar = progress("checking", file);
    for Planned { tensor, format, .. } in plan {
        let largest = convert::check(tensor, threads, &bar)?;
        file.release(&tensor.data);
        if largest > LARGEST && *format != tensor.format && !matches!(format, Format::F32 | Format::BF16) {
            let name = gguf::quoted(&tensor.name);
            bar.suspend(|| {
                note(format_args!(
                    "warning: {name} holds values up to {largest:e}, and {format} counts in F16, which ends \
                     at {LARGEST}; what is beyond its reach becomes the largest value that it has"
                ));
            });
        }
    }
    bar.finish_and_clear();
    Ok(file.check_intact()?)
}

fn write(
    file: &Gguf,
    plan: &[Planned<'_>],
    layout: Layout,
    mut draft: Draft,
    threads: NonZero<usize>,
) -> anyhow::Result<()> {
    let _unfinished = Unfinished::begin(draft.part())?;
    let out = draft.begin()?;
    let cannot_write = || format!("cannot write {}", draft.part().display());
    let mut writer = layout.begin(BufWriter::new(out)).with_context(cannot_write)?;
    let bar = progress("quantising", file);
    for planned in plan {
        let Planned { tensor, .. } = planned;
        let written = if planned.is_copied() {
            bar.inc(tensor.data.len() as u64);
            writer.tensor(&tensor.name, &tensor.data)
        } else {
            writer.tensor_with(&tensor.name, |out| convert::convert(planned, threads, out, &bar))
        };
        written.with_context(cannot_write)?;
        file.release(&tensor.data);
    }
    bar.finish_and_clear();
    writer.finish().with_context(cannot_write)?;
    file.check_intact()?;
    Ok(draft.finish()?)
}

/// A bar on stderr, when that is a terminal.
fn progress(what: &'static str, file: &Gguf) -> ProgressBar {
    let bar = ProgressBar::new(file.tensors().map(|tensor| tensor.data.len() as u64).sum());
    output::show(bar, &format!("{what} {{bar:20}} {{binary_bytes}} of {{binary_total_bytes}}, {{eta}} left"))
}
