//! `rustorch embed`: embeddings of texts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use engine::models::Pooling;
use engine::{Embedder, EmbedderOptions, Model, Normalization};
use runner::{FileWeights, Workload};
use serde::Serialize;
use tokenizer::Encode;

use crate::args::{BackendArgs, ModelArgs};
use crate::placement::{BackendChoice, Placement};
use crate::run::TextFile;
use crate::values::{TokenIds, n_ctx};
use crate::{files, load, npy, output};

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
    model: ModelArgs,
    #[command(flatten)]
    engine: EmbedderArgs,
}

/// Options of an embedder.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EmbedderArgs {
    #[command(flatten)]
    pub(crate) backend: BackendArgs,
    /// Maximum tokens of a text; 0 is the training context [default: that, up to 4096]
    #[arg(short, long, value_name = "CTX", env, value_parser = n_ctx)]
    pub(crate) ctx_size: Option<usize>,
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
    usage: Usage,
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

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = load::file(&args.model)?;
    load::introduce(&args.model, &file);
    let model = Model::embedding(file, args.pooling)?;
    let texts = texts(&args, &model)?;
    let read = files::of(model.file());
    let is_array = |path: &Path| files::begins_with(path, npy::MAGIC);
    let target = args.output.as_deref();
    let target = target.map(|path| files::target("-o", path, &read, "NumPy array", is_array)).transpose()?;

    let mut embedder = embedder(model, &args.engine)?;
    let mut embeddings = embedder.embed(&texts)?;
    let width = embedder.width();
    if embedder.model().config().pooling != Some(Pooling::Rank) {
        let vectors = embeddings.iter_mut().flat_map(|embedding| embedding.chunks_exact_mut(width));
        vectors.for_each(|vector| args.normalize.apply(vector));
    }
    if let Some(target) = &target {
        let mut out = target.create()?;
        let rows = embeddings.iter().map(Vec::len).sum::<usize>() / width;
        let written = npy::write_header(&mut out, rows, width);
        let mut rows = embeddings.iter().flat_map(|embedding| embedding.chunks_exact(width));
        written
            .and_then(|()| rows.try_for_each(|row| npy::write_row(&mut out, row)))
            .context("cannot write the embeddings")?;
        out.finish()?;
    }
    if args.json {
        let tokens = texts.iter().map(Vec::len).sum();
        let is_pooled = embedder.model().config().pooling != Some(Pooling::None);
        let vectors = |embedding| {
            if is_pooled {
                Vectors::One(embedding)
            } else {
                Vectors::Several(embedding.chunks_exact(width).collect())
            }
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
            usage: Usage { prompt_tokens: tokens, total_tokens: tokens },
        })?;
    } else if target.is_none() {
        let mut out = output::stdout();
        for vector in embeddings.iter().flat_map(|embedding| embedding.chunks_exact(width)) {
            let values: Vec<String> = vector.iter().map(f32::to_string).collect();
            writeln!(out, "{}", values.join(" "))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads an embedding model.
pub(crate) fn embedder(model: Model, args: &EmbedderArgs) -> anyhow::Result<Embedder> {
    let trained = model.config().context_length;
    let n_ctx = args.ctx_size.map(|n_ctx| if n_ctx == 0 { trained } else { n_ctx });
    let options = EmbedderOptions { n_ctx, n_batch: args.backend.batch_size.get() };
    let (kv_layout, bucket) = options.layout(&model);
    let weights = &FileWeights(model.file());
    let (graph, buckets, taps) = (model.graph(), vec![bucket], backend::Taps::None);
    let workload = Workload { weights, graph, kv_layout, buckets, taps };
    let placement = Placement::new(&BackendChoice::from(&args.backend), &workload)?;
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
    let lines = match &args.file {
        Some(file) => TextFile::open(file)?.whole()?.lines().map(str::to_owned).collect(),
        None => args.texts.clone(),
    };
    ensure!(!lines.is_empty(), "no texts; give them as arguments, by -f FILE, or --tokens IDS");
    let text = Encode { add_special: true, parse_special: false };
    Ok(lines.iter().map(|line| model.tokenizer().encode(line, text)).collect())
}
