//! A model file made ready for engines: weights in the map, graph, tokenizer, chat template.

use std::path::Path;
use std::sync::Arc;

use gguf::Gguf;
use graph::Graph;
use tokenizer::Tokenizer;

use crate::Error;

/// A model that any number of engines can serve. It holds no backend; the weights stay in the file's
/// map.
pub struct Model {
    file: Gguf,
    model: models::Model,
    tokenizer: Arc<Tokenizer>,
}

impl Model {
    /// Opens a GGUF file.
    ///
    /// # Errors
    /// When the file cannot be read, or its model or its tokenizer is damaged or not supported. Every
    /// error names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::new(Gguf::open(path)?)
    }

    /// Takes an opened file.
    ///
    /// # Errors
    /// When its model or its tokenizer is damaged or not supported.
    pub fn new(file: Gguf) -> Result<Model, Error> {
        let path = || file.file().to_owned();
        let model = models::Model::new(&file).map_err(|source| Error::Model { path: path(), source })?;
        let tokenizer = Tokenizer::from_metadata(file.metadata())
            .map_err(|source| Error::Tokenizer { path: path(), source })?;
        let (found, n_vocab) = (tokenizer.vocab_size(), model.graph.value(model.graph.output()).cols);
        if found != n_vocab {
            return Err(Error::Vocabulary { path: path(), tokenizer: found, model: n_vocab });
        }
        Ok(Model { file, model, tokenizer: Arc::new(tokenizer) })
    }

    /// The file: metadata and tensors.
    pub fn file(&self) -> &Gguf {
        &self.file
    }

    /// Hyper-parameters.
    pub fn config(&self) -> &models::Config {
        &self.model.config
    }

    /// What a backend computes.
    pub fn graph(&self) -> &Graph {
        &self.model.graph
    }

    /// From text to token ids and back.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Tokens of context the model was trained on.
    pub fn n_ctx_train(&self) -> usize {
        self.model.config.context_length
    }

    /// The ids of a raw prompt: BOS where the file says so, and never an EOS after it. Text never
    /// becomes a special token, unless `parse_special` asks for it.
    pub fn encode_prompt(&self, text: &str, parse_special: bool) -> Vec<u32> {
        let mut ids = self.tokenizer.encode(text, tokenizer::Encode { add_special: false, parse_special });
        if self.tokenizer.adds_bos()
            && let Some(bos) = self.tokenizer.special_ids().bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        ids
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("file", &self.file.file())
            .field("config", &self.model.config)
            .finish_non_exhaustive()
    }
}
