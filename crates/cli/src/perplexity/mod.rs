//! `rustorch perplexity`: scores a text, as `llama-perplexity` does.

mod report;

use std::io::BufWriter;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Arg;
use engine::{LogitRows, Model};
use eval::base::{MAGIC, Reader, Writer};
use eval::{Beside, Error, Windows};
use gguf::output::Target;
use indicatif::ProgressBar;

use crate::args::{EngineArgs, ModelArgs};
use crate::output::{self, Usage};
use crate::run::{TextFile, without_newline};
use crate::values::from_1_to;
use crate::{files, load};

const N_CTX: usize = 512;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
As in llama-perplexity, the second half of each window of -c tokens is scored. Bases have its file
format: each program reads the files of the other.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// File with the text, without a final newline; - is stdin [default: the base's text]
    #[arg(short, long, value_name = "TEXT", required_unless_present = "kl_base", help_heading = "Text")]
    file: Option<PathBuf>,
    /// Encode special tokens in the text
    #[arg(long, help_heading = "Text")]
    parse_special: bool,
    /// Maximum number of windows to score [default: all]
    #[arg(long, value_name = "N", value_parser = from_1_to::<0x7fff_ffff>, help_heading = "Text")]
    chunks: Option<NonZero<usize>>,
    /// Write the log-probabilities as a base for other models
    #[arg(long, alias = "save-all-logits", value_name = "FILE", conflicts_with = "kl_base")]
    #[arg(help_heading = "Base")]
    save_logits: Option<PathBuf>,
    /// Compare with this base: KL divergence, same top token
    #[arg(long, alias = "kl-divergence-base", value_name = "FILE", help_heading = "Base")]
    kl_base: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Here the context is that of a window, which no setting of chats changes.
pub(crate) fn in_windows(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "ctx_size" => arg
            .env(None)
            .help(format!("Tokens per window; 0 is the training context [default: {N_CTX}, or the base's]")),
        _ => arg,
    }
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let mut base = args.kl_base.as_deref().map(Reader::open).transpose()?;
    let file = load::file(&args.model)?;
    load::introduce(&args.model, &file);
    let mut read_files = files::of(&file);
    read_files.extend(args.file.as_deref());
    let is_base = |path: &Path| files::begins_with(path, MAGIC);
    let target = |path| files::target("--save-logits", path, &read_files, "base", is_base);
    let target = args.save_logits.as_deref().map(target).transpose()?;
    let model = Model::new(file)?;
    let (n_vocab, of_base) = (model.tokenizer().vocab_size(), base.as_ref().map(|base| base.windows()));
    let n_ctx = match args.engine.context.ctx_size {
        Some(0) => model.config().context_length,
        Some(n_ctx) => n_ctx,
        None => of_base.map_or(N_CTX, Windows::n_ctx),
    };
    let text =
        args.file.as_deref().map(|file| TextFile::open(file)?.whole().map(without_newline)).transpose()?;
    let text = text.map(|text| model.encode_prompt(&text, args.parse_special));
    let windows = match &base {
        Some(base) => {
            base.check(n_vocab, n_ctx, text.as_deref())?;
            base.windows().clone()
        }
        None => Windows::new(text.unwrap_or_default(), n_ctx, n_vocab).map_err(|error| match error {
            Error::Window(_) => Usage(error.to_string()).into(),
            error => anyhow::Error::from(error),
        })?,
    };
    let windows = windows.limited(args.chunks.map_or(usize::MAX, NonZero::get));
    args.engine.context.ctx_size = Some(n_ctx);
    let mut engine = load::on_backend(model, &args.engine, LogitRows::All)?;

    let begin = |target: Target| {
        let out = BufWriter::with_capacity(1 << 20, target.create()?);
        Writer::new(out, &windows).context("cannot write the base")
    };
    let mut save = target.map(begin).transpose()?;
    let mut push = save.as_mut().map(|save| |row: &[f32]| save.push(row));
    let beside = match (&mut base, &mut push) {
        (Some(base), _) => Beside::Base(base),
        (None, Some(push)) => Beside::Rows(push),
        (None, None) => Beside::Nothing,
    };
    let bar = ProgressBar::new(windows.tokens().len() as u64).with_message("unknown");
    let bar = output::show(bar, "scoring {bar:20} {pos}/{len} tokens, {eta} left, perplexity {msg}");
    let score = eval::perplexity(&mut engine, &windows, beside, &mut |tokens, perplexity| {
        bar.set_position(tokens as u64);
        if let Some(perplexity) = perplexity {
            bar.set_message(format!("{perplexity:.4}"));
        }
    })?;
    bar.finish_and_clear();
    if let Some(save) = save {
        save.finish().and_then(|out| Ok(out.into_inner()?)).context("cannot write the base")?.finish()?;
    }
    report::print(engine.model().file().file(), &windows, score, args.json)?;
    Ok(ExitCode::SUCCESS)
}
