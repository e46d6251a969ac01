//! What keeps a text from being scored.

use std::io;

/// Why a text cannot be scored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A window without a token to score.
    #[error("a window of {n_ctx} tokens has none to score; it takes 3 or more")]
    Window {
        /// Tokens a window.
        n_ctx: usize,
    },
    /// Fewer tokens than two windows.
    #[error(
        "the text is too short: it has {found} tokens, and {} are needed, two windows of {n_ctx}; give a longer text or \
         a smaller window",
        2 * n_ctx
    )]
    TooShort {
        /// Tokens of the text.
        found: usize,
        /// Tokens a window.
        n_ctx: usize,
    },
    /// The engine cannot compute a window.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A logit that is NaN or infinite.
    #[error("window {window}, position {position}: the logit of token {token} is {logit}")]
    NotFinite {
        /// The window, counted from 1.
        window: usize,
        /// The position in it, from 0.
        position: usize,
        /// The token.
        token: usize,
        /// Its logit.
        logit: f32,
    },
    /// The base cannot be read, or is of another model or text.
    #[error("base {name}: {source}")]
    Base {
        /// Its file.
        name: String,
        /// What is wrong.
        source: BaseError,
    },
    /// The base cannot be written.
    #[error("cannot write the base: {0}")]
    Write(#[from] io::Error),
}

/// Why a file cannot serve as a base.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseError {
    /// It cannot be read.
    #[error("cannot read it: {0}")]
    Read(#[from] io::Error),
    /// A folder, pipe or device.
    #[error("no file of log-probabilities: it is no regular file")]
    Kind,
    /// It does not begin with [`MAGIC`](crate::base::MAGIC).
    #[error("no file of log-probabilities: it does not begin with `_logits_`")]
    Magic,
    /// A size that no base has.
    #[error("{field} is {found}, expected at least {least}")]
    Size {
        /// `n_ctx`, `n_vocab` or `n_chunk`.
        field: &'static str,
        /// What the file says.
        found: i64,
        /// What it has to say.
        least: i64,
    },
    /// It has another length than its sizes say.
    #[error(
        "it has {found} bytes, but {n_chunk} windows of {n_ctx} tokens and a vocabulary of {n_vocab} take {expected}; \
         it was cut short or is damaged"
    )]
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes of such a file.
        expected: u128,
        /// Windows.
        n_chunk: i64,
        /// Tokens a window.
        n_ctx: i64,
        /// Tokens of the vocabulary.
        n_vocab: i64,
    },
    /// An id beyond the vocabulary.
    #[error("token {at} is {id}, but its vocabulary has {n_vocab} tokens")]
    Token {
        /// Its place in the text.
        at: usize,
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        n_vocab: usize,
    },
    /// A row that holds no log-probabilities.
    #[error(
        "row {row} has scale {scale} and minimum {min}, expected log-probabilities: finite, the scale not negative, none \
         above 0"
    )]
    Row {
        /// The row, from 0.
        row: usize,
        /// Its scale.
        scale: f32,
        /// Its minimum.
        min: f32,
    },
    /// A base of a model with another vocabulary.
    #[error(
        "it is of a model with {found} tokens, this one's vocabulary has {n_vocab}; only models of one vocabulary can \
         be compared"
    )]
    Vocabulary {
        /// Tokens of the base's vocabulary.
        found: usize,
        /// Tokens of the model's.
        n_vocab: usize,
    },
    /// A base of windows of another length.
    #[error("it has windows of {found} tokens, not {n_ctx}")]
    Window {
        /// Tokens a window of the base.
        found: usize,
        /// Tokens that were asked for.
        n_ctx: usize,
    },
    /// A base of another text.
    #[error("it is of another text: token {at} is the first to differ")]
    Text {
        /// The token's place.
        at: usize,
    },
}
