//! Texts to embed, whatever the protocol.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::fields::Group;
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

/// Whether a text that is too long is cut.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Truncation {
    /// A text that is too long is cut at its end (true, `END`) or at its start (`START`); otherwise it is an error.
    truncate: Option<Truncate>,
    /// vLLM's name: the last so many tokens count; -1 is as many as the model reads.
    truncate_prompt_tokens: Option<i64>,
}

impl Group for Truncation {}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false, \"NONE\", \"START\" or \"END\"")]
enum Truncate {
    Whether(bool),
    Side(Side),
}

/// The side of a text that is cut.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Side {
    #[serde(alias = "none")]
    None,
    #[serde(alias = "start", alias = "left", alias = "LEFT")]
    Start,
    #[serde(alias = "end", alias = "right", alias = "RIGHT")]
    End,
}

/// How texts are cut.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    Never,
    /// Their beginnings stay, of as many tokens as the model reads.
    End,
    /// Their last tokens stay, at most so many.
    Start(usize),
}

impl Truncation {
    /// Fails if both names are given, or a number is out of range.
    pub(crate) fn cut(self, default: Cut) -> Result<Cut, ApiError> {
        let name = "truncate_prompt_tokens";
        match (self.truncate, self.truncate_prompt_tokens) {
            (Some(_), Some(_)) => Err(ApiError::invalid(name, "is given with `truncate`; choose one")),
            (None, Some(-1)) => Ok(Cut::Start(usize::MAX)),
            (None, Some(found)) => match usize::try_from(found) {
                Ok(most) if most > 0 => Ok(Cut::Start(most)),
                _ => Err(ApiError::invalid(name, format!("is {found}, expected an integer from 1, or -1"))),
            },
            (None, None) => Ok(default),
            (Some(Truncate::Whether(false) | Truncate::Side(Side::None)), None) => Ok(Cut::Never),
            (Some(Truncate::Whether(true) | Truncate::Side(Side::End)), None) => Ok(Cut::End),
            (Some(Truncate::Side(Side::Start)), None) => Ok(Cut::Start(usize::MAX)),
        }
    }
}

impl Texts {
    /// The embeddings, of the first `dimensions` values if it is given, and the number of tokens. `param` is the field of the texts,
    /// for errors. Fails if the model computes none, or not so many values, or if the server is full.
    pub(crate) async fn embed(
        self,
        param: &'static str,
        dimensions: Option<usize>,
        cut: Cut,
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
        let width = dimensions.unwrap_or(encoder.width);
        if !(1..=encoder.width).contains(&width) {
            let why =
                format!("is {width}, expected 1 to {}, which this model's embeddings have", encoder.width);
            return Err(ApiError::invalid("dimensions", why));
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
                Item::Ids(ids) => return Ok(encoding.fitting(ids, cut)),
                Item::Text(text) | Item::Named { prompt_string: text } => text,
                Item::Parts { content } => content.into_iter().map(|Part::Text { text }| text).collect(),
            };
            encoding.encode(&text, cut, &place(n))
        };
        let encode_all = move || texts.into_iter().enumerate().map(encode).collect::<Result<Vec<_>, _>>();
        let texts = app.blocking(encode_all).await??;
        let tokens = texts.iter().map(Vec::len).sum();
        admission.charge(tokens);
        Ok((encoder.embeddings(texts, width, place).await?, tokens))
    }
}
