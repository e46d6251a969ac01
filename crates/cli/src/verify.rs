//! `rustorch verify`: flags and output of [`eval::verify`].

use std::io::{self, Write};
use std::num::NonZero;
use std::process::ExitCode;

use backend::OpenOptions;
use eval::verify::{Candidate, Event, Outcome, Verifier};
use indicatif::ProgressBar;
use runner::DeviceConfig;
use rustorch::devices::{self, BackendName, registry};
use serde::Serialize;

use crate::args::{CpuArgs, ModelArgs, PositionalModel, WeightsArgs};
use crate::output::{self, BOLD, GREEN, RED, Usage, size};
use crate::values::from_1_to;
use crate::{load, placement};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The exit code is 0 if all checks pass and 1 if one fails. Kernels multiply this model's own weights;
each kernel set is compared with scalar code and with the reference backend, and the logits of each
backend with the reference's. On the CPU, batches and chunks of prompts must not change any bit. A
GPU has other kernels for other numbers of rows: its logits are checked for a prompt, token by
token, and for a longer prompt. Large models are checked with fewer rows and tokens.")]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    model: ModelArgs,
    /// Check this backend, such as cpu or vulkan [default: all kernel sets of the CPU]
    #[arg(long, value_enum, hide_possible_values = true, help_heading = "Engine")]
    backend: Option<BackendName>,
    /// CPU threads [default: all cores]
    #[arg(short, long, value_name = "N", env, value_parser = from_1_to::<1024>, help_heading = "Engine")]
    threads: Option<NonZero<usize>>,
    #[command(flatten, next_help_heading = "Engine")]
    weights: WeightsArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let [reference, candidates] = candidates(&args)?;
    args.positional.apply(&mut args.model);
    let model = args.model.model.as_ref().map(|path| path.display().to_string());
    let backend = args.backend.unwrap_or(BackendName::CPU).name();
    let (bar, failure) = (ProgressBar::hidden(), None);
    let mut report = Report { model, backend, json: args.json, bar, checks: Vec::new(), failure };
    report.begin("file");
    match load::file(&args.model) {
        Err(error) => report.end("file", "bad", &output::message(&error), Some("inspect".to_owned())),
        Ok(file) => {
            report.bar.suspend(|| load::introduce(&args.model, &file));
            let (files, bytes) = (file.files().len(), size(file.file_len()));
            let parts = if files > 1 { format!(" in {files} files") } else { String::new() };
            let (version, tensors) = (file.version(), file.tensors().len());
            let threads = load::threads(args.threads);
            let on = output::counted(threads.get() as u64, "thread");
            let found = format!("GGUF {version}, {bytes}{parts}, {tensors} tensors; checked on {on}");
            report.end("file", "good", &found, None);
            let verifier = Verifier {
                reference: &reference[0],
                candidates: &candidates,
                threads,
                observe: &mut |event| match event {
                    Event::Begin(name) => report.begin(name),
                    Event::Progress(done, all) => report.progress(done, all),
                    Event::End(name, tokens, outcome) => report.check(name, tokens, outcome),
                },
            };
            verifier.run(file);
        }
    }
    report.finish()
}

/// The reference backend, and the backends to check.
fn candidates(args: &Args) -> anyhow::Result<[Vec<Candidate>; 2]> {
    let cpu = CpuArgs { threads: Some(load::threads(args.threads)), isa: None, weights: args.weights };
    let options = OpenOptions::from(cpu);
    let candidate = |name: String, config: DeviceConfig| {
        let DeviceConfig { device, options } = &config;
        let (kind, quantizes_activations) = (device.info().kind, device.quantizes_activations(options));
        Candidate { name, kind, quantizes_activations, open: Box::new(move || config.open()) }
    };
    let reference =
        || vec![candidate("reference".to_owned(), devices::host(BackendName::REFERENCE, options))];
    let candidates = match args.backend {
        Some(BackendName::Auto | BackendName::HybridF32) => {
            let backends: Vec<&str> = registry().backends().collect();
            let names = backends.join(", ");
            return Err(Usage(format!("verify checks one backend; choose it by --backend: {names}")).into());
        }
        None | Some(BackendName::CPU) => {
            let cpu = devices::host(BackendName::CPU, options);
            let sets = cpu.device.info().instruction_sets.into_iter().map(|set| {
                let options = OpenOptions { instruction_set: Some(set), ..options };
                candidate(format!("cpu ({set})"), DeviceConfig { options, ..cpu.clone() })
            });
            sets.collect()
        }
        Some(BackendName::REFERENCE) => reference(),
        Some(gpu) => {
            let device = placement::gpus(gpu)?.into_iter().take(1);
            let options = OpenOptions::default();
            device.map(|device| candidate(gpu.name().to_owned(), DeviceConfig { device, options })).collect()
        }
    };
    Ok([reference(), candidates])
}

#[derive(Serialize)]
struct Line {
    name: String,
    outcome: &'static str,
    detail: String,
    /// The command that shows more of what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<String>,
}

impl Line {
    fn print(&self) -> io::Result<()> {
        let mut out = output::stdout();
        let (style, word) = match self.outcome {
            "good" => (GREEN, "ok  "),
            "bad" => (RED, "FAIL"),
            _ => (BOLD, "-   "),
        };
        writeln!(out, "{style}{word}{style:#}  {:<22}  {}", self.name, self.detail)?;
        if let Some(more) = &self.more {
            writeln!(out, "      more: {}", output::printable(more, ""))?;
        }
        out.flush()
    }
}

/// Prints each check when it ends, or all as JSON.
struct Report {
    model: Option<String>,
    backend: &'static str,
    json: bool,
    /// Shows the check that runs, on a terminal.
    bar: ProgressBar,
    checks: Vec<Line>,
    /// After an output error nothing more is printed.
    failure: Option<io::Error>,
}

impl Report {
    fn begin(&mut self, name: &str) {
        let bar = ProgressBar::new_spinner().with_message(name.to_owned());
        self.bar = output::show(bar, "{spinner} {msg}, {elapsed}");
    }

    fn progress(&self, done: u64, all: u64) {
        if self.bar.length().is_none() {
            output::restyle(&self.bar, "{spinner} {msg} {bar:20} {percent}%, {eta} left");
            self.bar.set_length(all);
        }
        self.bar.set_position(done);
    }

    fn check(&mut self, name: &str, tokens: &[u32], outcome: Outcome) {
        let failure = match outcome {
            Outcome::Good(detail) => return self.end(name, "good", &detail, None),
            Outcome::Skipped(why) => return self.end(name, "skipped", why, None),
            Outcome::Bad(failure) => anyhow::Error::from_boxed(failure),
        };
        let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
        let (ids, backend) = (ids.join(","), self.backend);
        let compare = format!("compare --a {backend} --b reference --tokens {ids}");
        let more = match name.split_once(": ") {
            Some(("reference", _)) => format!("logits --tokens {ids} --backend reference"),
            Some((_, "token by token" | "steps")) => compare + " -b 1",
            Some(_) => compare,
            None => match name {
                "weights" => "inspect --json",
                "tokenizer" => "tokenize",
                "chat template" => "run -p Hello -n 1",
                _ => "inspect",
            }
            .to_owned(),
        };
        self.end(name, "bad", &output::message(&failure), Some(more));
    }

    /// `more` is a command without the program and the model.
    fn end(&mut self, name: &str, outcome: &'static str, detail: &str, more: Option<String>) {
        self.bar.finish_and_clear();
        let more = more.map(|more| self.command(&more));
        let line = Line { name: name.to_owned(), outcome, detail: output::printable(detail, ""), more };
        if !self.json && self.failure.is_none() {
            self.failure = line.print().err();
        }
        self.checks.push(line);
    }

    /// `rustorch COMMAND -m MODEL ARGUMENTS`, quoted for a shell.
    fn command(&self, more: &str) -> String {
        let (command, arguments) = more.split_once(' ').unwrap_or((more, ""));
        let is_plain = |c: char| c.is_alphanumeric() || "._-/+:@".contains(c);
        let model = match &self.model {
            Some(model) if model.chars().all(is_plain) => format!(" -m {model}"),
            Some(model) => format!(" -m '{}'", model.replace('\'', r"'\''")),
            None => String::new(),
        };
        format!("rustorch {command}{model} {arguments}").trim_end().to_owned()
    }

    fn finish(self) -> anyhow::Result<ExitCode> {
        if let Some(error) = self.failure {
            return Err(error.into());
        }
        let count = |outcome| self.checks.iter().filter(|check| check.outcome == outcome).count();
        let (good, bad) = (count("good"), count("bad"));
        if self.json {
            let model = self.model.as_deref().unwrap_or("embedded model");
            let (good, checks) = (bad == 0, &self.checks);
            output::json(&serde_json::json!({ "model": model, "good": good, "checks": checks }))?;
        } else {
            let failed = format!("{bad} of {} checks failed\n", good + bad);
            let line = if bad == 0 { format!("all {good} checks are good\n") } else { failed };
            output::write_all(line.as_bytes())?;
        }
        Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
