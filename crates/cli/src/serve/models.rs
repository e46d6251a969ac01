//! Which models to serve, and how they are loaded.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use backend::PAGE;
use clap::builder::FalseyValueParser;
use engine::models::Pooling;
use engine::{Engine, Model, Options};
use server::Loaded;

use super::{CONTEXTS, STEP_TARGET, Serving};
use crate::args::{ModelArgs, OpenArgs, PositionalModel};
use crate::embed::{EmbedderArgs, embedder, pooling};
use crate::load::{self, Writing};
use crate::output::{self, Usage};
use crate::source;

/// The models of the command line.
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
#[derive(Clone, Debug, clap::Args)]
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

impl EmbeddingArgs {
    /// Whether no model is to write text.
    fn is_asked_for(&self) -> bool {
        self.embeddings || self.reranking
    }

    fn pooling(&self) -> Option<Pooling> {
        if self.reranking { Some(Pooling::Rank) } else { self.pooling }
    }
}

/// A model, by the name that clients use.
#[derive(Debug)]
pub(super) struct Named {
    name: Option<String>,
    args: ModelArgs,
}

impl ModelsArgs {
    /// The models in order, of which the positional one replaces all. Fails if two have the same name.
    pub(super) fn named(&self, positional: &PositionalModel) -> Result<Vec<Named>, Usage> {
        let typed = match &positional.name {
            Some(model) => std::slice::from_ref(model),
            None => &self.model[..],
        };
        let named = |typed: &PathBuf| {
            let (name, model) = split(typed);
            Named { name, args: ModelArgs { model: Some(model), open: self.open.clone() } }
        };
        let mut all: Vec<Named> = typed.iter().map(named).collect();
        if all.is_empty() {
            all.push(Named { name: None, args: ModelArgs { model: None, open: self.open.clone() } });
        }
        for (number, one) in all.iter().enumerate() {
            if all[..number].iter().any(|other| other.name() == one.name()) {
                let message = format!("two models are called `{}`; name them: -m NAME=MODEL", one.name());
                return Err(Usage(message));
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
    /// The name for clients: as given, or the model's, without the extension of a file.
    pub(super) fn name(&self) -> String {
        let of_model = || {
            let model = self.args.model.as_deref()?;
            let is_file = model.extension().is_some_and(|extension| extension == "gguf");
            let name = if is_file { model.file_stem().map(Path::new).unwrap_or(model) } else { model };
            Some(name.to_string_lossy().into_owned())
        };
        self.name.clone().or_else(of_model).unwrap_or_else(|| "demo".to_owned())
    }

    pub(super) fn rename(&mut self, name: String) {
        self.name = Some(name);
    }

    /// Finds the file, downloaded if it must be, so that loading it later needs no network. Fails if it is no model that runs.
    pub(super) fn find(&mut self) -> anyhow::Result<()> {
        if let Some(path) = source::locate(&self.args)? {
            let open = OpenArgs { download: Default::default(), ..self.args.open.clone() };
            self.args = ModelArgs { model: Some(path), open };
        }
        Model::new(load::file(&self.args)?)?;
        Ok(())
    }

    /// Loads the model.
    pub(super) fn load(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let file = load::file(&self.args)?;
        load::introduce(&self.args, &file);
        let model = Model::new(file)?;
        match serving.embedding.is_asked_for() || model.is_for_embeddings() {
            true => self.embedder(serving),
            false => {
                let model = serving.template.apply(model)?;
                let Serving { engine, speculation, .. } = serving;
                let writing = Writing { engine, speculation, open: &self.args.open };
                let engine = load::serving(model, writing, |options| serving.adjust(options))?;
                output::note(format_args!("{}: {}", self.name(), describe(&engine)));
                Ok(Loaded::Engine(Box::new(engine)))
            }
        }
    }

    /// As the file says how to pool, or else by the mean.
    fn embedder(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let mut model = Model::embedding(load::file(&self.args)?, serving.embedding.pooling())?;
        if model.config().pooling == Some(Pooling::None) {
            model = Model::embedding(load::file(&self.args)?, Some(Pooling::Mean))?;
        }
        let engine = &serving.engine;
        let args = EmbedderArgs { backend: engine.backend.clone(), ctx_size: engine.context.ctx_size };
        let embedder = embedder(model, &args)?;
        ensure!(embedder.width() > 0, "{}: its embeddings have no values", embedder.model().file().file());
        let pooling = embedder.model().config().pooling.unwrap_or(Pooling::None);
        let what = if pooling == Pooling::Rank { "scores documents" } else { "computes embeddings" };
        output::note(format_args!("{}: {what}, each up to {} tokens", self.name(), embedder.n_ctx()));
        Ok(Loaded::Embedder(Box::new(embedder)))
    }
}

impl Serving {
    /// Several requests at once, on pages that they share.
    fn adjust(&self, options: &mut Options) {
        options.sequences = self.parallel.get();
        options.step_target = Some(STEP_TARGET);
        let n_ctx = options.n_ctx.unwrap_or(engine::DEFAULT_N_CTX);
        let default = n_ctx.saturating_mul(CONTEXTS.min(options.sequences));
        let tokens = self.cache_tokens.map_or(default, |tokens| tokens.get());
        options.pages = Some(tokens.max(n_ctx).div_ceil(PAGE));
    }
}

fn describe(engine: &Engine) -> String {
    let (limits, load) = (engine.limits(), engine.load());
    format!(
        "{} requests at once, each up to {} tokens; {} tokens in the KV cache",
        limits.sequences,
        limits.n_ctx,
        load.pages * PAGE
    )
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
