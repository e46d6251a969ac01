//! Mirostat (Basu et al. 2020, "Mirostat: a neural text decoding algorithm that directly controls perplexity").

use crate::candidates::{self, Candidate};
use crate::params::Params;

/// Number of most probable tokens from which version 1 estimates the exponent of Zipf's law.
const MOST_PROBABLE: usize = 100;

#[derive(Clone, Debug)]
pub(super) struct MirostatState {
    version: usize,
    /// Target surprise in bits.
    tau: f64,
    /// Learning rate.
    eta: f64,
    /// The maximum surprise in bits.
    mu: f64,
}

impl MirostatState {
    /// None if it is off.
    pub(super) fn new(params: &Params) -> Option<MirostatState> {
        let (tau, eta) = (f64::from(params.mirostat_tau), f64::from(params.mirostat_eta));
        (params.mirostat > 0).then_some(MirostatState { version: params.mirostat, tau, eta, mu: 2.0 * tau })
    }

    /// Drops tokens that are too surprising, but keeps at least one.
    pub(super) fn truncate(&self, kept: &mut Vec<Candidate>, n_vocab: usize) {
        candidates::sort_by_logit(kept);
        let (weights, total) = candidates::weights(kept);
        let most = if self.version == 1 {
            self.most_by_zipf(&weights, n_vocab)
        } else {
            weights.iter().take_while(|&weight| -(weight / total).log2() <= self.mu).count()
        };
        kept.truncate(most.max(1));
    }

    /// Number of most probable tokens that give the expected surprise by Zipf's law, with an estimated exponent.
    fn most_by_zipf(&self, weights: &[f64], n_vocab: usize) -> usize {
        let (mut products, mut squares) = (0.0, 0.0);
        for (i, pair) in weights.windows(2).take(MOST_PROBABLE - 1).enumerate() {
            let t = ((i + 2) as f64 / (i + 1) as f64).ln();
            products += t * (pair[0] / pair[1]).ln();
            squares += t * t;
        }
        let s = products / squares;
        let epsilon = s - 1.0;
        let k = epsilon * self.mu.exp2() / (1.0 - (n_vocab as f64).powf(-epsilon));
        k.powf(1.0 / s) as usize
    }

    /// Updates the maximum surprise, given the probability of the drawn token.
    pub(super) fn observe(&mut self, probability: f64) {
        let error = -probability.log2() - self.tau;
        self.mu -= self.eta * error;
    }
}
