//! Errors.

use std::io;

/// Why a text cannot be scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A window of so many tokens has none to score.
    #[error("a window of {0} tokens has none to score; it takes 3 or more")]
    Window(usize),
    /// The text has fewer tokens than two windows.
    #[error(
        "the text is too short: it has {found} tokens, and {} are needed, two windows of {n_ctx}; give a longer text or \
         a smaller window",
        2 * n_ctx
    )]
    #[expect(missing_docs, reason = "the message says it")]
    TooShort { found: usize, n_ctx: usize },
    /// The engine cannot compute a window.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A logit is NaN or infinite. Windows are counted from 1, positions in them from 0.
    #[error("window {window}, position {position}: the logit of token {token} is {logit}")]
    #[expect(missing_docs, reason = "the message says it")]
    NotFinite { window: usize, position: usize, token: usize, logit: f32 },
    /// The inputs of a matrix are not finite, or too large.
    #[error(
        "column {column} of the inputs of \"{tensor}\" has sum of squares {sum}, expected a finite number"
    )]
    #[expect(missing_docs, reason = "the message says it")]
    Input { tensor: String, column: usize, sum: f32 },
    /// The base of this name cannot be read, is damaged, or is of another model or text.
    #[error("base {name}: {why}")]
    #[expect(missing_docs, reason = "the message says it")]
    Base { name: String, why: String },
    /// The base cannot be written.
    #[error("cannot write the base: {0}")]
    Write(#[from] io::Error),
}
