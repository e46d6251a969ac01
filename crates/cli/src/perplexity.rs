//! `rustorch perplexity`: scores a text, as `llama-perplexity` does.

use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Arg;
use engine::{LogitRows, Model};
use eval::base::{MAGIC, Reader, Writer};
use eval::{Beside, Divergence, Error, Estimate, Score, Windows};
use gguf::output::Target;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::{EngineArgs, ModelArgs};
use crate::files::{TextFile, without_newline};
use crate::output::{self, Usage, counted};
use crate::values::from_1_to;
use crate::{files, load};

/// The default context of commands that cut a text into windows.
pub(crate) const N_CTX: usize = 512;

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

/// The context is that of a window, which no setting of chats changes.
pub(crate) fn in_windows(arg: Arg, help: &'static str) -> Arg {
    if arg.get_id() == "ctx_size" { arg.env(None).help(help) } else { arg }
}

pub(crate) fn windows(tokens: Vec<u32>, n_ctx: usize, model: &Model) -> anyhow::Result<Windows> {
    Windows::new(tokens, n_ctx, model.tokenizer().vocab_size()).map_err(|error| match error {
        Error::Window(_) => Usage(error.to_string()).into(),
        error => error.into(),
    })
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    let mut base = args.kl_base.as_deref().map(Reader::open).transpose()?;
    let file = load::introduced(&args.model)?;
    let mut read_files = files::model_files(&file);
    read_files.extend(args.file.as_deref());
    let is_base = |path: &Path| files::begins_with(path, MAGIC);
    let target = |path| files::target("--save-logits", path, &read_files, "base", is_base);
    let target = args.save_logits.as_deref().map(target).transpose()?;
    let model = Model::new(file)?;
    let n_ctx = load::requested_n_ctx(args.engine.context.ctx_size, &model)
        .unwrap_or_else(|| base.as_ref().map_or(N_CTX, |base| base.windows().n_ctx()));
    let text =
        args.file.as_deref().map(|file| TextFile::open(file)?.whole().map(without_newline)).transpose()?;
    let text = text.map(|text| model.encode_prompt(&text, args.parse_special));
    let windows = match &base {
        Some(base) => {
            base.check(model.tokenizer().vocab_size(), n_ctx, text.as_deref())?;
            base.windows().clone()
        }
        None => self::windows(text.unwrap_or_default(), n_ctx, &model)?,
    };
    let windows = windows.limited(args.chunks.map_or(usize::MAX, NonZero::get));
    args.engine.context.ctx_size = Some(n_ctx);
    let mut engine = load::for_logits(model, &args.engine, LogitRows::All)?;

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
    print(engine.model().file().file(), &windows, score, args.json)
}

#[derive(Serialize)]
struct Report<'a> {
    model: &'a str,
    n_ctx: usize,
    windows: usize,
    tokens: usize,
    scored_tokens: usize,
    #[serde(flatten)]
    score: Score,
}

fn print(model: &str, windows: &Windows, score: Score, json: bool) -> anyhow::Result<()> {
    let (n_ctx, tokens, scored_tokens) = (windows.n_ctx(), windows.tokens().len(), score.token_nll.len());
    if json {
        return output::json(&Report { model, n_ctx, windows: windows.len(), tokens, scored_tokens, score });
    }
    let mut out = output::stdout();
    let (windows, scored) = (counted(windows.len(), "window"), counted(scored_tokens, "token"));
    writeln!(out, "{windows} of {n_ctx} tokens, {scored} scored")?;
    match &score.divergence {
        None => {
            let Estimate { value, standard_error } = score.perplexity;
            writeln!(out, "Final estimate: PPL = {value:.4} +/- {standard_error:.5}")?;
        }
        Some(divergence) => print_divergence(&mut out, divergence)?,
    }
    Ok(out.flush()?)
}

fn print_divergence(out: &mut impl Write, found: &Divergence) -> std::io::Result<()> {
    let line = |out: &mut dyn Write, name: &str, Estimate { value, standard_error }: Estimate| {
        writeln!(out, "{name:<30}: {value:>10.6} ± {standard_error:>10.6}")
    };
    writeln!(out, "\n====== Perplexity statistics ======")?;
    line(out, "Mean PPL(Q)", found.perplexity)?;
    line(out, "Mean PPL(base)", found.base_perplexity)?;
    writeln!(out, "Cor(ln(PPL(Q)), ln(PPL(base))): {:6.2}%", 100.0 * found.correlation)?;
    line(out, "Mean ln(PPL(Q)/PPL(base))", found.log_ratio)?;
    line(out, "Mean PPL(Q)/PPL(base)", found.ratio)?;
    line(out, "Mean PPL(Q)-PPL(base)", found.difference)?;

    let kl = found.kl_spread;
    writeln!(out, "\n====== KL divergence statistics ======")?;
    writeln!(out, "Mean    KLD: {:>10.6} ± {:>10.6}", found.kl.value, found.kl.standard_error)?;
    for (name, value) in kl.labelled().filter(|(name, _)| !["75.0%", "25.0%"].contains(name)) {
        writeln!(out, "{name:<7} KLD: {value:>10.6}")?;
    }

    let percent = |Estimate { value, standard_error }: Estimate| {
        format!("{:>6.3} ± {:>5.3} %", 100.0 * value, 100.0 * standard_error)
    };
    writeln!(out, "\n====== Token probability statistics ======")?;
    writeln!(out, "Mean    Δp: {}", percent(found.p_diff))?;
    for (name, value) in found.p_diff_spread.labelled() {
        writeln!(out, "{name:<7} Δp: {:>6.3}%", 100.0 * value)?;
    }
    writeln!(out, "RMS Δp    : {}", percent(found.p_diff_rms))?;
    writeln!(out, "Same top p: {}", percent(found.same_top))
}
