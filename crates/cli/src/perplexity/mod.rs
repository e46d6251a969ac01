//! `rustorch perplexity`: how well a model foretells a text, as `llama-perplexity` measures it.
//!
//! The text's tokens are cut into windows of `n_ctx`; the first token of each is replaced by BOS where
//! the tokenizer puts one before a prompt. In the second half of a window each token is scored by the
//! logits before it. Perplexity is `exp` of the mean negative log-likelihood of the scored tokens.
//! No more than a row of logits is held at a time.

mod base;
mod report;
mod statistics;

use std::io::{self, Read};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::Arg;
use engine::{Engine, LogitRows, Model};
use indicatif::ProgressBar;

use crate::args::{EngineArgs, ModelArgs};
use crate::interrupt::Unfinished;
use crate::output::{self, Usage, counted};
use crate::values::from_1_to;
use crate::{load, outfile};
use base::{Reader, Scored, Writer};
use statistics::{Comparison, Divergence, Likelihood};

/// Tokens a window where neither the command line nor a base says.
const N_CTX: usize = 512;

/// What `perplexity` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Perplexity is that of llama-perplexity: of each window of -c tokens the second half is scored.
Files of log-probabilities have its format, too: either program reads what the other has written.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The text, without a newline at its end; - is stdin [default: the base's]
    #[arg(short, long, value_name = "TEXT", required_unless_present = "kl_base", help_heading = "Text")]
    file: Option<PathBuf>,
    /// Turn the text of special tokens in it into these tokens
    #[arg(long, help_heading = "Text")]
    parse_special: bool,
    /// Windows to score, at most [default: all]
    #[arg(long, value_name = "N", value_parser = from_1_to::<0x7fff_ffff>, help_heading = "Text")]
    chunks: Option<NonZero<usize>>,
    /// Write the log-probabilities of scored positions, as a base for other models
    #[arg(long, alias = "save-all-logits", value_name = "FILE", conflicts_with = "kl_base")]
    #[arg(help_heading = "Base")]
    save_logits: Option<PathBuf>,
    /// Compare with the log-probabilities in this file: Kullback-Leibler divergence, same top token
    #[arg(long, alias = "kl-divergence-base", value_name = "FILE", help_heading = "Base")]
    kl_base: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What options of [`EngineArgs`] mean here: the context is a window's, and no setting of chats changes it.
pub(crate) fn in_windows(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "ctx_size" => arg.env(None).help(format!(
            "Tokens a window; 0 is what the model was trained on [default: {N_CTX}, or the base's]"
        )),
        _ => arg,
    }
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let base = args.kl_base.as_deref().map(Reader::open).transpose()?;
    let file = load::file(&args.model)?;
    load::introduce(&args.model, &file);
    if let Some(path) = &args.save_logits {
        let mut read = outfile::of(&file);
        read.extend(args.file.as_deref());
        outfile::check("--save-logits", path, &read)?;
    }
    let model = Model::new(file)?;
    let n_ctx = match (args.engine.context.ctx_size, &base) {
        (Some(0), _) => model.n_ctx_train(),
        (Some(n_ctx), _) => n_ctx,
        (None, Some(base)) => base.scored.n_ctx,
        (None, None) => N_CTX,
    };
    if n_ctx < 3 {
        let n_ctx = counted(n_ctx, "token");
        return Err(Usage(format!("a window of {n_ctx} has none to score; -c takes 3 or more")).into());
    }
    let text = args.file.as_deref().map(read).transpose()?;
    let text = text.map(|text| model.encode_prompt(&text, args.parse_special));
    let scored = match &base {
        Some(base) => {
            check_base(base, &model, n_ctx, text.as_deref(), &args)?;
            let windows = limited(base.scored.windows(), args.chunks);
            Scored { tokens: base.scored.tokens[..windows * n_ctx].to_vec(), ..base.scored }
        }
        None => windows(text.unwrap_or_default(), n_ctx, &model, args.chunks)?,
    };
    args.engine.context.ctx_size = Some(n_ctx);
    let mut engine = load::on_backend(model, &args.engine, LogitRows::All)?;

    let unfinished = args.save_logits.as_deref().map(trace::part);
    let _unfinished = unfinished.as_deref().map(Unfinished::begin).transpose()?;
    let beside = match (base, args.save_logits) {
        (Some(base), _) => Beside::Base(Box::new((base, Comparison::default())), Vec::new()),
        (None, Some(path)) => Beside::Save(Writer::create(&path, &scored)?, path),
        (None, None) => Beside::Nothing,
    };
    let mut score = Score { likelihood: Likelihood::default(), token_nll: Vec::new(), beside };
    score.run(&mut engine, &scored)?;
    let file = engine.model().file().file();
    report::print(&report::Report::new(file, &scored, score.finish()?), args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What is counted while windows run.
struct Score {
    likelihood: Likelihood,
    /// Negative log-likelihood of each scored token.
    token_nll: Vec<f32>,
    beside: Beside,
}

/// What logits are for, besides the perplexity.
enum Beside {
    Nothing,
    /// They are written to this file.
    Save(Writer, PathBuf),
    /// They are compared with a base's log-probabilities, of which there is room for a row.
    Base(Box<(Reader, Comparison)>, Vec<f32>),
}

/// What has been counted.
struct Counted {
    likelihood: Likelihood,
    token_nll: Vec<f32>,
    divergence: Option<Divergence>,
}

impl Score {
    /// Runs all windows.
    fn run(&mut self, engine: &mut Engine, scored: &Scored) -> anyhow::Result<()> {
        let tokenizer = engine.model().tokenizer().clone();
        let bos = tokenizer.special_ids().bos.filter(|_| tokenizer.adds_bos());
        let bar = progress(scored);
        for (number, window) in scored.tokens.chunks_exact(scored.n_ctx).enumerate() {
            // What follows the last token is not known.
            let mut tokens = window[..window.len() - 1].to_vec();
            if let Some(bos) = bos {
                tokens[0] = bos;
            }
            let mut result = Ok(());
            engine.logits(&tokens, LogitRows::From(scored.positions().start), |position, logits| {
                result = self.add(logits, window[position + 1]).with_context(|| {
                    format!("window {} of {}, position {position}", number + 1, scored.windows())
                });
                bar.set_position((number * scored.n_ctx + position) as u64);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            result?;
            bar.set_message(format!("{:.4}", self.likelihood.perplexity().value));
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Takes the logits of a scored position and the token after it.
    fn add(&mut self, logits: &[f32], next: u32) -> anyhow::Result<()> {
        if let Some(token) = logits.iter().position(|logit| !logit.is_finite()) {
            let logit = logits[token];
            bail!(
                "the logit of token {token} is {logit}; `rustorch verify` says whether weights or kernels are to blame"
            );
        }
        let nll = self.likelihood.add(logits, next);
        self.token_nll.push(nll as f32);
        match &mut self.beside {
            Beside::Nothing => {}
            Beside::Save(writer, path) => writer.push(logits).with_context(|| cannot_write(path))?,
            Beside::Base(base, row) => {
                let (reader, comparison) = &mut **base;
                reader.next_row(row)?;
                comparison.add(nll, logits, row, next);
            }
        }
        Ok(())
    }

    /// Finishes the file that is written, if there is one.
    fn finish(self) -> anyhow::Result<Counted> {
        let Score { likelihood, token_nll, beside } = self;
        let divergence = match beside {
            Beside::Nothing => None,
            Beside::Save(writer, path) => {
                writer.finish().with_context(|| cannot_write(&path))?;
                None
            }
            Beside::Base(base, _) => Some(base.1.divergence(&likelihood)),
        };
        Ok(Counted { likelihood, token_nll, divergence })
    }
}

/// A bar on stderr, when that is a terminal.
fn progress(scored: &Scored) -> ProgressBar {
    let bar = ProgressBar::new(scored.tokens.len() as u64);
    bar.set_message("not known");
    output::show(bar, "scoring {bar:20} {pos}/{len} tokens, {eta} left, perplexity {msg}")
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The text in a file, `-` for stdin, without a newline at its end.
fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).context("cannot read the text from stdin")?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| format!("cannot read the text {}", file.display()))?
    };
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// The whole windows of a text's tokens.
fn windows(
    mut tokens: Vec<u32>,
    n_ctx: usize,
    model: &Model,
    most: Option<NonZero<usize>>,
) -> anyhow::Result<Scored> {
    let (found, needed) = (tokens.len(), 2 * n_ctx);
    ensure!(
        found >= needed,
        "the text is too short: it has {}, and {needed} are needed, two windows of {n_ctx}; give a longer \
         text or, with -c, a smaller window",
        counted(found, "token")
    );
    tokens.truncate(limited(found / n_ctx, most) * n_ctx);
    Ok(Scored { n_ctx, n_vocab: model.tokenizer().vocab_size(), tokens })
}

fn limited(windows: usize, most: Option<NonZero<usize>>) -> usize {
    most.map_or(windows, |most| windows.min(most.get()))
}

/// Refuses a base of another vocabulary, window or text.
fn check_base(
    base: &Reader,
    model: &Model,
    n_ctx: usize,
    text: Option<&[u32]>,
    args: &Args,
) -> anyhow::Result<()> {
    let path = args.kl_base.as_deref().unwrap_or(Path::new("")).display();
    let (scored, n_vocab) = (&base.scored, model.tokenizer().vocab_size());
    if scored.n_vocab != n_vocab {
        bail!(
            "the base {path} is of a model with {}, this one's vocabulary has {n_vocab}; \
             only models of one vocabulary can be compared",
            counted(scored.n_vocab, "token")
        );
    }
    if scored.n_ctx != n_ctx {
        bail!(
            "the base {path} has windows of {} tokens, not {n_ctx}; leave out -c or give that",
            scored.n_ctx
        );
    }
    let differs = text.and_then(|text| {
        let whole = &text[..text.len() / n_ctx * n_ctx];
        let same = scored.tokens.iter().zip(whole).take_while(|(a, b)| a == b).count();
        (same < scored.tokens.len()).then_some(same)
    });
    if let Some(at) = differs {
        bail!(
            "the base {path} is of another text: token {at} is the first to differ; leave out -f to use the base's"
        );
    }
    Ok(())
}
