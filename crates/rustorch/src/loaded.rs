//! A loaded model: an engine for text, or an embedder.

use std::fmt;
use std::sync::Arc;

use engine::models::Pooling;
use engine::tokenizer::Detokenizer;
use engine::{Embedder, Limits};
use grammar::{Compiler, Vocabulary};
use parking_lot::Mutex;

use crate::Result;
use crate::options::{Options, Source};
use crate::shared::Shared;

/// What the clones of a model share.
pub(crate) struct Loaded {
    task: Task,
    source: Source,
    options: Options,
    /// Of a model that writes text, loaded by the first use.
    embedder: Mutex<Option<Embedder>>,
    /// Made by the first use.
    grammars: Mutex<Option<Arc<Compiler>>>,
}

/// What the file is for.
enum Task {
    Text { model: Arc<engine::Model>, limits: Limits, shared: Arc<Shared> },
    Embeddings { model: Arc<engine::Model> },
}

impl Loaded {
    pub(crate) fn new(source: Source, options: Options) -> Result<Arc<Loaded>> {
        let model = engine::Model::new(source.open()?)?;
        let (task, embedder) = if model.is_for_embeddings() {
            let embedder = options.embedder(&source)?;
            (Task::Embeddings { model: embedder.model().clone() }, Some(embedder))
        } else {
            let engine = options.engine(model)?;
            let (model, limits) = (engine.model().clone(), engine.limits());
            (Task::Text { model, limits, shared: Shared::new(engine) }, None)
        };
        Ok(Arc::new(Loaded {
            task,
            source,
            options,
            embedder: Mutex::new(embedder),
            grammars: Mutex::default(),
        }))
    }

    /// The engine. Fails if the model computes embeddings.
    pub(crate) fn shared(&self) -> Result<&Arc<Shared>> {
        match &self.task {
            Task::Text { shared, .. } => Ok(shared),
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
            none => with(none.insert(self.options.embedder(&self.source)?)),
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

    pub(crate) fn n_ctx(&self) -> Option<usize> {
        if let Task::Text { limits, .. } = &self.task { Some(limits.n_ctx) } else { None }
    }

    /// The text of a single token.
    pub(crate) fn text_of(&self, id: u32) -> String {
        let mut detokenizer = Detokenizer::continuing(self.model().tokenizer().clone());
        detokenizer.push(id) + &detokenizer.finish()
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("model", self.model()).finish_non_exhaustive()
    }
}
