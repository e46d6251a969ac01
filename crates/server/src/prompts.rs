//! Prompts that are continued as they are, as clients write them.

use rustorch::{Input, PromptPiece, Request};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::infill::Marks;

/// Prompts of a call, at most.
pub(crate) const MAX_PROMPTS: usize = 64;

/// The prompts of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub(crate) struct Prompts(Vec<Vec<PromptPiece>>);

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
            let pieces = items.into_iter().map(piece).collect::<Result<Vec<_>, _>>()?;
            return Ok(Prompts::pieces(read(pieces)));
        }
        let prompt = |item| match item {
            Item::Piece(piece) => vec![piece],
            Item::Pieces(pieces) => pieces,
            Item::Named(Named { prompt_string }) => vec![Piece::Text(prompt_string)],
        };
        match items.len() {
            0 => Err("it is empty; expected at least one prompt".into()),
            1..=MAX_PROMPTS => Ok(Prompts(items.into_iter().map(prompt).map(read).collect())),
            found => Err(format!("it has {found} prompts, expected at most {MAX_PROMPTS}")),
        }
    }
}

/// In these protocols, names of special tokens in a text become these tokens.
fn read(pieces: Vec<Piece>) -> Vec<PromptPiece> {
    let read = |piece| match piece {
        Piece::Text(text) => PromptPiece::Text { text, parse_special: true },
        Piece::Id(id) => PromptPiece::Tokens(vec![id]),
    };
    pieces.into_iter().map(read).collect()
}

impl Prompts {
    /// A request like `request` for each.
    pub(crate) fn requests(self, request: &Request) -> Vec<Request> {
        let request = |pieces| Request { input: Input::Prompt(pieces), ..request.clone() };
        self.0.into_iter().map(request).collect()
    }

    /// One prompt of these pieces.
    pub(crate) fn pieces(pieces: Vec<PromptPiece>) -> Prompts {
        Prompts(vec![pieces])
    }

    /// One text.
    pub(crate) fn text(text: String) -> Prompts {
        Prompts::pieces(read(vec![Piece::Text(text)]))
    }

    /// The prompts for the text between each of these and `suffix`. Names of special tokens in them are text.
    pub(crate) fn before(mut self, suffix: &str, marks: &Marks) -> Prompts {
        for prompt in &mut self.0 {
            for piece in prompt.iter_mut() {
                if let PromptPiece::Text { parse_special, .. } = piece {
                    *parse_special = false;
                }
            }
            *prompt = marks.prompt(Vec::new(), std::mem::take(prompt), suffix);
        }
        self
    }
}
