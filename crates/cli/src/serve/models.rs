//! Which models to serve, and how they are loaded.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use backend::PAGE;
use clap::builder::FalseyValueParser;
use engine::models::Pooling;
use engine::{Model, Options};
use server::Loaded;

use super::{CONTEXTS, STEP_TARGET, Serving};
use crate::args::{ModelArgs, OpenArgs, PositionalModel};
use crate::embed::{embedder, pooling};
use crate::output::{self, Usage};
use crate::{load, source};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct ModelsArgs {
    /// GGUF file or name, as for `run`; several, -m a=MODEL -m b=MODEL, are loaded by the first request for them [default: the
    /// embedded demo model]
    #[arg(short, long, value_name = "[NAME=]MODEL", env)]
    model: Vec<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

/// Which models compute embeddings or scores, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct EmbeddingArgs {
    /// Compute embeddings also by a model that writes text
    #[arg(long, alias = "embedding", env, value_parser = FalseyValueParser::new())]
    embeddings: bool,
    /// Score documents
    #[arg(long, alias = "rerank", env, value_parser = FalseyValueParser::new(), conflicts_with_all = ["embeddings", "pooling"])]
    reranking: bool,
    /// What represents a text: the mean of its tokens, the first or the last one [default: as the file says, else the mean]
    #[arg(long, value_name = "KIND", env, value_parser = whole_texts, requires = "embeddings")]
    pooling: Option<Pooling>,
}

/// Pooling that gives a text one embedding.
fn whole_texts(name: &str) -> Result<Pooling, String> {
    match pooling(name)? {
        Pooling::None => Err("an embedding is of a whole text; expected mean, cls or last".to_owned()),
        Pooling::Rank => Err("--reranking scores documents; expected mean, cls or last".to_owned()),
        kind => Ok(kind),
    }
}

/// A model, by the name that clients use.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: String,
    args: ModelArgs,
}

impl ModelsArgs {
    /// The models in order, of which the positional one replaces all. Fails if two have the same name.
    pub(super) fn named(&self, positional: &PositionalModel) -> Result<Vec<Named>, Usage> {
        let typed = positional.name.as_ref().map_or(&self.model[..], std::slice::from_ref);
        let named = |typed: &PathBuf| {
            let (name, model) = split(typed);
            let is_file = model.extension().is_some_and(|extension| extension == "gguf");
            let own = model.file_stem().filter(|_| is_file).unwrap_or(model.as_os_str());
            let name = name.unwrap_or_else(|| own.to_string_lossy().into_owned());
            Named { name, args: ModelArgs { model: Some(model), open: self.open.clone() } }
        };
        let mut all: Vec<Named> = typed.iter().map(named).collect();
        if all.is_empty() {
            let args = ModelArgs { model: None, open: self.open.clone() };
            all.push(Named { name: "demo".to_owned(), args });
        }
        for (number, Named { name, .. }) in all.iter().enumerate() {
            if all[..number].iter().any(|other| other.name == *name) {
                return Err(Usage(format!("two models are called `{name}`; name them: -m NAME=MODEL")));
            }
        }
        Ok(all)
    }
}

/// `NAME=MODEL`, or a model alone. A file whose name has an equals sign is a file.
fn split(typed: &Path) -> (Option<String>, PathBuf) {
    let named = typed.to_str().filter(|_| !typed.exists()).and_then(|text| text.split_once('='));
    match named {
        Some((name, model)) if !name.is_empty() && !name.contains('/') => {
            (Some(name.to_owned()), model.into())
        }
        _ => (None, typed.to_owned()),
    }
}

impl Named {
    /// Finds the file, downloaded if it must be, so that loading it later needs no network. Fails if it is no model that runs.
    pub(super) fn find(&mut self) -> anyhow::Result<()> {
        if let Some(path) = source::locate(&self.args)? {
            let pre_tokenizer = self.args.open.pre_tokenizer.take();
            let open = OpenArgs { pre_tokenizer, ..OpenArgs::default() };
            self.args = ModelArgs { model: Some(path), open };
        }
        Model::new(load::file(&self.args)?)?;
        Ok(())
    }

    pub(super) fn load(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let (name, model) = (&self.name, Model::new(load::introduced(&self.args)?)?);
        let EmbeddingArgs { embeddings, reranking, .. } = serving.embedding;
        if embeddings || reranking || model.is_for_embeddings() {
            return self.embedder(serving);
        }
        let (model, network) = (serving.template.apply(model)?, self.args.open.network);
        let engine = load::serving(model, &serving.writing, network, |options| serving.adjust(options))?;
        let (limits, cached) = (engine.limits(), engine.load().pages * PAGE);
        let (requests, n_ctx) = (limits.sequences, limits.n_ctx);
        output::note(format_args!(
            "{name}: {requests} requests at once, each up to {n_ctx} tokens; {cached} tokens in the KV cache"
        ));
        Ok(Loaded::Engine(Box::new(engine)))
    }

    /// As the file says how to pool, or else by the mean.
    fn embedder(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let EmbeddingArgs { reranking, pooling, .. } = serving.embedding;
        let pooling = if reranking { Some(Pooling::Rank) } else { pooling };
        let mut model = Model::embedding(load::file(&self.args)?, pooling)?;
        if model.config().pooling == Some(Pooling::None) {
            model = Model::embedding(load::file(&self.args)?, Some(Pooling::Mean))?;
        }
        let engine = &serving.writing.engine;
        let embedder = embedder(model, &engine.backend, engine.context.ctx_size)?;
        ensure!(embedder.width() > 0, "{}: its embeddings have no values", embedder.model().file().file());
        let scores = embedder.model().config().pooling == Some(Pooling::Rank);
        let what = if scores { "scores documents" } else { "computes embeddings" };
        output::note(format_args!("{}: {what}, each up to {} tokens", self.name, embedder.n_ctx()));
        Ok(Loaded::Embedder(Box::new(embedder)))
    }
}

impl Serving {
    /// Several requests at once, on blocks that they share.
    fn adjust(&self, options: &mut Options) {
        options.sequences = self.parallel.get();
        options.step_target = Some(STEP_TARGET);
        let n_ctx = options.n_ctx.unwrap_or(engine::DEFAULT_N_CTX);
        let default = n_ctx.saturating_mul(CONTEXTS.min(options.sequences));
        let tokens = self.cache_tokens.map_or(default, NonZero::get);
        options.pages = Some(tokens.max(n_ctx).div_ceil(PAGE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_precede_an_equals_sign() {
        let split = |typed: &str| split(Path::new(typed));
        assert_eq!(split("a=b.gguf"), (Some("a".to_owned()), "b.gguf".into()));
        assert_eq!(split("a=user/repo:Q8_0"), (Some("a".to_owned()), "user/repo:Q8_0".into()));
        assert_eq!(split("models/x=1.gguf"), (None, "models/x=1.gguf".into()));
        assert_eq!(split("qwen3:0.6b"), (None, "qwen3:0.6b".into()));
        assert_eq!(split("=b.gguf"), (None, "=b.gguf".into()));
    }
}
