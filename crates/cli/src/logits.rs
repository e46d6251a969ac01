//! `rustorch logits`: the logits after each token of a sequence.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Context;
use engine::{Engine, LogitRows};
use gguf::Gguf;
use gguf::output::Target;
use serde::Serialize;

use crate::args::{EngineArgs, ModelArgs};
use crate::files::{self, TextFile, without_newline};
use crate::values::TokenIds;
use crate::{load, output};

const TOP: usize = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    sequence: SequenceArgs,
    /// Only the logits after the last token
    #[arg(long)]
    last: bool,
    /// Write float32 [rows, n_vocab] as .npy; - is stdout [default: print the ten highest of the last row]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the ten highest of the last row as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let logit_rows = if args.last || args.output.is_none() { LogitRows::Last } else { LogitRows::All };
    let mut engine = load::for_logits(load::model(&args.model)?, &args.engine, logit_rows)?;
    let tokens = &args.sequence.tokens(engine.model().file())?;
    let target = args.output.as_deref();
    let target = target.map(|path| files::npy_target(path, engine.model().file())).transpose()?;
    let last = compute(&mut engine, tokens, logit_rows, target.as_ref())?;
    if args.json || target.is_none() { print(&engine, tokens, &last, args.json) } else { Ok(()) }
}

/// Writes each row to `target`, if there is one; returns the last.
fn compute(
    engine: &mut Engine,
    tokens: &[u32],
    logit_rows: LogitRows,
    target: Option<&Target>,
) -> anyhow::Result<Vec<f32>> {
    let rows = if logit_rows == LogitRows::Last { 1 } else { tokens.len() };
    let mut out = target.map(Target::create).transpose()?.map(|out| BufWriter::with_capacity(1 << 20, out));
    let mut written = Ok(());
    let (mut is_first, mut last) = (true, Vec::new());
    engine.logits(tokens, logit_rows, |position, row| {
        if position + 1 == tokens.len() {
            last = row.to_vec();
        }
        if let Some(out) = &mut out {
            let head = if is_first { files::write_npy_header(out, rows, row.len()) } else { Ok(()) };
            written = head.and_then(|()| files::write_npy_row(out, row));
            is_first = false;
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written.context("cannot write the logits")?;
    if let Some(out) = out {
        out.into_inner().map_err(|error| error.into_error()).context("cannot write the logits")?.finish()?;
    }
    Ok(last)
}

#[derive(Serialize)]
struct Candidate {
    id: usize,
    piece: String,
    logit: f32,
}

#[derive(Serialize)]
struct Report<'a> {
    tokens: &'a [u32],
    top: Vec<Candidate>,
}

/// Prints the highest of `logits`, lower ids first among equals.
fn print(engine: &Engine, tokens: &[u32], logits: &[f32], json: bool) -> anyhow::Result<()> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let candidate = |&id: &usize| {
        let bytes = u32::try_from(id).ok().and_then(|id| engine.model().tokenizer().token_bytes(id));
        let piece = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        Candidate { id, piece, logit: logits[id] }
    };
    let top = order.iter().take(TOP).map(candidate).collect();
    if json {
        return output::json(&Report { tokens, top });
    }
    let mut out = output::stdout();
    for Candidate { id, piece, logit } in top {
        writeln!(out, "{id:>8}  {logit:>10.4}  {piece:?}")?;
    }
    Ok(out.flush()?)
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SequenceArgs {
    /// Token ids, such as 1,15043
    #[arg(long, value_name = "IDS")]
    tokens: Option<TokenIds>,
    /// Text, without a chat template, after BOS if the model says so
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File with the text, without a final newline; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl SequenceArgs {
    /// Its tokens in the vocabulary of `model`.
    pub(crate) fn tokens(&self, model: &Gguf) -> anyhow::Result<Vec<u32>> {
        match (&self.tokens, &self.prompt, &self.file) {
            (Some(TokenIds(tokens)), ..) => Ok(tokens.clone()),
            (_, Some(text), _) => load::raw_tokens(model, text),
            (.., Some(file)) => load::raw_tokens(model, &without_newline(TextFile::open(file)?.whole()?)),
            (None, None, None) => Ok(Vec::new()),
        }
    }
}
