//! A loaded model: an engine for text, or an embedder.

use std::fmt;
use std::sync::Arc;

use engine::models::Pooling;
use engine::tokenizer::Detokenizer;
use engine::{Embedder, Engine, Limits};
use grammar::{Compiler, Vocabulary};
use parking_lot::Mutex;

use crate::driver::{Driver, Monitor};
use crate::options::{Options, Source};
use crate::{Error, Result};

/// What the clones of a model share.
pub(crate) struct Loaded {
    task: Task,
    /// Where the file is from, to load it once more for embeddings.
    origin: Option<(Source, Options)>,
    /// Of a model that writes text, loaded by the first use.
    embedder: Mutex<Option<Embedder>>,
    /// Made by the first use.
    grammars: Mutex<Option<Arc<Compiler>>>,
}

/// What the file is for.
enum Task {
    Text { model: Arc<engine::Model>, limits: Limits, driver: Arc<Driver> },
    Embeddings { model: Arc<engine::Model> },
}

impl Task {
    fn text(engine: Engine, monitor: Option<Box<dyn Monitor>>) -> Result<Task> {
        let (model, limits) = (engine.model().clone(), engine.limits());
        Ok(Task::Text { model, limits, driver: Arc::new(Driver::start(engine, monitor)?) })
    }
}

impl Loaded {
    pub(crate) fn new(source: Source, options: Options) -> Result<Arc<Loaded>> {
        let model = engine::Model::new(source.open()?)?;
        let (task, embedder) = if model.is_for_embeddings() {
            let embedder = options.embedder(&source)?;
            (Task::Embeddings { model: embedder.model().clone() }, Some(embedder))
        } else {
            (Task::text(options.engine(model)?, None)?, None)
        };
        let origin = Some((source, options));
        Ok(Arc::new(Loaded { task, origin, embedder: Mutex::new(embedder), grammars: Mutex::default() }))
    }

    /// Drives an engine that is loaded.
    pub(crate) fn from_engine(engine: Engine, monitor: Option<Box<dyn Monitor>>) -> Result<Arc<Loaded>> {
        let task = Task::text(engine, monitor)?;
        Ok(Arc::new(Loaded { task, origin: None, embedder: Mutex::default(), grammars: Mutex::default() }))
    }

    /// The engine's thread. Fails if the model computes embeddings.
    pub(crate) fn driver(&self) -> Result<&Arc<Driver>> {
        match &self.task {
            Task::Text { driver, .. } => Ok(driver),
            Task::Embeddings { model } => {
                let pooling = model.config().pooling.unwrap_or(Pooling::None);
                Err(engine::Error::ComputesEmbeddings { pooling }.into())
            }
        }
    }

    /// Calls `with` with the embedder.
    pub(crate) fn with_embedder<T>(&self, with: impl FnOnce(&mut Embedder) -> Result<T>) -> Result<T> {
        let mut embedder = self.embedder.lock();
        match &mut *embedder {
            Some(embedder) => with(embedder),
            none => {
                let Some((source, options)) = &self.origin else {
                    return Err(engine::Error::ComputesLogits.into());
                };
                with(none.insert(options.embedder(source)?))
            }
        }
    }

    /// Compiles grammars for the model's tokens.
    pub(crate) fn grammars(&self) -> Result<Arc<Compiler>> {
        let mut grammars = self.grammars.lock();
        if let Some(compiler) = &*grammars {
            return Ok(compiler.clone());
        }
        let vocabulary = Vocabulary::new(self.model().tokenizer())?;
        Ok(grammars.insert(Arc::new(Compiler::new(Arc::new(vocabulary)))).clone())
    }

    pub(crate) fn model(&self) -> &Arc<engine::Model> {
        match &self.task {
            Task::Text { model, .. } | Task::Embeddings { model } => model,
        }
    }

    pub(crate) fn limits(&self) -> Option<Limits> {
        if let Task::Text { limits, .. } = &self.task { Some(*limits) } else { None }
    }

    /// Fails if a text of so many bytes cannot fit the context, before it is rendered or encoded.
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<()> {
        let Some((Limits { n_ctx, .. }, most)) = self.limits().zip(self.max_text_bytes()) else {
            return self.driver().map(drop);
        };
        if bytes > most { Err(Error::TextTooLong { bytes, most, n_ctx }) } else { Ok(()) }
    }

    /// Each token is the longest of the vocabulary at most.
    pub(crate) fn max_text_bytes(&self) -> Option<usize> {
        let longest = self.model().tokenizer().longest_token().max(1);
        self.limits().map(|limits| limits.n_ctx.saturating_mul(longest))
    }

    /// The text of a single token.
    pub(crate) fn token_text(&self, id: u32) -> String {
        let mut detokenizer = Detokenizer::continuing(self.model().tokenizer().clone());
        detokenizer.push(id) + &detokenizer.finish()
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("model", self.model()).finish_non_exhaustive()
    }
}
