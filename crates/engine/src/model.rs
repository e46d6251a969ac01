//! An opened model file: mapped weights, graph, tokenizer, chat template.

use std::path::Path;
use std::sync::Arc;

use chat::{Prompt, Segment, Specials, Template};
use gguf::Gguf;
use graph::Graph;
use models::Pooling;
use tokenizer::{Part, Tokenizer};

use crate::Error;
use crate::params::Params;
use crate::sampling::{self, Breakers};

/// A model for any number of engines. It has no backend; weights stay in the mapped file.
pub struct Model {
    file: Gguf,
    model: models::Model,
    tokenizer: Arc<Tokenizer>,
    template: Result<Template, NoTemplate>,
    breakers: Breakers,
}

/// Why a model has no usable chat template. Everything else works without one.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum NoTemplate {
    #[error("the file has no chat template (key `tokenizer.chat_template`)")]
    Absent,
    #[error("the file's chat template (key `tokenizer.chat_template`) cannot be used: {0}")]
    Unusable(#[from] chat::Error),
}

impl Model {
    /// Maps a GGUF file. See [`Gguf::open`] for what happens when the file is truncated later. Fails if the file cannot
    /// be read, or its model or tokenizer is invalid or not supported. Every error names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::new(Gguf::open(path)?)
    }

    /// Uses an opened file. Fails if its model or tokenizer is invalid or not supported.
    pub fn new(file: Gguf) -> Result<Model, Error> {
        Model::with(file, models::Model::new)
    }

    /// The same for an [`crate::Embedder`], with the file's pooling unless another one is requested.
    pub fn embedding(file: Gguf, pooling: Option<Pooling>) -> Result<Model, Error> {
        Model::with(file, |file| models::Model::embedding(file, pooling))
    }

    /// Whether the file is for embeddings: an encoder, or a decoder whose file says how to pool.
    pub fn is_for_embeddings(&self) -> bool {
        let key = format!("{}.pooling_type", self.config().architecture);
        let kind = self.file.metadata().u32(&key).ok().flatten();
        self.config().pooling.is_some() || kind.is_some_and(|kind| kind > 0)
    }

    fn with(
        file: Gguf,
        read: impl FnOnce(&Gguf) -> Result<models::Model, models::Error>,
    ) -> Result<Model, Error> {
        let path = || file.file().to_owned();
        let model = read(&file).map_err(|source| Error::Model { path: path(), source })?;
        let tokenizer = Tokenizer::from_metadata(file.metadata())
            .map_err(|source| Error::Tokenizer { path: path(), source })?;
        let template = template(&file, &tokenizer);
        if let Err(why @ NoTemplate::Unusable(_)) = &template {
            tracing::warn!("{}: {why}", file.file());
        }
        Ok(Model { file, model, tokenizer: Arc::new(tokenizer), template, breakers: Breakers::default() })
    }

    /// Replaces the file's chat template with `source` (Jinja). Fails if it is invalid or uses unsupported features.
    pub fn with_template(self, source: &str) -> Result<Model, Error> {
        let template = Template::new(source, specials(&self.tokenizer))?;
        Ok(Model { template: Ok(template), ..self })
    }

    /// Metadata and tensors.
    pub fn file(&self) -> &Gguf {
        &self.file
    }

    /// Hyper-parameters.
    pub fn config(&self) -> &models::Config {
        &self.model.config
    }

    /// The graph for backends.
    pub fn graph(&self) -> &Graph {
        &self.model.graph
    }

    /// Converts text to token ids and back.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Prepares what takes a while before a request with these parameters is submitted, on the thread of the caller. What is not
    /// prepared is so when it is submitted.
    pub fn prepare(&self, params: &Params) {
        sampling::prepare(params, &self.breakers, &self.tokenizer);
    }

    pub(crate) fn breakers(&self) -> &Breakers {
        &self.breakers
    }

    /// Encodes a raw prompt: with BOS if the file says so, and never with EOS. Text becomes special tokens only with
    /// `parse_special`.
    pub fn encode_prompt(&self, text: &str, parse_special: bool) -> Vec<u32> {
        self.tokenizer
            .with_bos(self.tokenizer.encode(text, tokenizer::Encode { add_special: false, parse_special }))
    }

    /// Encodes what a chat template wrote: with BOS if the file says so, and with no EOS but the template's.
    pub fn encode_rendered(&self, prompt: &Prompt) -> Vec<u32> {
        encode_rendered(&self.tokenizer, prompt)
    }

    /// The file's chat template, or why there is none.
    pub fn template(&self) -> Result<&Template, &NoTemplate> {
        self.template.as_ref()
    }
}

/// Encodes what a chat template wrote: with BOS if the file says so, and with no EOS but the template's.
pub fn encode_rendered(tokenizer: &Tokenizer, prompt: &Prompt) -> Vec<u32> {
    let parts = prompt.segments().iter().map(|segment| match segment {
        Segment::Text(text) => Part::Text(text),
        Segment::Token { id, .. } => Part::Token(*id),
    });
    tokenizer.with_bos(tokenizer.encode_parts(parts, false))
}

fn template(file: &Gguf, tokenizer: &Tokenizer) -> Result<Template, NoTemplate> {
    Template::from_metadata(file.metadata(), specials(tokenizer))?.ok_or(NoTemplate::Absent)
}

/// The special tokens that only a template may write.
pub fn specials(tokenizer: &Tokenizer) -> Specials {
    let ids = tokenizer.special_ids();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).map(str::to_owned);
    let tokens = tokenizer.special_tokens().map(|(id, text)| (id, text.to_owned())).collect();
    Specials { bos: text(ids.bos()), eos: text(ids.eos()), tokens }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("file", &self.file.file())
            .field("config", &self.model.config)
            .finish_non_exhaustive()
    }
}
