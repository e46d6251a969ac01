//! Prompts that are continued as they are, as clients write them.

use rustorch::{Input, Request};
use schemars::JsonSchema;
use serde::Deserialize;

/// Prompts of a call, at most.
pub(crate) const MAX_PROMPTS: usize = 64;

/// The prompts of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
pub(crate) struct Prompts(Vec<Vec<Piece>>);

/// A piece of a prompt.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Piece {
    Text(String),
    Id(u32),
}

/// A text, as llama-server takes it beside pictures.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Named {
    prompt_string: String,
}

/// How clients write prompts.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, token ids, or an array of them")]
enum Written {
    Text(String),
    Named(Named),
    Array(Vec<Item>),
}

/// Pieces with an id among them are one prompt. Otherwise each item is one.
#[derive(Deserialize, JsonSchema)]
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
    /// A request like `request` for each. In these protocols, names of special tokens in a text become these tokens.
    pub(crate) fn requests(self, request: &Request) -> Vec<Request> {
        let piece = |piece| match piece {
            Piece::Text(text) => rustorch::PromptPiece::Text { text, parse_special: true },
            Piece::Id(id) => rustorch::PromptPiece::Tokens(vec![id]),
        };
        let input = |pieces: Vec<Piece>| Input::Prompt(pieces.into_iter().map(piece).collect());
        self.0.into_iter().map(|pieces| Request { input: input(pieces), ..request.clone() }).collect()
    }

    /// One prompt of these tokens.
    pub(crate) fn ids(ids: Vec<u32>) -> Prompts {
        Prompts(vec![ids.into_iter().map(Piece::Id).collect()])
    }

    /// One text.
    pub(crate) fn text(text: String) -> Prompts {
        Prompts(vec![vec![Piece::Text(text)]])
    }
}
