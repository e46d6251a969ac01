//! `rustorch bench`: how fast a model runs here, and what part that is of what the machine could do.
//!
//! Tests are those of llama-bench: `pp512` is a prompt of 512 tokens, `tg128` the generation of 128, each
//! after `d` tokens that are there already. A row's ceiling is what its multiply-adds or its bytes would
//! take at the rates of [`backend_cpu::ceilings`]; a model that the caches hold can be beyond it.

mod measure;
mod memory;
mod plan;
mod report;
mod table;
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
use backend::{Backend, Interrupt};
use backend_cpu::{Ceilings, Cpu, Isa};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};
use engine::{Engine, Model, Options};
use gguf::Gguf;
use indicatif::ProgressBar;
use outfile::TempFolder;
use quantize::Mix;
use synth::Synth;

use crate::args::{BATCH_SIZE, CacheArgs, CpuArgs, GpuArgs, ModelArgs, WeightsArgs, isa};
use crate::interrupt::Answering;
use crate::output::{self, INTERRUPTED, Usage, counted, note};
use crate::placement::{self, BackendChoice, Placement, Read};
use crate::registry::BackendName;
use crate::values::from_1_to;
use crate::{interrupt, load};
use measure::Stopwatch;
use plan::{Counts, Test, Threads};
use report::{Row, Style, Subject};
use work::Work;

/// What `bench` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lists such as -p 128,512 or -t 1,2 measure each. The table has means and standard deviations, as
llama-bench's has; shares, and tokens_per_second of -o json and csv, are of medians. The ceiling of a
prompt is what its multiply-adds would take at the instruction set's rate, that of generation what
weights, keys and values would take at the rate of reading memory. Ctrl-C prints what was measured.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Measure with random weights in a real model's shape, such as llama-3.2-1b:Q8_0, in place of a file; see
    /// `rustorch synth`
    #[arg(long, value_name = "SHAPE:TYPE", help_heading = "Model")]
    synth: Option<Synth>,
    /// Tokens of a prompt, such as 512 or 128,512; 0 for no such test
    #[arg(short = 'p', long, value_name = "N,...", default_value = "512", help_heading = "Tests")]
    n_prompt: Counts,
    /// Tokens to generate; 0 for no such test
    #[arg(short = 'n', long, value_name = "N,...", default_value = "128", help_heading = "Tests")]
    n_gen: Counts,
    /// Tokens that are there already
    #[arg(short = 'd', long, value_name = "N,...", default_value = "0", help_heading = "Tests")]
    n_depth: Counts,
    /// How often each test runs, after some tokens that do not count
    #[arg(short, long, value_name = "N", default_value = "5", value_parser = from_1_to::<1000>)]
    #[arg(help_heading = "Tests")]
    repetitions: NonZero<usize>,
    /// What computes; ceilings are known of the CPU alone
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env = "RUSTORCH_BACKEND", help_heading = "Engine")]
    backend: BackendName,
    #[command(flatten, next_help_heading = "Engine")]
    gpu: GpuArgs,
    /// Threads, such as 2 or 1,2 [default: as many as the system says are useful]
    #[arg(short, long, value_name = "N,...", env = "RUSTORCH_THREADS", help_heading = "Engine")]
    threads: Option<Threads>,
    /// Instruction set of the CPU's kernels [default: the best this processor has]
    #[arg(long, value_name = "NAME", env = "RUSTORCH_ISA", value_parser = isa, help_heading = "Engine")]
    isa: Option<Isa>,
    /// Tokens of a prompt that are computed at once
    #[arg(short, long, value_name = "N", default_value_t = BATCH_SIZE, env = "RUSTORCH_BATCH_SIZE")]
    #[arg(value_parser = from_1_to::<65536>, help_heading = "Engine")]
    batch_size: NonZero<usize>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten, next_help_heading = "Engine")]
    weights: WeightsArgs,
    /// Do not measure what the machine could do, which takes three seconds for each number of threads
    #[arg(long, help_heading = "Output")]
    no_ceilings: bool,
    /// Say what each kernel of the graphics processor takes, by its own clock; tokens come more slowly meanwhile
    #[arg(long, help_heading = "Output")]
    kernels: bool,
    /// How to print it
    #[arg(short, long, value_enum, value_name = "STYLE", default_value_t = Style::Table)]
    #[arg(help_heading = "Output")]
    output: Style,
}

/// Refuses a file and a shape on one command line; a shape goes before the file that a variable or the
/// configuration names.
pub(crate) fn check(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(("bench", bench)) = matches.subcommand() else { return Ok(()) };
    let is_told = |name| bench.value_source(name) == Some(ValueSource::CommandLine);
    if is_told("model") && is_told("synth") {
        let why = "the argument '--model <FILE>' cannot be used with '--synth <SHAPE:TYPE>'";
        return Err(
            Args::augment_args(Command::new("rustorch bench")).error(ErrorKind::ArgumentConflict, why)
        );
    }
    Ok(())
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let tests = Test::all(&args.n_prompt, &args.n_gen, &args.n_depth);
    if tests.is_empty() {
        return Err(Usage("there is nothing to measure: -p and -n are 0".to_owned()).into());
    }
    interrupt::install()?;
    let made = args.synth.as_ref().map(Made::new).transpose()?;
    if let Some(made) = &made {
        args.model.model = Some(made.file.clone());
    }
    let file = load::file(&args.model)?;
    load::introduce(&args.model, &file);
    let isa = args.isa.unwrap_or_else(Isa::detect);
    let subject = subject(&args, &file, isa);
    drop(file);
    let threads = args
        .threads
        .clone()
        .unwrap_or_else(|| Threads(vec![std::thread::available_parallelism().map_or(1, NonZero::get)]));

    let answering = Answering::begin(Interrupt::default());
    let bar = progress(threads.0.len() * tests.len() * (1 + args.repetitions.get()));
    let mut rows = Vec::new();
    for threads in threads.0.into_iter().filter_map(NonZero::new) {
        rows.extend(on_threads(&args, &tests, isa, threads, &answering, &bar)?);
        if answering.is_to_stop() {
            break;
        }
    }
    bar.finish_and_clear();
    report::print(&subject, &rows, args.output)?;
    Ok(if answering.is_to_stop() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// A model made for this run; goes with it.
struct Made {
    file: PathBuf,
    _folder: TempFolder,
}

impl Made {
    fn new(synth: &Synth) -> anyhow::Result<Made> {
        let folder = TempFolder::new().context("no folder for a model")?;
        let file = folder.path().join("model.gguf");
        let cannot_write = || format!("cannot write {}", file.display());
        let out = BufWriter::with_capacity(1 << 20, File::create(&file).with_context(cannot_write)?);
        synth.write(out).with_context(cannot_write)?;
        Ok(Made { file, _folder: folder })
    }
}

/// The rows of a number of threads, as far as it comes before Ctrl-C.
fn on_threads(
    args: &Args,
    tests: &[Test],
    isa: Isa,
    threads: NonZero<usize>,
    answering: &Answering,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Row>> {
    let ceilings = || match args.no_ceilings {
        true => Ok(None),
        false => {
            let found = backend_cpu::ceilings(isa, threads);
            found.map(Some).context("no memory to measure how fast it is read")
        }
    };
    let on = counted(threads.get() as u64, "thread");
    bar.set_message(format!("{on}: what the machine can do"));
    let mut machine = ceilings()?;
    // The memory for that does not count.
    let counts_memory = memory::restart();

    bar.set_message(format!("{on}: loading"));
    let start = Instant::now();
    let model = Arc::new(Model::new(load::file(&args.model)?)?);
    let cpu = CpuArgs { threads: Some(threads), isa: Some(isa), weights: args.weights };
    let choice = BackendChoice { name: args.backend, gpu: args.gpu, cpu, is_timed: args.kernels };
    let options = options(args, tests);
    let placement =
        placement::of_engine(&model, &options, Read::LAST, |workload| Placement::new(choice, workload))?;
    let (engine, backend, gpu_layers) = placement.with(|backend, placement| {
        let name = placement.in_words();
        Ok((Engine::new(model.clone(), backend, options)?, name, placement.on_gpu()))
    })?;
    let is_cpu = backend == "cpu";
    let load_seconds = start.elapsed().as_secs_f64();
    tracing::debug!("loaded for {on} in {load_seconds:.2} s");
    let format_of = |name: &str| model.file().tensor(name).map(|tensor| tensor.format);
    let work = Work::of(model.graph(), args.cache.format(), format_of);

    let mut rows = Vec::new();
    // The clock of a graphics processor rises with work.
    let warm_up = if gpu_layers > 0 { Duration::from_secs(1) } else { Duration::ZERO };
    let mut stopwatch = Stopwatch::new(engine, warm_up, answering, bar);
    for &test in tests {
        bar.set_message(format!("{on}: {test}"));
        let Some(samples) = stopwatch.samples(test, args.repetitions.get())? else { break };
        let peak_memory_bytes = memory::peak().filter(|_| counts_memory);
        let anonymous_memory_bytes = memory::anonymous();
        tracing::debug!("{test} on {on}: tokens a second {samples:.2?}");
        let threads = threads.get();
        rows.push(Row {
            backend: backend.clone(),
            gpu_layers,
            test,
            threads,
            samples,
            kernels: stopwatch.timings(),
            ceiling: None,
            machine,
            load_seconds,
            peak_memory_bytes,
            anonymous_memory_bytes,
        });
    }
    drop(stopwatch);
    if args.kernels && rows.iter().all(|row| row.kernels.is_empty()) {
        bar.suspend(|| note(format_args!("rustorch: nothing here has a clock for --kernels")));
    }
    if !answering.is_to_stop() {
        // Once more: others may have slowed it down before.
        bar.set_message(format!("{on}: what the machine can do"));
        machine = machine.zip(ceilings()?).map(|(before, after)| before.best(after));
    }
    if let Some(machine) = machine.filter(|_| is_cpu) {
        bar.suspend(|| note(format_args!("{}", machine_in_words(&on, isa, &machine))));
        for row in &mut rows {
            row.machine = Some(machine);
            row.ceiling = work.ceiling(row.test, &machine);
        }
    }
    Ok(rows)
}

/// An engine for the longest test and no more.
fn options(args: &Args, tests: &[Test]) -> Options {
    let longest = tests.iter().map(|test| test.depth + test.tokens).max().unwrap_or(0);
    Options {
        // The token that a prompt gives, and the one that a sequence always has room for.
        n_ctx: Some(longest + 2),
        n_batch: args.batch_size.get(),
        kv_format: args.cache.format(),
        ..Options::default()
    }
}

fn subject(args: &Args, file: &Gguf, isa: Isa) -> Subject {
    let parameters = file.tensors().map(|tensor| (tensor.row_len() * tensor.rows()) as u64).sum();
    Subject {
        model: match (&args.synth, &args.model.model) {
            (Some(synth), _) => synth.shape.name.to_owned(),
            (None, Some(path)) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            (None, None) => file.file().to_owned(),
        },
        kind: kind(file).to_owned(),
        size_bytes: file.tensors().map(|tensor| tensor.data.len() as u64).sum(),
        parameters,
        processor: Cpu::new(NonZero::new(1)).describe().device,
        isa: isa.name(),
        batch_size: args.batch_size.get(),
        cache_type: match args.cache.format() {
            engine::KvFormat::F16 => "f16",
            engine::KvFormat::F32 => "f32",
        },
        no_repack: args.weights.no_repack,
        version: env!("CARGO_PKG_VERSION"),
    }
}

/// The formats of a file's weights by `general.file_type`; of a file that does not say, the format of the
/// most bytes.
fn kind(file: &Gguf) -> &'static str {
    let number = file.metadata().u32("general.file_type").ok().flatten();
    let named = Mix::all().find(|mix| Some(mix.file_type()) == number);
    named.map_or_else(
        || {
            let mut bytes = BTreeMap::new();
            for tensor in file.tensors() {
                *bytes.entry(tensor.format.name()).or_insert(0) += tensor.data.len();
            }
            bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("none", |(name, _)| name)
        },
        |mix| mix.name(),
    )
}

fn machine_in_words(on: &str, isa: Isa, ceilings: &Ceilings) -> String {
    let of = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), |rate| format!("{:.0} G", rate / 1e9));
    format!(
        "{} on {on}: {} multiply-adds a second of 8-bit integers, {} of f32; memory is read at {:.1} GB/s",
        isa.name(),
        of(ceilings.int8_macs_per_second),
        of(ceilings.f32_macs_per_second),
        ceilings.read_bytes_per_second / 1e9
    )
}

/// A bar on stderr, when that is a terminal.
fn progress(runs: usize) -> ProgressBar {
    output::show(ProgressBar::new(runs as u64), "{bar:20} {pos}/{len} {msg}")
}
