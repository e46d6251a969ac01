//! Texts to embed, whatever the protocol.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::keys::Client;
use crate::models::{Encoder, Lease};

pub(crate) const MAX_TEXTS: usize = 2048;

/// One text or several. Unlike a [prompt](crate::prompts::Prompts), a text never mixes texts and ids: an encoder may append tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a string, token ids, an object with `prompt_string` or parts of text in `content`, or \
                               an array of them"
)]
pub(crate) enum Texts {
    One(Item),
    Many(Vec<Item>),
}

/// How clients write a text.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Item {
    Text(String),
    Ids(Vec<u32>),
    Named { prompt_string: String },
    Parts { content: Vec<Part> },
}

/// A part of a text.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    Text { text: String },
}

impl Texts {
    /// The embeddings, and the number of tokens. `param` is the field of the texts, for errors. Fails if the model computes none, or
    /// not of so many `dimensions`, or if the server is full.
    pub(crate) async fn embed(
        self,
        param: &'static str,
        dimensions: Option<usize>,
        encoder: &Arc<Lease<Arc<Encoder>>>,
        app: &Arc<App>,
        client: &Client,
    ) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
        let (texts, is_one) = match self {
            Texts::One(text) => (vec![text], true),
            Texts::Many(texts) => (texts, false),
        };
        if encoder.is_reranker() {
            let message = "this model scores documents; use /v1/rerank";
            return Err(ApiError::new(Kind::Unsupported, message).at("model"));
        }
        if let Some(dimensions) = dimensions.filter(|&dimensions| dimensions != encoder.width) {
            let why = format!("is {dimensions}, but this model's embeddings have {}", encoder.width);
            return Err(ApiError::unsupported("dimensions", why));
        }
        if texts.len() > MAX_TEXTS {
            let why = format!("has {} texts, expected at most {MAX_TEXTS}", texts.len());
            return Err(ApiError::invalid(param, why));
        }
        let admission = app.admit(client, 1)?;
        let place = move |n| if is_one { param.to_owned() } else { format!("{param}[{n}]") };
        let encoding = encoder.clone();
        let encode = move |(n, text)| {
            let text = match text {
                Item::Ids(ids) => return Ok(ids),
                Item::Text(text) | Item::Named { prompt_string: text } => text,
                Item::Parts { content } => content.into_iter().map(|Part::Text { text }| text).collect(),
            };
            encoding.encode(&text, &place(n))
        };
        let encode_all = move || texts.into_iter().enumerate().map(encode).collect::<Result<Vec<_>, _>>();
        let texts = app.blocking(encode_all).await??;
        let tokens = texts.iter().map(Vec::len).sum();
        admission.charge(tokens);
        Ok((encoder.embeddings(texts, place).await?, tokens))
    }
}
