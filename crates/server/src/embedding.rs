//! Texts to embed, whatever the protocol.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::client::Client;
use crate::error::ApiError;
use crate::models::{Encoder, Lease};

/// Texts of a call, at most.
pub(crate) const MAX_TEXTS: usize = 2048;

/// One text or several. Unlike [prompts](crate::prompts::Prompts), a text is never a mixture of texts and ids: what an encoder
/// adds to a text may stand at its end.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(from = "Written")]
pub(crate) struct Texts {
    texts: Vec<Text>,
    /// Whether it was given without a list.
    is_one: bool,
}

#[derive(JsonSchema)]
#[schemars(inline)]
enum Text {
    Text(String),
    Ids(Vec<u32>),
}

/// How clients write a text.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
enum Item {
    Text(String),
    Ids(Vec<u32>),
    Named { prompt_string: String },
    Parts { content: Vec<Part> },
}

/// A part of a text.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(
    untagged,
    expecting = "expected a string, token ids, an object with `prompt_string` or parts of text in `content`, or \
                               an array of them"
)]
enum Written {
    One(Item),
    Many(Vec<Item>),
}

impl From<Item> for Text {
    fn from(item: Item) -> Text {
        match item {
            Item::Text(text) | Item::Named { prompt_string: text } => Text::Text(text),
            Item::Ids(ids) => Text::Ids(ids),
            Item::Parts { content } => {
                Text::Text(content.into_iter().map(|Part::Text { text }| text).collect())
            }
        }
    }
}

impl From<Written> for Texts {
    fn from(written: Written) -> Texts {
        match written {
            Written::One(item) => Texts { texts: vec![item.into()], is_one: true },
            Written::Many(items) => {
                Texts { texts: items.into_iter().map(Text::from).collect(), is_one: false }
            }
        }
    }
}

impl Texts {
    pub(crate) fn one(text: String) -> Texts {
        Texts { texts: vec![Text::Text(text)], is_one: true }
    }

    pub(crate) fn many(texts: Vec<String>) -> Texts {
        Texts { texts: texts.into_iter().map(Text::Text).collect(), is_one: false }
    }

    /// The field of text number `n`, where `param` is that of all.
    fn place(&self, param: &'static str) -> impl Fn(usize) -> String + use<> {
        let is_one = self.is_one;
        move |n| if is_one { param.to_owned() } else { format!("{param}[{n}]") }
    }

    /// The ids of each text. Takes a while: not for the threads of the runtime.
    fn encode(self, encoder: &Encoder, place: impl Fn(usize) -> String) -> Result<Vec<Vec<u32>>, ApiError> {
        let one = |(n, text)| match text {
            Text::Text(text) => encoder.encode(&text, &place(n)),
            Text::Ids(ids) => Ok(ids),
        };
        self.texts.into_iter().enumerate().map(one).collect()
    }
}

/// Texts to embed, as a protocol reads them.
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
        if texts.texts.len() > MAX_TEXTS {
            let message = format!("`{param}` has {} texts, expected at most {MAX_TEXTS}", texts.texts.len());
            return Err(ApiError::invalid(param, message));
        }
        let admission = app.admit(client, 1)?;
        let (encoding, place, text_place) = (encoder.clone(), texts.place(param), texts.place(param));
        let texts = app.blocking(move || texts.encode(&encoding, text_place)).await??;
        let tokens = texts.iter().map(Vec::len).sum();
        admission.charge(tokens);
        Ok((encoder.embeddings(texts, place).await?, tokens))
    }
}
