//! Errors.

use std::io;

/// Why a text cannot be scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("a window of {0} tokens has none to score; it takes 3 or more")]
    Window(usize),
    #[error(
        "the text is too short: it has {found} tokens, and {} are needed, two windows of {n_ctx}; give a longer text or \
         a smaller window",
        2 * n_ctx
    )]
    TooShort { found: usize, n_ctx: usize },
    #[error(transparent)]
    Engine(#[from] engine::Error),
    #[error("window {window}, position {position}: the logit of token {token} is {logit}")]
    NotFinite { window: usize, position: usize, token: usize, logit: f32 },
    #[error(
        "column {column} of the inputs of \"{tensor}\" has sum of squares {sum}, expected a finite number"
    )]
    Input { tensor: String, column: usize, sum: f32 },
    #[error("base {name}: {why}")]
    Base { name: String, why: String },
    #[error("cannot write the base: {0}")]
    Write(#[from] io::Error),
}
