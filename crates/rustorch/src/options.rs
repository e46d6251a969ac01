//! How a model is loaded.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use backend::{Backend, Bucket, KV_BLOCK, KvLayout, OpenOptions, Taps};
use engine::models::Pooling;
use engine::{DEFAULT_N_CTX, DraftModel, Embedder, EmbedderOptions, Engine, KvFormat, Speculation};
use gguf::Gguf;
use runner::placement::{Layers, Request, Split, SplitMode};
use runner::{FileWeights, Workload};

use crate::Result;
use crate::devices::{self, BackendName};

/// Requests that share steps by default.
const SEQUENCES: usize = 8;

/// How a model is loaded. Made by [`Model::options`](crate::Model::options).
///
/// ```
/// # fn main() -> rustorch::Result<()> {
/// let model = rustorch::Model::options().n_ctx(256).threads(1).demo()?;
/// # let _ = model;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    engine: engine::Options,
    backend: BackendName,
    gpus: Request,
    host_options: OpenOptions,
    gpu_memory: Option<u64>,
    draft_model: Option<PathBuf>,
}

/// Where a model is from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File(PathBuf),
    #[cfg(feature = "demo-model")]
    Demo,
}

impl Source {
    pub(crate) fn open(&self) -> Result<Gguf> {
        Ok(match self {
            Source::File(path) => Gguf::open(path)?,
            #[cfg(feature = "demo-model")]
            Source::Demo => {
                Gguf::from_named_bytes("demo model", bytes::Bytes::from_static(demo_model::EMBEDDED))?
            }
        })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            engine: engine::Options { sequences: SEQUENCES, ..engine::Options::default() },
            backend: BackendName::Auto,
            gpus: Layers::Auto.into(),
            host_options: OpenOptions::default(),
            gpu_memory: None,
            draft_model: None,
        }
    }
}

impl Options {
    /// The context in tokens: the most that a prompt and its text may have together. By default what the model was trained
    /// on, but at most 4096.
    pub fn n_ctx(mut self, tokens: usize) -> Options {
        self.engine.n_ctx = Some(tokens);
        self
    }

    /// The most texts that are generated at once, 8 by default; others wait.
    pub fn sequences(mut self, sequences: usize) -> Options {
        self.engine.sequences = sequences;
        self
    }

    /// Tokens in the KV cache, which all texts share: by default one context. If it is full, texts wait for others to end, and
    /// the cache of a chat may have to be computed again.
    pub fn kv_tokens(mut self, tokens: usize) -> Options {
        self.engine.blocks = Some(tokens.div_ceil(KV_BLOCK));
        self
    }

    /// The format of keys and values in the cache, F16 by default.
    pub fn kv_format(mut self, format: KvFormat) -> Options {
        self.engine.kv_format = format;
        self
    }

    /// Rows per step: tokens of prompts, and one per text. More take more memory, and are hardly faster.
    pub fn n_batch(mut self, rows: usize) -> Options {
        self.engine.n_batch = rows;
        self
    }

    /// Drafts tokens and computes several at once: texts stay the same, and those that repeat themselves or their prompt, such as
    /// code, are faster. A model with recurrent layers does without.
    pub fn speculation(mut self, speculation: Speculation) -> Options {
        self.engine.speculation = Some(speculation);
        self
    }

    /// A smaller model, a GGUF file with the same vocabulary, which drafts: texts stay the same, and are faster if it is often right
    /// and much smaller. It runs on the same devices.
    pub fn draft_model(mut self, path: impl Into<PathBuf>) -> Options {
        self.engine.speculation.get_or_insert_default();
        self.draft_model = Some(path.into());
        self
    }

    /// What computes the model, by default GPUs if there are any, and the CPU.
    pub fn backend(mut self, backend: BackendName) -> Options {
        self.backend = backend;
        self
    }

    /// Layers on the GPU, by default as many as fit.
    pub fn gpu_layers(mut self, layers: Layers) -> Options {
        self.gpus.layers = layers;
        self
    }

    /// Divides the layers on GPUs in these proportions, the first GPU first; by default each GPU in turn takes as many as fit.
    pub fn tensor_split(mut self, split: Split) -> Options {
        self.gpus.split = Some(split);
        self
    }

    /// How GPUs share the model: [`SplitMode::Layer`] by default. With [`SplitMode::Tensor`], NVIDIA cards of one host have an equal
    /// part of every layer and compute together; they need NCCL (`libnccl.so.2`).
    pub fn split_mode(mut self, mode: SplitMode) -> Options {
        self.gpus.mode = mode;
        self
    }

    /// Limits the memory of each GPU, in bytes.
    pub fn gpu_memory(mut self, bytes: u64) -> Options {
        self.gpu_memory = Some(bytes);
        self
    }

    /// CPU threads; 0 and the default are the cores that are free when the model is loaded.
    pub fn threads(mut self, threads: usize) -> Options {
        self.host_options.threads = NonZero::new(threads);
        self.engine.sampling_threads = NonZero::new(threads);
        self
    }

    /// Limits the memory on the CPU, besides the mapped file, in bytes. By default the memory that is available.
    pub fn memory(mut self, bytes: u64) -> Options {
        self.host_options.memory = Some(bytes);
        self
    }

    /// Uses weights from the mapped file instead of packed copies: half the memory, the same texts, slower.
    pub fn leave_weights_in_file(mut self) -> Options {
        self.host_options.leave_weights_in_file = true;
        self
    }

    /// Puts `model` on its devices, as an [`Engine`] that you step.
    ///
    /// # Errors
    /// If the options are invalid, or the model does not fit.
    pub fn engine(&self, model: engine::Model) -> Result<Engine> {
        let mut options = self.engine;
        let n_ctx = options.n_ctx.unwrap_or(DEFAULT_N_CTX).min(model.config().context_length.max(1));
        // Every text may leave its last block partly empty.
        options.blocks = options.blocks.or(Some(n_ctx.div_ceil(KV_BLOCK) + options.sequences - 1));
        // It is loaded first, so that the model has the rest of the memory.
        let draft = self.draft_model.as_deref().map(|path| self.draft(path, &model, options)).transpose()?;
        let engine::Layout { kv_layout, buckets, .. } = options.layout(&model)?;
        let model = Arc::new(model);
        let mut engine = self
            .put(&model, kv_layout, buckets, |backend| Ok(Engine::new(model.clone(), backend, options)?))?;
        if let Some(draft) = draft {
            engine.draft_with(draft)?;
        }
        Ok(engine)
    }

    /// Puts the model of the file at `path` on its devices, to draft for an engine of `target` with these options.
    fn draft(&self, path: &Path, target: &engine::Model, options: engine::Options) -> Result<DraftModel> {
        let model = Arc::new(engine::Model::open(path)?);
        let engine::Layout { kv_layout, buckets, .. } = options.for_draft(target)?.layout(&model)?;
        self.put(&model, kv_layout, buckets, |backend| {
            Ok(DraftModel::new(model.clone(), backend, target, options)?)
        })
    }

    /// Puts the model of `file` on its devices to compute embeddings: as the file says, or else the mean of the tokens'.
    pub(crate) fn embedder(&self, source: &Source) -> Result<Embedder> {
        let mut model = engine::Model::embedding(source.open()?, None)?;
        if model.config().pooling == Some(Pooling::None) {
            model = engine::Model::embedding(source.open()?, Some(Pooling::Mean))?;
        }
        let options = EmbedderOptions { n_ctx: self.engine.n_ctx, n_batch: self.engine.n_batch };
        let (kv_layout, bucket) = options.layout(&model);
        let model = Arc::new(model);
        self.put(&model, kv_layout, vec![bucket], |backend| {
            Ok(Embedder::new(model.clone(), backend, options)?)
        })
    }

    /// Opens the devices and calls `load` with them. If memory runs out, GPUs get fewer layers.
    fn put<T>(
        &self,
        model: &engine::Model,
        kv_layout: KvLayout,
        mut buckets: Vec<Bucket>,
        mut load: impl FnMut(Box<dyn Backend>) -> Result<T>,
    ) -> Result<T> {
        note_slow_kernels();
        buckets.dedup();
        let (weights, graph, taps) = (&FileWeights(model.file()), model.graph(), Taps::None);
        let deployment =
            devices::deployment(self.backend, self.gpus.clone(), self.host_options, self.gpu_memory)?;
        let mut deployed = deployment.place(&Workload { weights, graph, kv_layout, buckets, taps })?;
        loop {
            let loaded = deployed.open().map_err(Into::into).and_then(&mut load);
            match loaded {
                Err(error) if error.backend_error().is_some_and(|error| deployed.fall_back(error)) => {
                    let on_devices = deployed.placement().on_devices();
                    tracing::warn!("{error}; trying {on_devices} layers on the GPU");
                }
                loaded => return loaded,
            }
        }
    }
}

/// Without optimisation, a model is so slow that it seems to hang. Says so once on stderr without a subscriber of `tracing`, by which
/// the CPU backend says it.
fn note_slow_kernels() {
    static ONCE: Once = Once::new();
    if backend_cpu::IS_SLOW && !tracing::dispatcher::has_been_set() {
        ONCE.call_once(|| {
            eprintln!(
                "rustorch: compiled without optimisation, which makes models ten to twenty times slower; add this to Cargo.toml:\n\n\
                 [profile.dev.package.\"*\"]\nopt-level = 3\n"
            );
        });
    }
}
