//! `rustorch convert`: a checkpoint of Hugging Face to a GGUF file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use ::convert::{Adapter, Checkpoint, FILE_TYPES, Options, Plan};
use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gguf::Gguf;
use hub::{FileName, Snapshot};
use indicatif::ProgressBar;
use quant::Mix;
use serde_json::json;

use crate::advice::advice;
use crate::files;
use crate::output::{self, counted, note, size};
use crate::source::fetch::Hub;
use crate::source::name::{HubName, Name};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
IN is a folder with config.json, a tokenizer and *.safetensors, or user/repo on Hugging Face, whose
files are downloaded into the cache first. The file is that of llama.cpp's converter. Weights in FP8
and MXFP4 are read, too. A folder with adapter_config.json is a LoRA adapter of PEFT: its file changes
the model that it names, or that of --base. For other types, such as Q4_K_M, go on with `rustorch
quantize`.")]
pub(crate) struct Args {
    /// Folder, or user/repo[@REVISION] on Hugging Face
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// File to write, or a folder for it
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of the matrices [default: bf16 or f16, as in the checkpoint; f32 for an adapter]
    #[arg(long, visible_alias = "outtype", value_name = "TYPE", value_parser = file_type(), ignore_case = true)]
    r#type: Option<Mix>,
    /// Name of the model in the file [default: that of the folder or repository]
    #[arg(long)]
    name: Option<String>,
    /// Pre-tokenizer of a BPE tokenizer, such as qwen2, where it cannot be found out
    #[arg(long, value_name = "NAME", conflicts_with = "base")]
    pre_tokenizer: Option<String>,
    /// Model that an adapter changes: a folder with its config.json, or user/repo [default: as the adapter says]
    #[arg(long, value_name = "IN")]
    base: Option<PathBuf>,
    /// Use only what was downloaded before
    #[arg(long)]
    offline: bool,
    /// Check everything, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn file_type() -> impl TypedValueParser<Value = Mix> {
    let names = FILE_TYPES.map(|mix| mix.name().to_lowercase());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Mix>())
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let (folder, repo) = folder(&args.input, args.offline, |snapshot| {
        let names = required(snapshot)?;
        check(&args, names.iter().any(|name| name.as_str() == ADAPTER))?;
        Ok(names)
    })?;
    let converted = convert(args, &folder, repo.clone());
    // The cache's path of a snapshot says nothing to its user.
    converted.map_err(|error| match (output::message(&error), repo) {
        (text, Some(repo)) if text.contains(&*folder.to_string_lossy()) && advice(&error).is_none() => {
            anyhow::anyhow!(text.replace(&*folder.to_string_lossy(), &repo))
        }
        _ => error,
    })
}

fn convert(args: Args, folder: &Path, name: Option<String>) -> anyhow::Result<()> {
    let name = args.name.clone().or(name);
    let is_adapter = Adapter::is_in(folder);
    check(&args, is_adapter)?;
    if is_adapter {
        let base = match &args.base {
            Some(base) => base.clone(),
            None => Adapter::base_model(folder)?.map(PathBuf::from).with_context(|| {
                format!("{} does not name its model; give it with --base", folder.display())
            })?,
        };
        let is_config = |snapshot: &Snapshot| Ok(named(snapshot, |name| name == CONFIG));
        let (base, _) = self::folder(&base, args.offline, is_config).context("the model of the adapter")?;
        let adapter = Adapter::open(folder, &base)?;
        let plan = adapter.plan(name.as_deref(), args.r#type)?;
        return finish(args, &plan);
    }
    let checkpoint = Checkpoint::open(folder)?;
    let options = Options { file_type: args.r#type, name, pre_tokenizer: args.pre_tokenizer.clone() };
    finish(args, &Plan::new(&checkpoint, &options)?)
}

/// Fails if an option would change nothing: some are for models, others for adapters.
fn check(args: &Args, is_adapter: bool) -> anyhow::Result<()> {
    let input = args.input.display();
    if is_adapter && args.pre_tokenizer.is_some() {
        bail!("{input} is a LoRA adapter, whose file has no tokenizer: leave out --pre-tokenizer");
    }
    if !is_adapter && args.base.is_some() {
        bail!("{input} is no LoRA adapter, as it has no {ADAPTER}: leave out --base");
    }
    Ok(())
}

fn finish(args: Args, plan: &Plan<'_>) -> anyhow::Result<()> {
    plan.warnings().iter().for_each(|warning| note(format_args!("warning: {warning}")));
    let (name, architecture, dry_run) = (plan.name(), plan.architecture(), args.dry_run);
    let output = if args.output.is_dir() {
        args.output.join(format!("{}-{}.gguf", name.replace([' ', '/'], "-"), plan.file_type().name()))
    } else {
        args.output
    };
    let begin = Instant::now();
    if !dry_run {
        write(plan, &output)?;
    }
    let (bytes, tensors) = (plan.file_len()?, plan.tensors());
    let file_type = plan.file_type().name().to_lowercase();
    if args.json {
        return output::json(&json!({
            "input": args.input,
            "output": output,
            "architecture": architecture,
            "name": name,
            "type": file_type,
            "tensors": tensors,
            "bytes": bytes,
            "dry_run": dry_run,
            "seconds": (!dry_run).then(|| begin.elapsed().as_secs_f64()),
        }));
    }
    let (tensors, would) = (counted(tensors, "tensor"), if dry_run { "would be " } else { "" });
    let (output, bytes) = (output.display(), size(bytes));
    note(format_args!("{output}: {would}{name}, {architecture}, {tensors} in {file_type}, {bytes}"));
    Ok(())
}

fn write(plan: &Plan<'_>, output: &Path) -> anyhow::Result<()> {
    let is_it = |path: &Path| {
        let name = |file: Gguf| file.metadata().str("general.name").ok().flatten().map(str::to_owned);
        Gguf::open(path).ok().and_then(name).as_deref() == Some(plan.name())
    };
    let target = files::target("OUT", output, &[], "GGUF file of this model", is_it)?;
    let template =
        "converting {bar:20} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
    let bar = output::show(ProgressBar::new(plan.file_len()?), template);
    let mut out = target.create()?;
    plan.write(&mut out, &|bytes| bar.inc(bytes)).map_err(|error| match error {
        ::convert::Error::Write(gguf::WriteError::Io(source)) => {
            let path = output.to_owned();
            gguf::output::Error::Io { path, action: "write it", source }.into()
        }
        error => anyhow::Error::from(error),
    })?;
    bar.finish_and_clear();
    Ok(out.finish()?)
}

const CONFIG: &str = "config.json";
const ADAPTER: &str = "adapter_config.json";

/// The folder of a checkpoint, and the model's name if that does not say it. The `required` files of a repository are downloaded.
fn folder(
    input: &Path,
    is_offline: bool,
    required: impl Fn(&Snapshot) -> anyhow::Result<Vec<FileName>>,
) -> anyhow::Result<(PathBuf, Option<String>)> {
    if input.exists() {
        return Ok((input.to_owned(), None));
    }
    let Name::Hub(HubName { repo, revision, part: None }) = Name::of(input)? else {
        bail!("there is no folder {}, and it is not user/repo on Hugging Face", input.display());
    };
    let hub = Hub::open(is_offline)?;
    let (paths, missing): (Vec<PathBuf>, _) = if hub.settings.offline {
        let commit = hub.cache.resolved_commit(&repo, &revision);
        let files = commit.map(|commit| hub.cache.files(&repo, &commit)).transpose()?.unwrap_or_default();
        let missing = format!("{repo} is not here; without --offline it is downloaded");
        (files.into_iter().map(|file| file.path).collect(), missing)
    } else {
        let snapshot = hub.snapshot(&repo, &revision)?;
        let names = required(&snapshot)?;
        if !names.iter().any(|name| [CONFIG, ADAPTER].contains(&name.as_str())) {
            bail!("{repo} has no {CONFIG}, so it is no checkpoint; for its GGUF files: rustorch show {repo}");
        }
        let bytes = snapshot.files.iter().filter(|file| names.contains(&file.name));
        let bytes = bytes.filter_map(|file| file.bytes).sum();
        note(format_args!("{repo}: {}, {}", counted(names.len(), "file"), size(bytes)));
        let files = hub.fetch(&snapshot, &names)?;
        (files.into_iter().map(|file| file.path).collect(), format!("{repo} came without {CONFIG}"))
    };
    let config = paths.iter().find(|path| path.ends_with(CONFIG) || path.ends_with(ADAPTER));
    let folder = config.context(missing)?.parent().map(Path::to_owned).unwrap_or_default();
    Ok((folder, Some(repo.to_string())))
}

/// The names of files that are meant.
fn named(snapshot: &Snapshot, is_meant: impl Fn(&str) -> bool) -> Vec<FileName> {
    let names = snapshot.files.iter().map(|file| &file.name);
    names.filter(|name| is_meant(name.as_str())).cloned().collect()
}

/// The files of a checkpoint: text files of the top folder and of modules such as `1_Pooling`, and the weights, in one form.
///
/// # Errors
/// If something is missing without which nothing needs to be downloaded.
fn required(snapshot: &Snapshot) -> anyhow::Result<Vec<FileName>> {
    let has = |is_it: &dyn Fn(&str) -> bool| snapshot.files.iter().any(|file| is_it(file.name.as_str()));
    let (repo, is_model) = (&snapshot.repo, has(&|name| name == CONFIG) && !has(&|name| name == ADAPTER));
    if is_model && !has(&|name| name.ends_with(".safetensors")) {
        let is_pickle = |name: &str| [".bin", ".pt", ".pth"].iter().any(|ending| name.ends_with(ending));
        let pickles = "weights of PyTorch (.bin) only, which can run code";
        let found = if has(&is_pickle) { pickles } else { "no weights" };
        bail!("{repo} has {found}; expected *.safetensors");
    }
    let is_tokenizer = |name: &str| {
        ["tokenizer.", "vocab.", "merges.", "tekken."].iter().any(|start| name.starts_with(start))
            || [".model", ".tiktoken"].iter().any(|ending| name.ends_with(ending))
    };
    if is_model && !has(&is_tokenizer) {
        bail!("{repo} has no tokenizer; expected tokenizer.json, tokenizer.model, vocab.json or vocab.txt");
    }
    let is_shard = |name: &str| name.starts_with("model") && name.ends_with(".safetensors");
    let has_shards = snapshot.files.iter().any(|file| is_shard(file.name.as_str()));
    Ok(named(snapshot, |name| {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        let is_text = [".json", ".txt", ".jinja"].iter().any(|ending| file.ends_with(ending));
        match folder {
            "" if name.ends_with(".safetensors") => {
                !has_shards || is_shard(name) || name.starts_with("adapter")
            }
            "" => is_text || ["README.md", "tokenizer.model", "sentencepiece.bpe.model"].contains(&file),
            "additional_chat_templates" => is_text,
            _ => file == CONFIG && folder.starts_with(|first: char| first.is_ascii_digit()),
        }
    }))
}
