//! Perplexity, as `llama-perplexity` measures it.
//!
//! The text's tokens are cut into windows; the first token of each is replaced by BOS where the tokenizer puts one before
//! a prompt. In the second half of a window each token is scored by the logits before it. Perplexity is `exp` of the mean
//! negative log-likelihood of the scored tokens. No more than a row of logits is held at a time.

use std::io;
use std::ops::ControlFlow;

use engine::{Engine, LogitRows};

use crate::base::Reader;
use crate::statistics::{Comparison, Likelihood};
use crate::{Divergence, Error, Estimate, Windows};

/// What logits are for, besides the perplexity.
pub enum Beside<'a> {
    /// Nothing.
    Nothing,
    /// They are given to this, such as [`Writer::push`](crate::base::Writer::push), which may refuse them.
    Rows(&'a mut dyn FnMut(&[f32]) -> io::Result<()>),
    /// They are compared with a base, which is of the same windows or begins with them.
    Base(&'a mut Reader),
}

/// How well a model predicts a text.
#[derive(Clone, Debug)]
pub struct Score {
    /// `exp` of `nll`.
    pub perplexity: Estimate,
    /// Mean negative log-likelihood of a scored token, in nats.
    pub nll: Estimate,
    /// That of each scored token, for paired comparisons.
    pub token_nll: Vec<f32>,
    /// How far the model is from the base.
    pub divergence: Option<Divergence>,
}

/// Runs all windows on `engine`, whose context has room for one. After each scored token `progress` is called with the
/// tokens that are done and, after the first window, the perplexity so far.
///
/// # Errors
/// When the engine cannot compute a window, logits are not finite, or the base cannot be read or written.
pub fn perplexity(
    engine: &mut Engine,
    windows: &Windows,
    beside: Beside<'_>,
    progress: &mut dyn FnMut(usize, Option<f64>),
) -> Result<Score, Error> {
    let tokenizer = engine.model().tokenizer();
    let bos = tokenizer.special_ids().bos.filter(|_| tokenizer.adds_bos());
    let (likelihood, comparison) = (Likelihood::default(), Comparison::default());
    let mut scoring = Scoring { likelihood, comparison, token_nll: Vec::new(), beside, base_row: Vec::new() };
    let mut so_far = None;
    for (number, window) in windows.tokens.chunks_exact(windows.n_ctx).enumerate() {
        // What follows the last token is not known.
        let mut tokens = window[..window.len() - 1].to_vec();
        if let Some(bos) = bos {
            tokens[0] = bos;
        }
        let mut result = Ok(());
        engine.logits(&tokens, LogitRows::From(windows.positions().start), |position, logits| {
            result = match logits.iter().position(|logit| !logit.is_finite()) {
                Some(token) => {
                    let (window, logit) = (number + 1, logits[token]);
                    Err(Error::NotFinite { window, position, token, logit })
                }
                None => scoring.add(logits, window[position + 1]),
            };
            progress(number * windows.n_ctx + position, so_far);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
        so_far = Some(scoring.likelihood.perplexity().value);
    }
    Ok(scoring.finish())
}

/// Sums over scored positions.
struct Scoring<'a> {
    likelihood: Likelihood,
    comparison: Comparison,
    token_nll: Vec<f32>,
    beside: Beside<'a>,
    base_row: Vec<f32>,
}

impl Scoring<'_> {
    /// Takes the logits of a scored position and the token after it.
    fn add(&mut self, logits: &[f32], next: u32) -> Result<(), Error> {
        let nll = self.likelihood.add(logits, next);
        self.token_nll.push(nll as f32);
        match &mut self.beside {
            Beside::Nothing => {}
            Beside::Rows(take) => take(logits)?,
            Beside::Base(reader) => {
                reader.next_row(&mut self.base_row)?;
                self.comparison.add(nll, logits, &self.base_row, next);
            }
        }
        Ok(())
    }

    fn finish(self) -> Score {
        let has_base = matches!(self.beside, Beside::Base(_));
        let divergence = has_base.then(|| self.comparison.divergence(&self.likelihood));
        let (perplexity, nll) = (self.likelihood.perplexity(), self.likelihood.mean());
        Score { perplexity, nll, token_nll: self.token_nll, divergence }
    }
}
