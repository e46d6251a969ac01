//! Penalties of tokens that occurred before.

use std::collections::HashMap;

use super::Sampling;
use crate::candidates::{self, Candidate};

/// Keskar et al. 2019 (CTRL) for the repeat penalty, with negative logits multiplied so that they fall too; the other two as
/// OpenAI's API defines them.
#[derive(Clone, Debug)]
pub(super) struct Penalties {
    repeat: f32,
    frequency: f32,
    presence: f32,
    /// How many of the last tokens are looked at.
    last_n: usize,
    counts: HashMap<u32, u32>,
}

impl Penalties {
    /// `None` if they would change nothing.
    pub(super) fn new(sampling: &Sampling) -> Option<Penalties> {
        let Sampling { repeat_penalty: repeat, frequency_penalty: frequency, .. } = *sampling;
        let (presence, last_n) = (sampling.presence_penalty, sampling.penalty_last_n);
        let is_off = (repeat, frequency, presence) == (1.0, 0.0, 0.0) || last_n == 0;
        (!is_off).then(|| Penalties { repeat, frequency, presence, last_n, counts: HashMap::new() })
    }

    pub(super) fn apply(&mut self, tokens: &[u32], kept: &mut [Candidate]) {
        self.counts.clear();
        for &token in &tokens[tokens.len().saturating_sub(self.last_n)..] {
            *self.counts.entry(token).or_default() += 1;
        }
        candidates::change(kept, &self.counts, |logit, &count| {
            let logit = if logit <= 0.0 { logit * self.repeat } else { logit / self.repeat };
            logit - (count as f32 * self.frequency + self.presence)
        });
    }
}
