//! `rustorch logits`: the logits after each token of a sequence.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use engine::{Engine, LogitRows};
use gguf::output::Target;
use serde::Serialize;
use tokenizer::Tokenizer;

use crate::args::{EngineArgs, ModelArgs};
use crate::sequence::SequenceArgs;
use crate::{files, load, npy, output};

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

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let logit_rows = if args.last || args.output.is_none() { LogitRows::Last } else { LogitRows::All };
    let mut engine = load::on_backend(load::model(&args.model)?, &args.engine, logit_rows)?;
    let tokens = &args.sequence.tokens(engine.model().file())?;
    let read = files::of(engine.model().file());
    let is_array = |path: &Path| files::begins_with(path, npy::MAGIC);
    let target = args.output.as_deref();
    let target = target.map(|path| files::target("-o", path, &read, "NumPy array", is_array)).transpose()?;
    let prints = args.json || args.output.is_none();
    let last = compute(&mut engine, tokens, logit_rows, target.as_ref())?;
    if prints {
        print(&engine, tokens, &last, args.json)?;
    }
    Ok(ExitCode::SUCCESS)
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
            let head = if is_first { npy::write_header(out, rows, row.len()) } else { Ok(()) };
            written = head.and_then(|()| npy::write_row(out, row));
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

fn print(engine: &Engine, tokens: &[u32], logits: &[f32], json: bool) -> anyhow::Result<()> {
    let top = top(engine.model().tokenizer(), logits);
    if json {
        return output::json(&Report { tokens, top });
    }
    let mut out = output::stdout();
    for Candidate { id, piece, logit } in top {
        writeln!(out, "{id:>8}  {logit:>10.4}  {piece:?}")?;
    }
    Ok(out.flush()?)
}

/// The highest of `logits`, lower ids first among equals.
fn top(tokenizer: &Tokenizer, logits: &[f32]) -> Vec<Candidate> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let piece =
        |id: usize| u32::try_from(id).ok().and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default();
    let candidate = |&id: &usize| {
        let piece = String::from_utf8_lossy(piece(id)).into_owned();
        Candidate { id, piece, logit: logits[id] }
    };
    order.iter().take(TOP).map(candidate).collect()
}
