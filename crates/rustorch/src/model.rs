//! A loaded model.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use engine::models::Pooling;
use engine::tokenizer::{Detokenizer, Encode};
use engine::{Embedder, Limits, Normalization};
use parking_lot::Mutex;

use crate::options::Source;
use crate::settings::settings;
use crate::shared::Shared;
use crate::{Batch, Chat, Error, Generate, Options, Prompt, Result};

/// A loaded model. Clones share it, also between threads.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    task: Task,
    source: Source,
    options: Options,
    /// Of a model that writes text, loaded by the first use.
    embedder: Mutex<Option<Embedder>>,
}

/// What the file is for.
enum Task {
    Text { model: Arc<engine::Model>, limits: Limits, shared: Arc<Shared> },
    Embeddings { model: Arc<engine::Model> },
}

/// Whether the file is for embeddings: an encoder, or a decoder whose file says how to pool.
fn is_for_embeddings(model: &engine::Model) -> bool {
    let key = format!("{}.pooling_type", model.config().architecture);
    let kind = model.file().metadata().u32(&key).ok().flatten();
    model.config().pooling.is_some() || kind.is_some_and(|kind| kind > 0)
}

impl Inner {
    fn model(&self) -> &Arc<engine::Model> {
        match &self.task {
            Task::Text { model, .. } | Task::Embeddings { model } => model,
        }
    }

    /// The text of a single token.
    pub(crate) fn text_of(&self, id: u32) -> String {
        let mut detokenizer = Detokenizer::continuing(self.model().tokenizer().clone());
        detokenizer.push(id) + &detokenizer.finish()
    }
}

impl Model {
    /// Opens a GGUF file, the first of a split one, and loads it with default [`Options`].
    ///
    /// The file stays mapped, and must not change while the model is in use; a step after a change is an error.
    ///
    /// # Errors
    /// If the file cannot be read, its model is not supported, or it does not fit in memory.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Options::default().open(path)
    }

    /// Loads a small model that is part of the program: for first steps and for tests. It knows little.
    ///
    /// # Errors
    /// If memory is exhausted.
    #[cfg(feature = "demo-model")]
    pub fn demo() -> Result<Model> {
        Options::default().demo()
    }

    /// Loads a model from the Hugging Face hub, such as `Qwen/Qwen3-0.6B-GGUF:Q8_0`. See [`Options::pull`].
    ///
    /// # Errors
    /// As [`Options::pull`].
    #[cfg(feature = "hub")]
    pub fn pull(name: &str) -> Result<Model> {
        Options::default().pull(name, |_| {})
    }

    /// Context, devices and memory, to open a model with.
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn load(source: Source, options: Options) -> Result<Model> {
        let model = engine::Model::new(source.open()?)?;
        let (task, embedder) = if is_for_embeddings(&model) {
            let embedder = options.embedder(&source)?;
            (Task::Embeddings { model: embedder.model().clone() }, Some(embedder))
        } else {
            let engine = options.engine(model)?;
            let (model, limits) = (engine.model().clone(), engine.limits());
            (Task::Text { model, limits, shared: Shared::new(engine) }, None)
        };
        Ok(Model(Arc::new(Inner { task, source, options, embedder: Mutex::new(embedder) })))
    }

    pub(crate) fn shared(&self) -> Result<&Arc<Shared>> {
        match &self.0.task {
            Task::Text { shared, .. } => Ok(shared),
            Task::Embeddings { model } => {
                let pooling = model.config().pooling.unwrap_or(Pooling::None);
                Err(engine::Error::ComputesEmbeddings { pooling }.into())
            }
        }
    }

    /// Continues a prompt: a text as it is, without the chat template, or a `Vec<u32>` of tokens.
    ///
    /// ```
    /// # fn main() -> rustorch::Result<()> {
    /// # let model = rustorch::Model::demo()?;
    /// for token in model.generate("The capital of Spain is").temperature(0.0).max_tokens(3) {
    ///     print!("{}", token?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate(&self, prompt: impl Into<Prompt>) -> Generate {
        Generate { model: self.clone(), prompt: prompt.into(), settings: settings() }
    }

    /// Continues several prompts at once: a step computes a token of each, which takes little longer than one of them alone.
    pub fn batch(&self, prompts: impl IntoIterator<Item = impl Into<Prompt>>) -> Batch {
        Batch::new(self, prompts.into_iter().map(Into::into).collect())
    }

    /// Begins a conversation.
    pub fn chat(&self) -> Chat {
        Chat::new(self)
    }

    /// The embedding of each text, of Euclidean length 1, so that the sum of products of two is their cosine similarity.
    ///
    /// Embedding models pool as their file says. For a model that writes text, it is the mean of the tokens' last hidden states;
    /// its first use loads the model once more.
    ///
    /// # Errors
    /// If a text is empty or longer than the context, or memory is exhausted.
    pub fn embed(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>> {
        let encode = Encode { add_special: true, parse_special: false };
        let tokens = |text: &_| self.0.model().tokenizer().encode(AsRef::<str>::as_ref(text), encode);
        let tokens: Vec<Vec<u32>> = texts.iter().map(tokens).collect();
        self.with_embedder(|embedder| {
            let mut embeddings = embedder.embed(&tokens)?;
            if embedder.model().config().pooling != Some(Pooling::Rank) {
                embeddings.iter_mut().for_each(|embedding| Normalization::P(2).apply(embedding));
            }
            Ok(embeddings)
        })
    }

    /// How well each document answers `query`: the higher the better, in the order of `documents`.
    ///
    /// # Errors
    /// If the model is no reranker, a query and a document are longer than the context, or memory is exhausted.
    pub fn rerank(&self, query: &str, documents: &[impl AsRef<str>]) -> Result<Vec<f32>> {
        let model = self.0.model();
        if model.config().pooling != Some(Pooling::Rank) {
            return Err(Error::NoReranker { file: model.file().file().to_owned() });
        }
        let tokens = documents.iter().map(|document| model.rerank_tokens(query, document.as_ref()));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        // Of several labels, the first is relevance.
        let relevance = |scores: Vec<f32>| scores.first().copied().unwrap_or(f32::NAN);
        self.with_embedder(|embedder| Ok(embedder.embed(&tokens)?.into_iter().map(relevance).collect()))
    }

    fn with_embedder<T>(&self, with: impl FnOnce(&mut Embedder) -> Result<T>) -> Result<T> {
        let mut embedder = self.0.embedder.lock();
        match &mut *embedder {
            Some(embedder) => with(embedder),
            none => with(none.insert(self.0.options.embedder(&self.0.source)?)),
        }
    }

    /// The tokens of a text, without BOS. Text never becomes a special token.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        self.0.model().tokenizer().encode(text, Encode { add_special: false, parse_special: false })
    }

    /// The text of tokens, without control tokens.
    pub fn detokenize(&self, tokens: &[u32]) -> String {
        self.0.model().tokenizer().decode(tokens)
    }

    /// The context in tokens; `None` for a model that only computes embeddings.
    pub fn n_ctx(&self) -> Option<usize> {
        if let Task::Text { limits, .. } = &self.0.task { Some(limits.n_ctx) } else { None }
    }

    /// The opened file: metadata, graph, tokenizer, chat template.
    pub fn file(&self) -> &engine::Model {
        self.0.model()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("file", &self.0.model().file().file()).finish_non_exhaustive()
    }
}
