//! `rustorch compare`: finds where two runs first differ, and why.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use backend::Backend;
use backend_reference::Reference;
use gguf::Gguf;
use gguf::output::{Target, temporary_folder};
use graph::Graph;
use models::Model;
use rustorch::devices::BackendName;
use trace::{Oracle, Recording, Report, Trace};

use crate::args::{BATCH_SIZE, BackendArgs, CacheArgs, CpuArgs, GpuArgs, ModelArgs};
use crate::output::Usage;
use crate::trace::PRODUCER;
use crate::values::{TokenIds, from_1_to};
use crate::{files, interrupt, load, output};

// Exit codes.
const DIFFER: u8 = 1;
const TROUBLE: u8 = 2;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A is the run to check. Each side is a trace (of `rustorch trace` or a program in tools/oracle) or a
backend that computes the model now (--a, --b). By default, B is the reference backend.

With a model, the reference backend recomputes each operation of A on the inputs recorded in A. The
first operation whose own error exceeds the limit of one operation fails; errors of its inputs do
not count. Traces of the embedded model need no -m; without a model, only accumulated errors are
known.

Exit code: 0 if nothing is wrong, 1 if something is, 2 if the runs cannot be compared.")]
pub(crate) struct Args {
    /// Traces: A, then B
    #[arg(value_name = "TRACE", num_args = 0..=2)]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// Record A now, on this backend
    #[arg(long, value_enum, value_name = "BACKEND", help_heading = "Sides")]
    a: Option<BackendName>,
    /// Record B now, on this backend
    #[arg(long, value_enum, value_name = "BACKEND", help_heading = "Sides")]
    b: Option<BackendName>,
    /// Token ids, such as 1,15043, if neither side is a trace
    #[arg(long, value_name = "IDS", help_heading = "Sides", conflicts_with = "prompt")]
    tokens: Option<TokenIds>,
    /// Text instead of token ids, without a chat template
    #[arg(short, long, value_name = "TEXT", help_heading = "Sides", allow_hyphen_values = true)]
    prompt: Option<String>,
    #[command(flatten)]
    gpu: GpuArgs,
    #[command(flatten)]
    cpu: CpuArgs,
    #[command(flatten)]
    cache: CacheArgs,
    /// Maximum number of tokens per step of a side that is computed now
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env)]
    #[arg(value_parser = from_1_to::<65536>)]
    batch_size: NonZero<usize>,
    /// Write a self-contained page with a chart and the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    /// Print one JSON object; infinities and NaN are null
    #[arg(long, help_heading = "Output")]
    json: bool,
}

enum Side<'a> {
    Trace(&'a Path),
    Backend(BackendName),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match compare(args).and_then(|report| show(args, &report).map(|()| report.alike)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFER),
        Err(error) => {
            output::fail(&error);
            ExitCode::from(TROUBLE)
        }
    }
}

fn compare(args: &Args) -> anyhow::Result<Report> {
    let sides = sides(args)?;
    let records = sides.iter().any(|side| matches!(side, Side::Backend(_)));
    let file = if records || args.model.is_given() {
        Some(load::file(&args.model)?)
    } else {
        // The embedded model, if A is a trace of it.
        let a = args.traces.first().map(Trace::open).transpose()?;
        let digest = a.and_then(|trace| trace.meta().model_digest.clone());
        Some(load::file(&args.model)?).filter(|file| digest == Some(trace::digest(file)))
    };
    let model = file.as_ref().map(Model::new).transpose()?;
    if let Some(file) = &file {
        load::introduce(&args.model, file);
    }
    if let Some(path) = &args.html {
        let model = file.iter().flat_map(files::model_files);
        let read: Vec<&Path> = model.chain(args.traces.iter().map(PathBuf::as_path)).collect();
        page(path, &read)?;
    }
    interrupt::install()?;
    let folder = temporary_folder().context("cannot create a temporary folder")?;
    let tokens = tokens(args, &sides, file.as_ref())?;
    let mut traces = Vec::new();
    for (name, side) in ["a", "b"].into_iter().zip(&sides) {
        traces.push(match (side, &file, &model) {
            (Side::Backend(backend), Some(file), Some(model)) => {
                let path = folder.path().join(name);
                record(args, file, &model.graph, &tokens, *backend, &path)?;
                let trace = Trace::open(path)?;
                if *backend == BackendName::REFERENCE { trace.trusted() } else { trace }
            }
            (Side::Backend(_), ..) => bail!(Usage("a backend needs a model: pass -m FILE".to_owned())),
            (Side::Trace(path), ..) => Trace::open(path)?,
        });
        // Before B is computed: another model may lack A's tokens.
        if let (Some(file), [a]) = (&file, &traces[..]) {
            check_model(file, a)?;
        }
    }
    let [a, b] = &traces[..] else { unreachable!("two sides") };
    let reference = || Box::new(Reference::new()) as Box<dyn Backend>;
    let oracle = match (&file, &model) {
        (Some(file), Some(model)) => Some(Oracle::new(file, &model.graph, &reference)),
        _ => None,
    };
    let mut report = trace::compare(a, b, oracle)?;
    for (side, named) in [(&mut report.a, &sides[0]), (&mut report.b, &sides[1])] {
        if let Side::Backend(_) = named {
            side.trace = "computed now".to_owned();
        }
    }
    Ok(report)
}

fn sides(args: &Args) -> Result<[Side<'_>; 2], Usage> {
    let backend = |name: Option<BackendName>| name.map(Side::Backend);
    let usage = |message: &str| Err(Usage(message.to_owned()));
    Ok(match (&args.traces[..], backend(args.a), backend(args.b)) {
        ([a, b], None, None) => [Side::Trace(a), Side::Trace(b)],
        ([_, _], ..) => return usage("two traces and a backend are three sides: omit one"),
        ([a], None, b) => [Side::Trace(a), b.unwrap_or(Side::Backend(BackendName::REFERENCE))],
        ([b], Some(a), None) => [a, Side::Trace(b)],
        ([_], Some(_), Some(_)) => return usage("a trace, --a and --b are three sides: omit one"),
        ([], Some(a), b) => [a, b.unwrap_or(Side::Backend(BackendName::REFERENCE))],
        _ => return usage("nothing to compare: give two traces, a trace and its model, or --a BACKEND"),
    })
}

/// The tokens of the trace, or of the command line.
fn tokens(args: &Args, sides: &[Side<'_>; 2], file: Option<&Gguf>) -> anyhow::Result<Vec<u32>> {
    let trace = sides.iter().find_map(|side| if let Side::Trace(path) = side { Some(path) } else { None });
    let usage = |message: &str| Err(Usage(message.to_owned()).into());
    match (trace, &args.tokens, &args.prompt, file) {
        (Some(path), None, None, _) => Ok(Trace::open(path)?.meta().tokens.clone()),
        (Some(_), ..) => usage("the tokens are those of the trace: omit --tokens and -p"),
        (None, Some(TokenIds(tokens)), ..) => Ok(tokens.clone()),
        (None, None, Some(prompt), Some(file)) => load::raw_tokens(file, prompt),
        _ => usage("no tokens: pass --tokens IDS or -p TEXT"),
    }
}

fn record(
    args: &Args,
    file: &Gguf,
    graph: &Graph,
    tokens: &[u32],
    name: BackendName,
    path: &Path,
) -> anyhow::Result<()> {
    let Args { cpu, batch_size, .. } = *args;
    let (kv, rows) = (args.cache.format(), batch_size.get());
    let recording = Recording { file, graph, tokens, kv, rows, select: &|_| true, producer: PRODUCER };
    let gpu = args.gpu.for_backend(name);
    let backend = BackendArgs { backend: name, gpu, cpu, batch_size, is_timed: false };
    crate::trace::record(&recording, &backend, Some(path)).map(drop)
}

fn check_model(file: &Gguf, trace: &Trace) -> anyhow::Result<()> {
    let Some(recorded) = &trace.meta().model_digest else { return Ok(()) };
    if trace::digest(file) != *recorded {
        let (trace, model) = (trace.path().display(), &trace.meta().model);
        bail!(
            "{trace} was recorded from another model file, {model}, than {}; pass that one with -m",
            file.file()
        );
    }
    Ok(())
}

fn show(args: &Args, report: &Report) -> anyhow::Result<()> {
    let printed = if args.json {
        output::json(report)
    } else {
        output::write_all(output::printable(&report.to_string(), "\n").as_bytes()).map_err(Into::into)
    };
    // Written even if stdout is closed.
    if let Some(path) = &args.html {
        let mut page = page(path, &[])?.create()?;
        let written = page.write_all(report.html().as_bytes());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        page.finish()?;
    }
    printed.or_else(|error| if output::is_pipe(&error) { Ok(()) } else { Err(error) })
}

/// Checks the name `path` for a page.
fn page(path: &Path, read: &[&Path]) -> anyhow::Result<Target> {
    files::target("--html", path, read, "page", |path| {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
        read.is_ok() && head.trim_ascii_start().to_ascii_lowercase().starts_with(b"<!doctype html")
    })
}
