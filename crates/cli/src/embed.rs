//! `rustorch embed` and `rustorch rerank`: embeddings of texts, and scores of documents for a query.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use engine::models::Pooling;
use engine::{Embedder, EmbedderOptions, Model, Normalization};
use runner::{FileWeights, Workload};
use serde::Serialize;
use serde_json::{Value, json};
use tokenizer::Encode;

use crate::args::{BackendArgs, ModelArgs};
use crate::files::{self, TextFile};
use crate::placement::Placement;
use crate::values::{TokenIds, n_ctx};
use crate::{load, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Texts
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// File with one text per line; - is stdin
    #[arg(short, long, value_name = "FILE", conflicts_with = "texts")]
    file: Option<PathBuf>,
    /// Token ids of one text, such as 101,7592,102
    #[arg(long, value_name = "IDS", conflicts_with_all = ["texts", "file"])]
    tokens: Option<TokenIds>,
    /// What represents a text: each token, their mean, the first or the last token, or the scores of a classifier
    /// [default: as the file says, else none]
    #[arg(long, value_name = "KIND", value_parser = pooling)]
    pooling: Option<Pooling>,
    /// Norm: -1 leaves embeddings as they are, 0 scales to the range of int16, 1 is taxicab, 2 Euclidean; scores are
    /// never scaled
    #[arg(long, alias = "embd-normalize", value_name = "N", default_value = "2", allow_hyphen_values = true)]
    #[arg(value_parser = normalization)]
    normalize: Normalization,
    /// Write float32 [texts or tokens, width] as .npy; - is stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object as OpenAI's API does
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    embedder: EmbedderArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
struct EmbedderArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// Maximum tokens of a text; 0 is the training context [default: that, up to 4096]
    #[arg(short, long, value_name = "CTX", env, value_parser = n_ctx)]
    ctx_size: Option<usize>,
}

pub(crate) fn pooling(name: &str) -> Result<Pooling, String> {
    let names = || Pooling::ALL.map(Pooling::name).join(", ");
    let kind = Pooling::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| format!("there are {}", names()))
}

fn normalization(number: &str) -> Result<Normalization, String> {
    let kind = number.parse().ok().and_then(Normalization::from_number);
    kind.ok_or_else(|| "expected a number from -1 on".to_owned())
}

#[derive(Serialize)]
struct Report<'a> {
    object: &'static str,
    model: &'a str,
    data: Vec<Datum<'a>>,
    usage: Value,
}

#[derive(Serialize)]
struct Datum<'a> {
    object: &'static str,
    index: usize,
    /// One vector, or one per token.
    embedding: Vectors<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vectors<'a> {
    One(&'a [f32]),
    Several(Vec<&'a [f32]>),
}

pub(crate) fn embed(args: Args) -> anyhow::Result<()> {
    let file = load::introduced(&args.embedder.model)?;
    let model = Model::embedding(file, args.pooling)?;
    let texts = texts(&args, &model)?;
    let target = args.output.as_deref().map(|path| files::npy_target(path, model.file())).transpose()?;

    let mut embedder = embedder(model, &args.embedder.backend, args.embedder.ctx_size)?;
    let mut embeddings = embedder.embed(&texts)?;
    let (width, pooling) = (embedder.width(), embedder.model().config().pooling);
    if pooling != Some(Pooling::Rank) {
        let vectors = embeddings.iter_mut().flat_map(|embedding| embedding.chunks_exact_mut(width));
        vectors.for_each(|vector| args.normalize.apply(vector));
    }
    if let Some(target) = &target {
        let mut out = target.create()?;
        let rows = embeddings.iter().map(Vec::len).sum::<usize>() / width;
        let written = files::write_npy_header(&mut out, rows, width);
        let mut rows = embeddings.iter().flat_map(|embedding| embedding.chunks_exact(width));
        written
            .and_then(|()| rows.try_for_each(|row| files::write_npy_row(&mut out, row)))
            .context("cannot write the embeddings")?;
        out.finish()?;
    }
    if args.json {
        let tokens: usize = texts.iter().map(Vec::len).sum();
        let vectors = |embedding| match pooling {
            Some(Pooling::None) => Vectors::Several(<[f32]>::chunks_exact(embedding, width).collect()),
            _ => Vectors::One(embedding),
        };
        let data = embeddings.iter().enumerate().map(|(index, embedding)| Datum {
            object: "embedding",
            index,
            embedding: vectors(embedding),
        });
        output::json(&Report {
            object: "list",
            model: embedder.model().file().file(),
            data: data.collect(),
            usage: json!({ "prompt_tokens": tokens, "total_tokens": tokens }),
        })?;
    } else if target.is_none() {
        let mut out = output::stdout();
        for vector in embeddings.iter().flat_map(|embedding| embedding.chunks_exact(width)) {
            let values: Vec<String> = vector.iter().map(f32::to_string).collect();
            writeln!(out, "{}", values.join(" "))?;
        }
        out.flush()?;
    }
    Ok(())
}

pub(crate) fn embedder(
    model: Model,
    args: &BackendArgs,
    ctx_size: Option<usize>,
) -> anyhow::Result<Embedder> {
    let n_ctx = load::requested_n_ctx(ctx_size, &model);
    let options = EmbedderOptions { n_ctx, n_batch: args.batch_size.get() };
    let (kv_layout, bucket) = options.layout(&model);
    let weights = &FileWeights(model.file());
    let (graph, buckets, taps) = (model.graph(), vec![bucket], backend::Taps::None);
    let workload = Workload { weights, graph, kv_layout, buckets, taps };
    let placement = Placement::new(args, &workload)?;
    let model = Arc::new(model);
    placement.with(|backend, placement| {
        tracing::debug!("the model runs on {}", placement.in_words());
        Ok(Embedder::new(model.clone(), backend, options)?)
    })
}

fn texts(args: &Args, model: &Model) -> anyhow::Result<Vec<Vec<u32>>> {
    if let Some(TokenIds(tokens)) = &args.tokens {
        let n_vocab = model.config().vocab_size;
        let unknown = tokens.iter().find(|&&id| id as usize >= n_vocab);
        if let Some(id) = unknown {
            bail!("--tokens: the vocabulary has {n_vocab} tokens, none with id {id}");
        }
        return Ok(vec![tokens.clone()]);
    }
    let lines = lines(args.file.as_deref(), &args.texts)?;
    ensure!(!lines.is_empty(), "no texts; give them as arguments, by -f FILE, or --tokens IDS");
    let text = Encode { add_special: true, parse_special: false };
    Ok(lines.iter().map(|line| model.tokenizer().encode(line, text)).collect())
}

/// The lines of a file, if there is one.
fn lines(file: Option<&Path>, typed: &[String]) -> anyhow::Result<Vec<String>> {
    let Some(file) = file else { return Ok(typed.to_vec()) };
    Ok(TextFile::open(file)?.whole()?.lines().map(str::to_owned).collect())
}

#[derive(Debug, clap::Args)]
pub(crate) struct RerankArgs {
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
    embedder: EmbedderArgs,
}

#[derive(Serialize)]
struct Ranking<'a> {
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

pub(crate) fn rerank(args: RerankArgs) -> anyhow::Result<()> {
    let file = load::introduced(&args.embedder.model)?;
    let has_head = ["cls.weight", "cls.output.weight"].iter().any(|name| file.tensor(name).is_some());
    ensure!(
        has_head,
        "{}: no reranker: it has neither tensor `cls.weight` nor `cls.output.weight`; `rustorch embed` computes \
         embeddings",
        file.file()
    );
    let model = Model::embedding(file, Some(Pooling::Rank))?;
    let documents = lines(args.file.as_deref(), &args.documents)?;
    ensure!(!documents.is_empty(), "no documents; give them as arguments or by -f FILE");
    let tokens = documents.iter().map(|document| model.rerank_tokens(&args.query, document));
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;

    let mut embedder = embedder(model, &args.embedder.backend, args.embedder.ctx_size)?;
    // The first of several labels is relevance.
    let scores = embedder.embed(&tokens)?;
    let scored = scores.iter().zip(&documents).enumerate();
    let scored =
        scored.map(|(index, (scores, document))| Scored { index, relevance_score: scores[0], document });
    let mut results: Vec<Scored<'_>> = scored.collect();
    results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score));
    if args.json {
        output::json(&Ranking { model: embedder.model().file().file(), object: "list", results })?;
    } else {
        let mut out = output::stdout();
        for Scored { index, relevance_score, document } in results {
            writeln!(out, "{relevance_score:>10.4}  {index:>4}  {}", output::printable(document, ""))?;
        }
        out.flush()?;
    }
    Ok(())
}
