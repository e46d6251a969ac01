//! A text in windows.

use std::ops::Range;

use crate::Error;

/// A text's tokens in windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Tokens a window, 3 at least.
    pub(crate) n_ctx: usize,
    /// Tokens of the vocabulary.
    pub(crate) n_vocab: usize,
    /// The text's tokens, whole windows.
    pub(crate) tokens: Vec<u32>,
}

impl Windows {
    /// The whole windows of `n_ctx` tokens of a text, of a vocabulary of `n_vocab` tokens.
    ///
    /// # Errors
    /// When there are less than two, or a window has no token to score.
    pub fn new(mut tokens: Vec<u32>, n_ctx: usize, n_vocab: usize) -> Result<Windows, Error> {
        if n_ctx < 3 {
            return Err(Error::Window { n_ctx });
        }
        let windows = tokens.len() / n_ctx;
        if windows < 2 {
            return Err(Error::TooShort { found: tokens.len(), n_ctx });
        }
        tokens.truncate(windows * n_ctx);
        Ok(Windows { n_ctx, n_vocab, tokens })
    }

    /// The first `most` of them.
    pub fn limited(mut self, most: usize) -> Windows {
        self.tokens.truncate(most.saturating_mul(self.n_ctx));
        self
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.tokens.len() / self.n_ctx
    }

    /// Tokens a window.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// The tokens of all of them.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The positions of a window whose logits are scored, each by the token after it: of the second half all but the
    /// last.
    pub fn positions(&self) -> Range<usize> {
        self.n_ctx / 2..self.n_ctx - 1
    }
}
