//! `rustorch bench`: measures speed, absolute and relative to the machine's limits.
//!
//! Tests are those of llama-bench: `pp512` is a prompt of 512 tokens, `tg128` the generation of 128, each with `d` tokens in
//! the KV cache. A row's ceiling follows from its multiply-adds or bytes and the rates of [`backend_cpu::ceilings`]; a model
//! that fits in the caches can exceed it.

mod measure;
mod report;
mod work;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use backend::Backend;
use backend_cpu::{Ceilings, Cpu, Isa};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args as _, Command};
use engine::{Engine, Model, Options};
use gguf::Gguf;
use gguf::output::temporary_folder;
use indicatif::ProgressBar;
use quant::Mix;
use runner::FileWeights;
use rustorch::devices::BackendName;
use synth::Synth;
use tempfile::TempDir;

use crate::args::{BATCH_SIZE, BackendArgs, CacheArgs, CpuArgs, GpuArgs, ModelArgs, WeightsArgs, isa};
use crate::output::{self, INTERRUPTED, Usage, counted, note};
use crate::placement::{self, Placement, Read};
use crate::values::{from_1_to, up_to};
use crate::{interrupt, load};
use measure::{Stopwatch, Test};
use report::{Limits, Row, Speed, Style, Subject};
use work::Work;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lists such as -p 128,512 or -t 1,2 run each combination. The table shows means and standard
deviations, as llama-bench does; shares, and tokens_per_second of -o json and csv, are medians. The
ceiling of a prompt is the peak rate of multiply-adds of the instruction set; that of generation is
the memory bandwidth for weights, keys and values. Ctrl-C prints what has been measured so far.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Use random weights in a real model's shape, such as llama-3.2-1b:Q8_0, instead of a file; see `rustorch
    /// synth`
    #[arg(long, value_name = "SHAPE:TYPE", help_heading = "Model")]
    synth: Option<Synth>,
    /// Prompt lengths in tokens, such as 512 or 128,512; 0 is no test
    #[arg(short = 'p', long, value_name = "N,...", default_value = "512", help_heading = "Tests")]
    #[arg(value_parser = up_to::<MAX_TOKENS>, value_delimiter = ',', action = ArgAction::Set)]
    n_prompt: Vec<usize>,
    /// Numbers of tokens to generate; 0 is no test
    #[arg(short = 'n', long, value_name = "N,...", default_value = "128", help_heading = "Tests")]
    #[arg(value_parser = up_to::<MAX_TOKENS>, value_delimiter = ',', action = ArgAction::Set)]
    n_gen: Vec<usize>,
    /// Numbers of tokens in the KV cache before each test
    #[arg(short = 'd', long, value_name = "N,...", default_value = "0", help_heading = "Tests")]
    #[arg(value_parser = up_to::<MAX_TOKENS>, value_delimiter = ',', action = ArgAction::Set)]
    n_depth: Vec<usize>,
    /// Numbers of sequences that generate side by side, such as 1,8,32; their tokens are counted together [short:
    /// -npl]
    #[arg(long, alias = "npl", value_name = "N,...", default_value = "1", help_heading = "Tests")]
    #[arg(value_parser = from_1_to::<1024>, value_delimiter = ',', action = ArgAction::Set)]
    n_parallel: Vec<NonZero<usize>>,
    /// Runs of each test, after a warm-up
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = from_1_to::<1000>)]
    #[arg(help_heading = "Tests")]
    repetitions: NonZero<usize>,
    /// Backend; ceilings are known only for the CPU
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env, help_heading = "Engine")]
    backend: BackendName,
    #[command(flatten, next_help_heading = "Engine")]
    gpu: GpuArgs,
    /// CPU threads, such as 2 or 1,2 [default: all cores, also busy ones]
    #[arg(short, long, value_name = "N,...", env, help_heading = "Engine")]
    #[arg(value_parser = from_1_to::<1024>, value_delimiter = ',', action = ArgAction::Set)]
    threads: Option<Vec<NonZero<usize>>>,
    /// Instruction set of the CPU kernels [default: the best available]
    #[arg(long, value_name = "NAME", env, value_parser = isa, help_heading = "Engine")]
    isa: Option<Isa>,
    /// Maximum number of prompt tokens per step
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env)]
    #[arg(value_parser = from_1_to::<65536>, help_heading = "Engine", aliases = ["ub", "ubatch-size"])]
    batch_size: NonZero<usize>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten, next_help_heading = "Engine")]
    weights: WeightsArgs,
    /// Skip the ceilings, which take three seconds per number of threads
    #[arg(long, help_heading = "Output")]
    no_ceilings: bool,
    /// Time each GPU kernel with the GPU's clock, which slows generation down
    #[arg(long, help_heading = "Output")]
    kernels: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "STYLE", default_value_t = Style::Table)]
    #[arg(help_heading = "Output")]
    output: Style,
}

/// Maximum of -p, -n and -d.
const MAX_TOKENS: usize = 1 << 20;

/// Refuses a file and a shape on one command line. A shape overrides a file of a variable or the configuration.
pub(crate) fn check(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(("bench", bench)) = matches.subcommand() else { return Ok(()) };
    let is_typed = |name| bench.value_source(name) == Some(ValueSource::CommandLine);
    if is_typed("model") && is_typed("synth") {
        let why = "the argument '--model <MODEL>' cannot be used with '--synth <SHAPE:TYPE>'";
        return Err(
            Args::augment_args(Command::new("rustorch bench")).error(ErrorKind::ArgumentConflict, why)
        );
    }
    Ok(())
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let parallel: Vec<usize> = args.n_parallel.iter().map(|n| n.get()).collect();
    let tests = Test::all(&args.n_prompt, &args.n_gen, &args.n_depth, &parallel);
    if tests.is_empty() {
        return Err(Usage("there is nothing to measure: -p and -n are 0".to_owned()).into());
    }
    interrupt::install()?;
    let random = args.synth.as_ref().map(random_model).transpose()?;
    if let Some((_, file)) = &random {
        args.model.model = Some(file.clone());
    }
    let file = load::introduced(&args.model)?;
    let isa = args.isa.unwrap_or_else(Isa::detect);
    let subject = subject(&args, &file, isa);
    drop(file);
    let threads = args.threads.clone().unwrap_or_else(|| vec![load::threads(None)]);

    let _working = interrupt::working(None);
    let runs = threads.len() * tests.len() * (1 + args.repetitions.get());
    let bar = output::show(ProgressBar::new(runs as u64), "{bar:20} {pos}/{len} {msg}");
    let mut rows = Vec::new();
    for threads in threads {
        rows.extend(measured(&args, &tests, &subject, isa, threads, &bar)?);
        if interrupt::is_to_stop() {
            break;
        }
    }
    bar.finish_and_clear();
    report::print(&rows, args.output)?;
    Ok(if interrupt::is_to_stop() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Writes a model file of random weights, which is removed when the folder is dropped.
fn random_model(synth: &Synth) -> anyhow::Result<(TempDir, PathBuf)> {
    let folder = temporary_folder().context("cannot create a temporary folder")?;
    let file = folder.path().join("model.gguf");
    let cannot_write = || format!("cannot write {}", file.display());
    let out = BufWriter::with_capacity(1 << 20, File::create(&file).with_context(cannot_write)?);
    synth.write(out).with_context(cannot_write)?;
    Ok((folder, file))
}

/// The rows measured until Ctrl-C.
fn measured<'a>(
    args: &Args,
    tests: &[Test],
    subject: &'a Subject,
    isa: Isa,
    threads: NonZero<usize>,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Row<'a>>> {
    let on = counted(threads.get() as u64, "thread");
    let ceilings = || {
        bar.set_message(format!("{on}: limits of the machine"));
        let found = (!args.no_ceilings).then(|| backend_cpu::ceilings(isa, threads));
        found.map(|found| found.context("no memory to measure the memory bandwidth")).transpose()
    };
    let mut machine = ceilings()?;
    // Forgets the memory for that.
    let counts_memory = measure::restart_peak();

    bar.set_message(format!("{on}: loading"));
    let start = Instant::now();
    let model = Arc::new(Model::new(load::file(&args.model)?)?);
    let cpu = CpuArgs { threads: Some(threads), isa: Some(isa), weights: args.weights };
    let Args { backend, batch_size, kernels: is_timed, .. } = *args;
    let device_args = BackendArgs { backend, gpu: args.gpu.clone(), cpu, batch_size, is_timed };
    let longest = tests.iter().map(|test| test.depth + test.tokens).max().unwrap_or(0);
    let options = Options {
        // One token follows the prompt, and a sequence always has room for one more.
        n_ctx: Some(longest + 2),
        sequences: tests.iter().map(|test| test.parallel).max().unwrap_or(1),
        n_batch: args.batch_size.get(),
        kv_format: args.cache.format(),
        ..Options::default()
    };
    let weights = FileWeights(model.file());
    let workload = placement::workload(&model, &weights, &options, Read::LAST)?;
    let placement = Placement::new(&device_args, &workload)?;
    let (engine, backend, gpu_layers) = placement.with(|backend, placement| {
        let name = placement.in_words();
        Ok((Engine::new(model.clone(), backend, options)?, name, placement.on_gpu()))
    })?;
    let load_seconds = start.elapsed().as_secs_f64();
    tracing::debug!("loaded for {on} in {load_seconds:.2} s");

    let mut rows = Vec::new();
    // The clock of a GPU rises under load.
    let warm_up = if gpu_layers > 0 { Duration::from_secs(1) } else { Duration::ZERO };
    let mut stopwatch = Stopwatch { engine, turn: 0, warm_up, bar };
    for &test in tests {
        bar.set_message(format!("{on}: {test}"));
        let Some(samples) = stopwatch.samples(test, args.repetitions.get())? else { break };
        tracing::debug!("{test} on {on}: tokens per second {samples:.2?}");
        rows.push(Row {
            subject,
            backend: backend.clone(),
            gpu_layers,
            threads: threads.get(),
            name: test.to_string(),
            test,
            speed: Speed::new(samples),
            kernels: stopwatch.engine.runner().timings(),
            limits: Limits::default(),
            load_seconds,
            peak_memory_bytes: measure::memory("VmHWM").filter(|_| counts_memory),
            anonymous_memory_bytes: measure::memory("RssAnon"),
        });
    }
    drop(stopwatch);
    if args.kernels && rows.iter().all(|row| row.kernels.is_empty()) {
        bar.suspend(|| note(format_args!("rustorch: no device here can time its kernels")));
    }
    if !interrupt::is_to_stop() {
        // Again: other processes may have slowed it down before.
        machine = machine.zip(ceilings()?).map(|(before, after)| before.best(after));
    }
    if let Some(machine) = machine.filter(|_| backend == "cpu") {
        bar.suspend(|| note(format_args!("{}", machine_in_words(&on, isa, &machine))));
        let format_of = |name: &str| model.file().tensor(name).map(|tensor| tensor.format);
        let work = Work::of(model.graph(), args.cache.format(), format_of);
        for row in &mut rows {
            row.limits = Limits::new(machine, work.ceiling(row.test, &machine), &row.speed);
        }
    }
    Ok(rows)
}

fn subject(args: &Args, file: &Gguf, isa: Isa) -> Subject {
    Subject {
        model: match (&args.synth, &args.model.model) {
            (Some(synth), _) => synth.shape.name.to_owned(),
            (None, Some(path)) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            (None, None) => file.file().to_owned(),
        },
        r#type: file_type(file),
        size_bytes: file.tensors().map(|tensor| tensor.data.len() as u64).sum(),
        parameters: load::parameters(file) as u64,
        processor: Cpu::new(NonZero::new(1)).describe().device,
        isa: isa.name(),
        batch_size: args.batch_size.get(),
        cache_type: args.cache.format().to_string(),
        no_repack: args.weights.no_repack,
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// `general.file_type`, or the format with the most bytes.
fn file_type(file: &Gguf) -> &'static str {
    let number = file.metadata().u32("general.file_type").ok().flatten();
    if let Some(mix) = Mix::all().find(|mix| Some(mix.file_type()) == number) {
        return mix.name();
    }
    let mut bytes = BTreeMap::new();
    for tensor in file.tensors() {
        *bytes.entry(tensor.format.name()).or_insert(0) += tensor.data.len();
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("none", |(name, _)| name)
}

fn machine_in_words(on: &str, isa: Isa, ceilings: &Ceilings) -> String {
    let of = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), |rate| format!("{:.0} G", rate / 1e9));
    format!(
        "{} on {on}: {} multiply-adds per second of 8-bit integers, {} of f32; memory bandwidth {:.1} GB/s",
        isa.name(),
        of(ceilings.int8_macs_per_second),
        of(ceilings.f32_macs_per_second),
        ceilings.read_bytes_per_second / 1e9
    )
}
