//! Prompts that are continued as they are, without a chat template.

use std::sync::Arc;

use chat::AnswerParser;
use grammar::Source;
use serde::Deserialize;

use crate::app::App;
use crate::conversation::too_long_for;
use crate::demand::Demand;
use crate::error::{ApiError, Kind};
use crate::http::Client;
use crate::job::{Job, Parameters};
use crate::models::Served;
use crate::turn::Started;

/// Prompts of a call, at most.
pub(crate) const MAX_PROMPTS: usize = 64;

/// The prompts of a call.
#[derive(Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct Prompts(Vec<Vec<Piece>>);

/// A piece of a prompt.
#[derive(Deserialize)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Id(u32),
}

/// A text, as llama-server takes it beside pictures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    prompt_string: String,
}

/// How clients write prompts.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, token ids, or an array of them")]
enum Written {
    Text(String),
    Named(Named),
    Array(Vec<Item>),
}

/// Pieces with an id among them are one prompt. Otherwise each item is one.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected texts, token ids, or arrays of them")]
enum Item {
    Piece(Piece),
    Pieces(Vec<Piece>),
    Named(Named),
}

impl TryFrom<Written> for Prompts {
    type Error = String;

    fn try_from(written: Written) -> Result<Prompts, String> {
        let items = match written {
            Written::Text(text) | Written::Named(Named { prompt_string: text }) => {
                return Ok(Prompts::text(text));
            }
            Written::Array(items) => items,
        };
        if items.iter().any(|item| matches!(item, Item::Piece(Piece::Id(_)))) {
            let piece = |item| match item {
                Item::Piece(piece) => Ok(piece),
                Item::Pieces(_) | Item::Named(_) => {
                    Err("expected token ids either at the outer level, or within arrays")
                }
            };
            return Ok(Prompts(vec![items.into_iter().map(piece).collect::<Result<_, _>>()?]));
        }
        let prompt = |item| match item {
            Item::Piece(piece) => vec![piece],
            Item::Pieces(pieces) => pieces,
            Item::Named(Named { prompt_string }) => vec![Piece::Text(prompt_string)],
        };
        match items.len() {
            0 => Err("it is empty; expected at least one prompt".into()),
            1..=MAX_PROMPTS => Ok(Prompts(items.into_iter().map(prompt).collect())),
            found => Err(format!("it has {found} prompts, expected at most {MAX_PROMPTS}")),
        }
    }
}

impl Prompts {
    /// One prompt of these tokens.
    pub(crate) fn ids(ids: Vec<u32>) -> Prompts {
        Prompts(vec![ids.into_iter().map(Piece::Id).collect()])
    }

    /// One text.
    pub(crate) fn text(text: String) -> Prompts {
        Prompts(vec![vec![Piece::Text(text)]])
    }
}

/// The ids of a prompt, with BOS if it begins with a text and the file says so. Takes a while: not for the threads of the
/// runtime.
fn encode(prompt: Vec<Piece>, served: &Served) -> Result<Vec<u32>, ApiError> {
    let bytes = |piece: &Piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Id(_) => 0,
    };
    too_long_for(served, prompt.iter().map(bytes).sum())?;
    let inner = tokenizer::Encode { add_special: false, parse_special: true };
    let mut ids = Vec::new();
    for (place, piece) in prompt.into_iter().enumerate() {
        match piece {
            Piece::Id(id) => ids.push(id),
            Piece::Text(text) if place == 0 => ids = served.model.encode_prompt(&text, true),
            Piece::Text(text) => ids.extend(served.model.tokenizer().encode(&text, inner)),
        }
    }
    Ok(ids)
}

/// Prompts to continue, as a protocol reads them from a call.
pub(crate) struct Continuation {
    pub(crate) prompts: Prompts,
    /// Among them the number of answers to each prompt.
    pub(crate) parameters: Parameters,
    /// What each answer must be, and the field that asks for it.
    pub(crate) format: Option<(&'static str, Source)>,
    /// The number of most likely tokens to return with each token of the prompts.
    pub(crate) prompt_logprobs: Option<usize>,
}

impl Continuation {
    /// Encodes the prompts and submits them. Fails if the server is full, or if the engine refuses one.
    pub(crate) async fn start(
        self,
        app: &Arc<App>,
        served: &Arc<Served>,
        client: &Client,
    ) -> Result<Started, ApiError> {
        let Continuation { prompts, parameters, format, prompt_logprobs } = self;
        let n = prompts.0.len() * parameters.params.n;
        let place = app.place(client, n)?;
        let encoding = served.clone();
        let params = parameters.params.clone();
        let prompts = app
            .blocking(move || {
                encoding.model.prepare(&params);
                let ids = prompts.0.into_iter().map(|prompt| encode(prompt, &encoding));
                ids.collect::<Result<Vec<_>, _>>()
            })
            .await??;
        let processors = match format {
            None => Vec::new(),
            Some((param, source)) => {
                let demand = Demand::Content { param, source, preamble: None };
                let compiling = served.clone();
                vec![app.compiling(move || demand.processor(&compiling)).await??]
            }
        };
        let jobs = prompts.iter().map(|prompt| {
            let processors = processors.clone();
            let request = engine::Request { processors, ..parameters.request(prompt.clone(), client) };
            Job::choices(request, &parameters)
        });
        let of_prompt = |error: ApiError| match error.kind {
            Kind::TooLong { .. } => ApiError { param: Some("prompt".into()), ..error },
            _ => error,
        };
        let job = Job::all(jobs, prompt_logprobs);
        let parsers = (0..n).map(|_| AnswerParser::plain()).collect();
        Started::submit(job, prompts, parsers, place, served).await.map_err(of_prompt)
    }
}
