//! Texts to embed, whatever the protocol.

use std::sync::Arc;

use serde::Deserialize;

use crate::app::App;
use crate::error::ApiError;
use crate::http::Client;
use crate::models::{Encoder, Lease};

/// Texts of a call, at most.
pub(crate) const MAX_TEXTS: usize = 2048;

/// One text or several, as text or as token ids. Unlike [prompts](crate::prompts::Prompts) they never mix both: what an encoder
/// adds to a text may stand at its end.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, token ids, or an array of one of them")]
pub(crate) enum Texts {
    Text(String),
    Ids(Vec<u32>),
    Many(Vec<String>),
    ManyIds(Vec<Vec<u32>>),
}

impl Texts {
    fn len(&self) -> usize {
        match self {
            Texts::Text(_) | Texts::Ids(_) => 1,
            Texts::Many(texts) => texts.len(),
            Texts::ManyIds(texts) => texts.len(),
        }
    }

    /// The field of text number `n`, where `param` is that of all.
    fn place(&self, param: &'static str) -> impl Fn(usize) -> String + use<> {
        let is_one = matches!(self, Texts::Text(_) | Texts::Ids(_));
        move |n| if is_one { param.to_owned() } else { format!("{param}[{n}]") }
    }

    /// The ids of each text. Takes a while: not for the threads of the runtime.
    fn encode(self, encoder: &Encoder, place: impl Fn(usize) -> String) -> Result<Vec<Vec<u32>>, ApiError> {
        match self {
            Texts::Text(text) => Ok(vec![encoder.encode(&text, &place(0))?]),
            Texts::Ids(ids) => Ok(vec![ids]),
            Texts::Many(texts) => {
                let one = |(n, text): (usize, &String)| encoder.encode(text, &place(n));
                texts.iter().enumerate().map(one).collect()
            }
            Texts::ManyIds(texts) => Ok(texts),
        }
    }
}

/// What a protocol reads from a call.
pub(crate) struct Embedding {
    pub(crate) texts: Texts,
    /// The field of the texts, for errors.
    pub(crate) param: &'static str,
    /// The number of values that an embedding must have.
    pub(crate) dimensions: Option<usize>,
}

impl Embedding {
    /// The embeddings, and the number of tokens. Fails if the model computes none, or others, or if the server is full.
    pub(crate) async fn compute(
        self,
        app: &Arc<App>,
        encoder: &Arc<Lease<Encoder>>,
        client: &Client,
    ) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
        let Embedding { texts, param, dimensions } = self;
        if encoder.is_reranker() {
            return Err(ApiError::unsupported("model", "this model scores documents; use /v1/rerank"));
        }
        if let Some(dimensions) = dimensions.filter(|&dimensions| dimensions != encoder.width) {
            let width = encoder.width;
            let message = format!("`dimensions` is {dimensions}, but this model's embeddings have {width}");
            return Err(ApiError::unsupported("dimensions", message));
        }
        if texts.len() > MAX_TEXTS {
            let message = format!("`{param}` has {} texts, expected at most {MAX_TEXTS}", texts.len());
            return Err(ApiError::invalid(param, message));
        }
        let share = app.place(client, 1)?;
        let (encoding, place, of_text) = (encoder.clone(), texts.place(param), texts.place(param));
        let texts = app.blocking(move || texts.encode(&encoding, of_text)).await??;
        let tokens = texts.iter().map(Vec::len).sum();
        share.charge(tokens);
        Ok((encoder.embeddings(texts, place).await?, tokens))
    }
}
