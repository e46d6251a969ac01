//! `rustorch rerank`: scores of documents for a query.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use engine::Model;
use engine::models::Pooling;
use serde::Serialize;

use crate::args::ModelArgs;
use crate::embed::{EmbedderArgs, embedder};
use crate::run::TextFile;
use crate::{load, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Query
    query: String,
    /// Documents
    #[arg(value_name = "DOCUMENT")]
    documents: Vec<String>,
    /// File with one document per line; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "documents")]
    file: Option<PathBuf>,
    /// Print one JSON object as rerank APIs do
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EmbedderArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    model: &'a str,
    object: &'static str,
    results: Vec<Scored<'a>>,
}

#[derive(Serialize)]
struct Scored<'a> {
    index: usize,
    relevance_score: f32,
    document: &'a str,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = load::file(&args.model)?;
    load::introduce(&args.model, &file);
    let has_head = ["cls.weight", "cls.output.weight"].iter().any(|name| file.tensor(name).is_some());
    ensure!(
        has_head,
        "{}: no reranker: it has neither tensor `cls.weight` nor `cls.output.weight`; `rustorch embed` computes \
         embeddings",
        file.file()
    );
    let model = Model::embedding(file, Some(Pooling::Rank))?;
    let documents: Vec<String> = match &args.file {
        Some(file) => TextFile::open(file)?.whole()?.lines().map(str::to_owned).collect(),
        None => args.documents,
    };
    ensure!(!documents.is_empty(), "no documents; give them as arguments or by -f FILE");
    let tokens = documents.iter().map(|document| model.rerank_tokens(&args.query, document));
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;

    let mut embedder = embedder(model, &args.engine)?;
    // Of several labels, the first is relevance.
    let scores = embedder.embed(&tokens)?.into_iter().map(|scores| scores[0]);
    let scored = scores.zip(&documents).enumerate();
    let scored =
        scored.map(|(index, (relevance_score, document))| Scored { index, relevance_score, document });
    let mut results: Vec<Scored<'_>> = scored.collect();
    results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score));
    if args.json {
        output::json(&Report { model: embedder.model().file().file(), object: "list", results })?;
    } else {
        let mut out = output::stdout();
        for Scored { index, relevance_score, document } in results {
            writeln!(out, "{relevance_score:>10.4}  {index:>4}  {}", output::printable(document, ""))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}
