//! From logits to a token.
//!
//! First the logits change: by [`Sampling::logit_bias`], then by the [`Processor`]s of the request. Then the samplers run on
//! the tokens that are left, in the order of [`Sampling::samplers`], and one token is drawn. At temperature 0 no sampler
//! drops a token: the one with the largest logit after processors and penalties is chosen, the lowest id among equals.

mod chain;
mod dry;
mod mirostat;
mod parameters;
mod penalties;
mod processors;
#[cfg(test)]
mod tests;

use backend::{arg_max, log_sum_exp, top_log_probabilities};

use tokenizer::Tokenizer;

use crate::candidates::Candidate;
use crate::random::{SplitMix64, random_seed};
use chain::Chain;
use processors::Bias;

pub use chain::{SamplerKind, UnknownSampler};
pub use parameters::{Dry, DynamicTemperature, Mirostat, MirostatVersion, Sampling, Xtc};
pub use processors::Processor;

/// Why no token can be sampled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A parameter outside its range.
    #[error("sampling parameter `{name}` is {value}, expected {expected}")]
    Parameter {
        /// The field of [`Sampling`].
        name: &'static str,
        /// What it holds.
        value: f32,
        /// What it may hold.
        expected: &'static str,
    },
    /// A sequence breaker of DRY that is empty or too long.
    #[error("sampling parameter `dry.sequence_breakers` has a text of {bytes} bytes, expected 1 to 40")]
    SequenceBreaker {
        /// Its length.
        bytes: usize,
    },
    /// A bias for a token that is not in the vocabulary.
    #[error("logit_bias names token {token}, but the vocabulary has {n_vocab} tokens")]
    Bias {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// The model computed something that is no logit.
    #[error("the logit of token {token} is {value}: the weights are damaged or the computation overflowed")]
    Logit {
        /// The token.
        token: usize,
        /// NaN or plus infinity.
        value: f32,
    },
    /// Every token is ruled out.
    #[error("no token is possible: every logit is minus infinity{}", if *.biased { " after logit_bias" } else { "" })]
    NoToken {
        /// Whether a bias was added.
        biased: bool,
    },
    /// A processor has ruled out every token.
    #[error("no token is possible: a processor of the request, such as its grammar, has ruled out every one")]
    RuledOut,
}

/// Log-probabilities of a token and of those that could have come in its place: natural logarithms, by the model's own
/// logits, before processors, filters and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// That of the token.
    pub token: f32,
    /// The most likely tokens, as many as were asked for, the most likely first and the lower id of equals; none that
    /// is impossible.
    pub top: Vec<(u32, f32)>,
}

impl Logprobs {
    /// Those of `token` and of the `top` most likely, by `logits`, one a token of the vocabulary and none NaN.
    pub(crate) fn new(logits: &[f32], token: u32, top: usize) -> Logprobs {
        let logit = logits.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| f64::from(logit));
        let total = log_sum_exp(logits);
        Logprobs { token: (logit - total) as f32, top: top_log_probabilities(logits, total, top) }
    }
}

/// Draws the tokens of one request.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    seed: u32,
    random: SplitMix64,
    processors: Vec<Box<dyn Processor>>,
    /// How many of them the request has brought, the last ones.
    brought: usize,
    chain: Chain,
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler that has drawn nothing yet, for the vocabulary of `tokenizer`.
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn new(sampling: Sampling, tokenizer: &Tokenizer) -> Result<Sampler, SamplingError> {
        sampling.check()?;
        let seed = sampling.seed.filter(|seed| *seed != u32::MAX).unwrap_or_else(random_seed);
        let random = SplitMix64::new(u64::from(seed));
        let mut processors: Vec<Box<dyn Processor>> = Vec::new();
        if !sampling.logit_bias.is_empty() {
            processors.push(Box::new(Bias(sampling.logit_bias.clone())));
        }
        let chain = Chain::new(&sampling, seed, tokenizer);
        let (logits, candidates) = (Vec::new(), Vec::new());
        Ok(Sampler { sampling, seed, random, processors, brought: 0, chain, logits, candidates })
    }

    /// The same with further processors, which come after the bias and before the samplers.
    pub fn with(mut self, processors: Vec<Box<dyn Processor>>) -> Sampler {
        self.brought += processors.len();
        self.processors.extend(processors);
        self
    }

    /// The seed in use.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// Whether every token is the one with the largest logit, as a device can choose it.
    pub fn is_greedy(&self) -> bool {
        self.chain.is_argmax() && self.processors.is_empty()
    }

    /// Chooses the token after `tokens` (prompt and generated ones) from `logits`, one a token of the
    /// vocabulary. Every call draws one random number, so a seed's draws stay in step.
    ///
    /// # Errors
    /// When a logit is NaN or plus infinity, when all are minus infinity, or when a bias names no token.
    pub fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, SamplingError> {
        let u = self.random.next_f64();
        check_logits(logits)?;
        let n_vocab = logits.len();
        if let Some(&(token, _)) = self.sampling.logit_bias.iter().find(|(id, _)| *id as usize >= n_vocab) {
            return Err(SamplingError::Bias { token, n_vocab });
        }
        let processed = if self.processors.is_empty() {
            logits
        } else {
            self.logits.clear();
            self.logits.extend_from_slice(logits);
            self.processors.iter_mut().for_each(|processor| processor.apply(tokens, &mut self.logits));
            &self.logits
        };
        let chosen = match self.chain.is_argmax() {
            true => arg_max(processed),
            false => self.chain.choose(processed, tokens, u, &mut self.candidates),
        };
        chosen.ok_or_else(|| match arg_max(logits) {
            Some(_) if self.brought > 0 => SamplingError::RuledOut,
            _ => SamplingError::NoToken { biased: !self.sampling.logit_bias.is_empty() },
        })
    }
}

fn check_logits(logits: &[f32]) -> Result<(), SamplingError> {
    match logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        Some(token) => Err(SamplingError::Logit { token, value: logits[token] }),
        None => Ok(()),
    }
}
