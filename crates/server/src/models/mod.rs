//! The models that the server has: loaded at its start, or by the first request for them, and unloaded when others need their place.

mod encoder;
mod entry;

pub(crate) use encoder::Encoder;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::{Embedder, Engine};
use sha2::{Digest, Sha256};
use tokenizer::Tokenizer;
use tokio::sync::Mutex;

use crate::error::{ApiError, Kind, StartError};
use crate::id;
use crate::metrics::Stats;
use entry::{Entry, InUse};

/// A loaded model.
#[derive(Debug)]
pub enum Loaded {
    /// Writes text.
    Engine(Box<Engine>),
    /// Computes embeddings, or scores of documents.
    Embedder(Box<Embedder>),
}

/// Loads a model; blocks until it is done. An error says what to do.
pub type Loader = Arc<dyn Fn() -> Result<Loaded, String> + Send + Sync>;

/// The source of a model.
pub enum ModelSource {
    /// Loaded already, and never unloaded.
    Loaded(Loaded),
    /// Loaded as soon as the server listens, and never unloaded. Requests wait for it; the server ends if it fails.
    AtStart(Loader),
    /// Loaded by the first request for it; it may be unloaded while it is not used.
    OnDemand(Loader),
}

impl From<Engine> for ModelSource {
    fn from(engine: Engine) -> ModelSource {
        ModelSource::Loaded(Loaded::Engine(Box::new(engine)))
    }
}

impl From<Embedder> for ModelSource {
    fn from(embedder: Embedder) -> ModelSource {
        ModelSource::Loaded(Loaded::Embedder(Box::new(embedder)))
    }
}

impl fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelSource::Loaded(loaded) => f.debug_tuple("Loaded").field(loaded).finish(),
            ModelSource::AtStart(_) => f.debug_tuple("AtStart").finish_non_exhaustive(),
            ModelSource::OnDemand(_) => f.debug_tuple("OnDemand").finish_non_exhaustive(),
        }
    }
}

/// A model that is not unloaded while this lives.
pub(crate) struct Lease<T> {
    inner: T,
    in_use: InUse,
}

impl<T> Deref for Lease<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

pub(crate) type Model = Lease<Held>;

/// A model in use that writes text.
pub(crate) type Served = Lease<Arc<Generator>>;

/// A loaded model, which derefs to the fields that both kinds have.
#[derive(Clone)]
pub(crate) enum Held {
    Generator(Arc<Generator>),
    Encoder(Arc<Encoder>),
}

impl Deref for Held {
    type Target = ModelInfo;

    fn deref(&self) -> &ModelInfo {
        match self {
            Held::Generator(generator) => generator,
            Held::Encoder(encoder) => encoder,
        }
    }
}

/// The fields that every loaded model has.
pub(crate) struct ModelInfo {
    pub(crate) name: String,
    /// When it was loaded, in seconds since 1970.
    pub(crate) created: i64,
    pub(crate) file: Arc<engine::Model>,
    /// Most tokens of a text.
    pub(crate) n_ctx: usize,
    digest: OnceLock<String>,
}

impl ModelInfo {
    fn new(name: String, file: Arc<engine::Model>, n_ctx: usize) -> ModelInfo {
        ModelInfo { name, created: id::now(), file, n_ctx, digest: OnceLock::new() }
    }

    /// The SHA-256 of the bytes (of the first part) before the tensors, that is of the metadata and the list of tensors: the whole
    /// file takes too long.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let file = self.file.file();
            let bytes = file.contents().next().unwrap_or_default();
            let begin = bytes.as_ptr().addr();
            let places = file.tensors().filter_map(|tensor| tensor.data.as_ptr().addr().checked_sub(begin));
            let header = places.min().and_then(|end| bytes.get(..end)).unwrap_or(bytes);
            format!("{:x}", Sha256::digest(header))
        })
    }

    pub(crate) fn tokenizer(&self) -> &Arc<Tokenizer> {
        self.file.tokenizer()
    }
}

pub(crate) fn parameters(file: &engine::gguf::Gguf) -> u64 {
    file.tensors().map(|tensor| tensor.row_len() as u64 * tensor.rows() as u64).sum()
}

pub(crate) struct Generator {
    info: ModelInfo,
    pub(crate) model: rustorch::Model,
    /// Requests that are computed at once.
    pub(crate) sequences: usize,
}

impl Deref for Generator {
    type Target = ModelInfo;

    fn deref(&self) -> &ModelInfo {
        &self.info
    }
}

impl Model {
    pub(crate) fn generator(self) -> Result<Arc<Served>, ApiError> {
        let Lease { inner, in_use } = self;
        match inner {
            Held::Generator(inner) => Ok(Arc::new(Lease { inner, in_use })),
            Held::Encoder(encoder) => {
                let (what, path) = if encoder.is_reranker() {
                    ("scores documents", "/v1/rerank")
                } else {
                    ("computes embeddings", "/v1/embeddings")
                };
                let message = format!("the model `{}` {what} and writes no text; use {path}", encoder.name);
                Err(ApiError::new(Kind::Unsupported, message).at("model"))
            }
        }
    }

    pub(crate) fn encoder(self) -> Result<Arc<Lease<Arc<Encoder>>>, ApiError> {
        let Lease { inner, in_use } = self;
        match inner {
            Held::Encoder(inner) => Ok(Arc::new(Lease { inner, in_use })),
            Held::Generator(generator) => {
                let name = &generator.name;
                let message = format!(
                    "the model `{name}` writes text, and computes neither embeddings nor scores; serve an embedding model \
                     or a reranker"
                );
                Err(ApiError::new(Kind::Unsupported, message).at("model"))
            }
        }
    }
}

/// All models, in the order of the command line.
pub(crate) struct Models {
    entries: Vec<Arc<Entry>>,
    /// Further names of the first one; `*` is any name that none has.
    aliases: Vec<String>,
    /// A name that no model has is an error, even if there is one model.
    is_strict: bool,
    /// Models that are loaded at once.
    max_loaded: usize,
    /// Held while a model is loaded. Callers wait in order of arrival, so that no model waits forever for one that is asked for all the time.
    loading: Arc<Mutex<()>>,
}

impl Models {
    pub(crate) fn new(
        models: Vec<(String, ModelSource)>,
        aliases: Vec<String>,
        is_strict: bool,
        max_loaded: usize,
    ) -> std::io::Result<Models> {
        let entry = |(name, source)| Entry::new(name, source).map(Arc::new);
        let entries = models.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Models { entries, aliases, is_strict, max_loaded, loading: Arc::default() })
    }

    /// The entry of this name. Clients of ollama's protocol ask by the names of its lists at all endpoints.
    fn named(&self, name: &str) -> Option<&Arc<Entry>> {
        let called = |name| self.entries.iter().find(move |entry| entry.name == name);
        let is_alias = || self.aliases.iter().any(|alias| alias == name);
        let named = called(name).or_else(|| called(name.strip_suffix(":latest")?));
        named.or_else(|| self.entries.first().filter(|_| is_alias()))
    }

    /// The entry that answers to a name that none has.
    fn stand_in(&self) -> Option<&Arc<Entry>> {
        let answers_to_any = self.aliases.iter().any(|alias| alias == "*");
        let is_only = self.entries.len() == 1 && !self.is_strict;
        self.entries.first().filter(|_| answers_to_any || is_only)
    }

    /// The name of the model that answers to `name`, which none has.
    pub(crate) fn used_for(&self, name: &str) -> Option<&str> {
        let stand_in = self.stand_in().filter(|_| self.named(name).is_none())?;
        Some(&stand_in.name)
    }

    /// The entry called `name`, or that which stands in for it; without a name the first one.
    fn find(&self, name: Option<&str>) -> Result<&Arc<Entry>, ApiError> {
        let found = match name {
            None => self.entries.first(),
            Some(name) => self.named(name).or_else(|| self.stand_in()),
        };
        found.ok_or_else(|| self.unknown(name.unwrap_or_default()))
    }

    pub(crate) fn unknown(&self, name: &str) -> ApiError {
        let names: Vec<&str> = self.entries.iter().map(|entry| &*entry.name).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        let message = format!("there is no model `{name}`; there {are} {}", names.join(", "));
        ApiError::new(Kind::NoModel, message).at("model")
    }

    /// The model called `name`, loaded if it is not; without a name the first one.
    pub(crate) async fn get(self: &Arc<Models>, name: Option<&str>) -> Result<Model, ApiError> {
        let entry = self.find(name)?;
        if let Some(model) = entry.lease() {
            return Ok(model);
        }
        // A caller that leaves while others load is forgotten. A load that has begun goes on, in a task of its own.
        let loading = self.loading.clone().lock_owned().await;
        let (models, entry) = (self.clone(), entry.clone());
        let loaded = tokio::spawn(async move {
            let _loading = loading;
            models.load(&entry).await
        });
        loaded.await.map_err(|_| {
            ApiError::internal("loading the model ended in a panic; the server's log says where")
        })?
    }

    /// Loads a model, and unloads others before if there are too many. Only one caller at a time.
    async fn load(&self, entry: &Arc<Entry>) -> Result<Model, ApiError> {
        if let Some(model) = entry.lease() {
            return Ok(model);
        }
        while let Some(oldest) = self.oldest() {
            oldest.unload().await;
        }
        entry.load().await
    }

    /// The model that was not used for the longest time, if one has to go before another is loaded; of those in use that which
    /// was asked for the longest time ago.
    fn oldest(&self) -> Option<&Arc<Entry>> {
        let loaded = self.entries.iter().filter(|entry| entry.is_loaded()).count();
        let removable = self.entries.iter().filter(|entry| entry.is_removable());
        removable.min_by_key(|entry| entry.rank()).filter(|_| loaded >= self.max_loaded)
    }

    pub(crate) async fn unload_idle(&self, time: Duration) {
        let _loading = self.loading.lock().await;
        for entry in self.entries.iter().filter(|entry| entry.is_removable()) {
            entry.unload_idle(time).await;
        }
    }

    /// Loads the models of [`ModelSource::AtStart`]. Fails with the name and the reason of the first that cannot be loaded.
    pub(crate) async fn start(self: &Arc<Models>) -> Result<(), StartError> {
        for entry in self.entries.iter().filter(|entry| entry.is_kept) {
            let loaded = self.get(Some(&entry.name)).await;
            loaded.map_err(|error| StartError::Load { message: error.message })?;
        }
        Ok(())
    }

    pub(crate) fn are_loading(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_kept && !entry.is_loaded())
    }

    /// Whether a model has failed, and only a new start of the server helps.
    pub(crate) fn have_failed(&self) -> bool {
        self.entries.iter().any(|entry| entry.has_failed())
    }

    /// Ends all requests for text with an error: the server stops.
    pub(crate) fn cut(&self) {
        for entry in &self.entries {
            if let Some(Held::Generator(generator)) = entry.peek() {
                generator.model.close();
            }
        }
    }

    pub(crate) fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.iter().map(String::as_str).filter(|alias| *alias != "*")
    }

    /// The names, and the models that are loaded.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&str, Option<Held>)> {
        self.entries.iter().map(|entry| (&*entry.name, entry.peek()))
    }

    pub(crate) fn is_loading(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name && entry.is_loading())
    }

    /// The name and the model, if it is loaded. Waits for one that is loaded at the start: a client that sees the server up expects
    /// its model.
    pub(crate) async fn look(
        self: &Arc<Models>,
        name: Option<&str>,
    ) -> Result<(&str, Option<Held>), ApiError> {
        let entry = self.find(name)?;
        if entry.is_kept && !entry.is_loaded() {
            self.get(name).await?;
        }
        Ok((&*entry.name, entry.peek()))
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = (&str, &Stats)> + Clone {
        self.entries.iter().map(|entry| (&*entry.name, &*entry.stats))
    }
}
