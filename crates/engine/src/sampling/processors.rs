//! What changes logits before a token is chosen.

use std::collections::HashMap;
use std::fmt;

/// Changes the logits of a row before a token is chosen from them: a bias, a penalty, the mask of a grammar.
///
/// A processor belongs to one request and may keep state. It is asked once for each token that is chosen, in order; a
/// request that is preempted goes on with the state that it had.
pub trait Processor: fmt::Debug + Send {
    /// Changes `logits`, one a token of the vocabulary, of what comes after `tokens`, prompt and generated ones.
    /// Minus infinity rules a token out.
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]);

    /// A copy in the same state, for a copy of its request.
    fn boxed_clone(&self) -> Box<dyn Processor>;
}

impl Clone for Box<dyn Processor> {
    fn clone(&self) -> Box<dyn Processor> {
        self.boxed_clone()
    }
}

/// Adds to the logits of some tokens; what is not in the vocabulary is passed over.
#[derive(Clone, Debug)]
pub(super) struct Bias(pub(super) Vec<(u32, f32)>);

impl Processor for Bias {
    fn apply(&mut self, _: &[u32], logits: &mut [f32]) {
        for &(token, bias) in &self.0 {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = (*logit + bias).min(f32::MAX);
            }
        }
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

/// Keskar et al. 2019 (CTRL) for the repeat penalty, with negative logits multiplied so that they
/// fall too; the other two as OpenAI's API defines them.
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
    /// None where they would change nothing.
    pub(super) fn new([repeat, frequency, presence]: [f32; 3], last_n: usize) -> Option<Penalties> {
        let is_off = (repeat, frequency, presence) == (1.0, 0.0, 0.0) || last_n == 0;
        (!is_off).then(|| Penalties { repeat, frequency, presence, last_n, counts: HashMap::new() })
    }
}

impl Processor for Penalties {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        self.counts.clear();
        for &token in &tokens[tokens.len().saturating_sub(self.last_n)..] {
            *self.counts.entry(token).or_default() += 1;
        }
        for (&token, &count) in &self.counts {
            // A token that is ruled out stays so whatever the penalties are.
            let logit = logits.get_mut(token as usize).filter(|logit| **logit > f32::NEG_INFINITY);
            if let Some(logit) = logit {
                *logit = if *logit <= 0.0 { *logit * self.repeat } else { *logit / self.repeat };
                *logit = (*logit - (count as f32 * self.frequency + self.presence)).min(f32::MAX);
            }
        }
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}
