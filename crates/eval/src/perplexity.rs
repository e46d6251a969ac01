//! Perplexity, as `llama-perplexity` measures it.
//!
//! The text's tokens are cut into windows, whose first token is replaced by BOS if the tokenizer adds BOS to prompts. In the
//! second half of a window, each token is scored by the logits before it. Perplexity is `exp` of the mean negative
//! log-likelihood of the scored tokens. Only one row of logits is in memory at a time.

use std::io;
use std::ops::ControlFlow;

use engine::{Engine, LogitRows};

use crate::base::Reader;
use crate::statistics::{Comparison, Sums, nll};
use crate::{Divergence, Error, Estimate, Windows};

/// A second use of the logits.
pub enum Beside<'a> {
    /// None.
    Nothing,
    /// Each row is passed to this, such as [`Writer::push`](crate::base::Writer::push).
    Rows(&'a mut dyn FnMut(&[f32]) -> io::Result<()>),
    /// Each row is compared with a base that begins with the same windows.
    Base(&'a mut Reader),
}

/// How well a model predicts a text.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Score {
    /// `exp` of `nll`.
    pub perplexity: Estimate,
    /// Mean negative log-likelihood of a scored token, in nats.
    pub nll: Estimate,
    /// The negative log-likelihood of each scored token, for paired comparisons.
    pub token_nll: Vec<f32>,
    /// How far the model is from the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divergence: Option<Divergence>,
}

/// Scores all windows on `engine`, whose context is at least a window. After each scored token it calls `progress` with the
/// number of tokens computed and, after the first window, the perplexity so far. Fails if logits are not finite.
pub fn perplexity(
    engine: &mut Engine,
    windows: &Windows,
    mut beside: Beside<'_>,
    progress: &mut dyn FnMut(usize, Option<f64>),
) -> Result<Score, Error> {
    let tokenizer = engine.model().tokenizer();
    let bos = tokenizer.bos_to_add();
    let (mut sums, mut token_nll) = (Sums::default(), Vec::new());
    let (mut comparison, mut base_row) = (Comparison::default(), Vec::new());
    let mut score = |sums: &mut Sums, logits: &[f32], next: u32| {
        let nll = nll(logits, next);
        sums.add(nll);
        token_nll.push(nll as f32);
        match &mut beside {
            Beside::Nothing => {}
            Beside::Rows(take) => take(logits)?,
            Beside::Base(reader) => {
                reader.next_row(&mut base_row)?;
                comparison.add(nll, logits, &base_row, next);
            }
        }
        Ok(())
    };
    let mut so_far = None;
    for (number, window) in windows.tokens.chunks_exact(windows.n_ctx).enumerate() {
        // No token follows the last one.
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
                None => score(&mut sums, logits, window[position + 1]),
            };
            progress(number * windows.n_ctx + position, so_far);
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        result?;
        so_far = Some(sums.mean().exp().value);
    }
    let nll = sums.mean();
    let divergence = matches!(beside, Beside::Base(_)).then(|| comparison.divergence(&sums));
    Ok(Score { perplexity: nll.exp(), nll, token_nll, divergence })
}
