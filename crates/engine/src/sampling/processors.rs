//! What changes logits before a token is chosen.

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
