//! The windows of a text.

use std::ops::Range;

use crate::Error;

/// A text's tokens, cut into windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Tokens per window, at least 3.
    pub(crate) n_ctx: usize,
    pub(crate) n_vocab: usize,
    /// The tokens of complete windows.
    pub(crate) tokens: Vec<u32>,
}

impl Windows {
    /// The complete windows of `n_ctx` tokens of a text. Fails if there are fewer than two, or a window has no token to score.
    pub fn new(mut tokens: Vec<u32>, n_ctx: usize, n_vocab: usize) -> Result<Windows, Error> {
        if n_ctx < 3 {
            return Err(Error::Window(n_ctx));
        }
        let windows = tokens.len() / n_ctx;
        if windows < 2 {
            return Err(Error::TooShort { found: tokens.len(), n_ctx });
        }
        tokens.truncate(windows * n_ctx);
        Ok(Windows { n_ctx, n_vocab, tokens })
    }

    /// The first `most` windows.
    pub fn limited(mut self, most: usize) -> Windows {
        self.tokens.truncate(most.saturating_mul(self.n_ctx));
        self
    }

    /// Number of windows.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> usize {
        self.tokens.len() / self.n_ctx
    }

    /// Tokens per window.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// The tokens of all windows.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The positions of a window whose logits are scored, each by the next token: the second half, except the last.
    pub fn positions(&self) -> Range<usize> {
        self.n_ctx / 2..self.n_ctx - 1
    }
}
