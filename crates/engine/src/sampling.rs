//! From logits to a token.
//!
//! The order is that of llama.cpp's default chain: logit bias, penalties, top-k, typical-p, top-p,
//! min-p, temperature, draw. At temperature 0 the filters have no say: the token is the one with the
//! highest biased and penalised logit, the lowest id among equals.

use std::collections::HashMap;

use crate::candidates::{self, Candidate};
use crate::random::{SplitMix64, random_seed};

#[cfg(test)]
mod tests;

/// The largest penalty: far above every sensible one, far below what turns a logit into an infinity.
const MAX_PENALTY: f32 = 1e6;

/// How a request's tokens are chosen. The defaults are llama.cpp's.
///
/// ```
/// use engine::Sampling;
/// let sampling = Sampling { temperature: 0.7, seed: Some(42), ..Sampling::default() };
/// # let _ = sampling;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by before the draw; 0 or less takes the most probable token.
    pub temperature: f32,
    /// Keep the `top_k` most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the tokens nearest to the entropy up to this probability; 1 keeps all.
    pub typical_p: f32,
    /// Keep the most probable tokens up to this probability; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least `min_p` times as probable as the best; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen before; 1 is off. From 1e-6 to
    /// 1e6.
    pub repeat_penalty: f32,
    /// Taken from a token's logit for each time it was seen; 0 is off. From -1e6 to 1e6.
    pub frequency_penalty: f32,
    /// Taken from a token's logit when it was seen; 0 is off. From -1e6 to 1e6.
    pub presence_penalty: f32,
    /// How many of the last tokens, prompt included, the three penalties look at; 0 is none.
    pub penalty_last_n: usize,
    /// Added to the logits of these tokens; minus infinity bans one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the draws. `None` and `0xFFFF_FFFF` stand for a random one, which
    /// [`Usage::seed`](crate::Usage::seed) reports.
    pub seed: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.8,
            top_k: 40,
            typical_p: 1.0,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_last_n: 64,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

impl Sampling {
    /// The most probable token, always.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    fn check(&self) -> Result<(), SamplingError> {
        let probability = |value: f32| ((0.0..=1.0).contains(&value), "a number from 0 to 1");
        let penalty = |value: f32| (value.abs() <= MAX_PENALTY, "a number from -1000000 to 1000000");
        let factor = |value: f32| {
            ((1.0 / MAX_PENALTY..=MAX_PENALTY).contains(&value), "a number from 0.000001 to 1000000")
        };
        let finite = |value: f32| (value.is_finite(), "a finite number");
        let checks = [
            ("temperature", self.temperature, finite(self.temperature)),
            ("typical_p", self.typical_p, probability(self.typical_p)),
            ("top_p", self.top_p, probability(self.top_p)),
            ("min_p", self.min_p, probability(self.min_p)),
            ("repeat_penalty", self.repeat_penalty, factor(self.repeat_penalty)),
            ("frequency_penalty", self.frequency_penalty, penalty(self.frequency_penalty)),
            ("presence_penalty", self.presence_penalty, penalty(self.presence_penalty)),
        ];
        if let Some(&(name, value, (_, expected))) = checks.iter().find(|(.., (fine, _))| !fine) {
            return Err(SamplingError::Parameter { name, value, expected });
        }
        match self.logit_bias.iter().find(|(_, bias)| bias.is_nan() || *bias == f32::INFINITY) {
            Some(&(_, value)) => {
                let expected = "a finite number or minus infinity";
                Err(SamplingError::Parameter { name: "logit_bias", value, expected })
            }
            None => Ok(()),
        }
    }
}

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
}

/// Draws the tokens of one request.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    seed: u32,
    random: SplitMix64,
    logits: Vec<f32>,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler that has drawn nothing yet.
    ///
    /// # Errors
    /// When a parameter lies outside its range.
    pub fn new(sampling: Sampling) -> Result<Sampler, SamplingError> {
        sampling.check()?;
        let seed = sampling.seed.filter(|seed| *seed != u32::MAX).unwrap_or_else(random_seed);
        let random = SplitMix64::new(u64::from(seed));
        Ok(Sampler { sampling, seed, random, logits: Vec::new(), candidates: Vec::new() })
    }

    /// The seed in use.
    pub fn seed(&self) -> u32 {
        self.seed
    }

    /// Chooses the token after `tokens` (prompt and generated ones) from `logits`, one a token of the
    /// vocabulary. Every call draws one random number, so a seed's draws stay in step.
    ///
    /// # Errors
    /// When a logit is NaN or plus infinity, when all are minus infinity, or when a bias names no token.
    pub fn sample(&mut self, logits: &[f32], tokens: &[u32]) -> Result<u32, SamplingError> {
        let u = self.random.next_f64();
        let broken = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY);
        if let Some(token) = broken {
            return Err(SamplingError::Logit { token, value: logits[token] });
        }
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.bias()?;
        self.penalise(tokens);
        if self.sampling.temperature <= 0.0 {
            return argmax(&self.logits).ok_or(self.no_token());
        }
        self.filter();
        candidates::draw(&mut self.candidates, self.sampling.temperature, u).ok_or(self.no_token())
    }

    /// The candidates that pass the filters.
    fn filter(&mut self) {
        let Sampling { top_k, typical_p, top_p, min_p, .. } = self.sampling;
        let all = self.logits.iter().enumerate().map(|(id, &logit)| Candidate { id: id as u32, logit });
        let possible = all.filter(|candidate| candidate.logit > f32::NEG_INFINITY);
        candidates::top_k(possible, top_k, &mut self.candidates);
        candidates::typical_p(&mut self.candidates, typical_p);
        candidates::top_p(&mut self.candidates, top_p);
        candidates::min_p(&mut self.candidates, min_p);
    }

    fn bias(&mut self) -> Result<(), SamplingError> {
        let n_vocab = self.logits.len();
        for &(token, bias) in &self.sampling.logit_bias {
            let logit = self.logits.get_mut(token as usize).ok_or(SamplingError::Bias { token, n_vocab })?;
            *logit = (*logit + bias).min(f32::MAX);
        }
        Ok(())
    }

    /// Keskar et al. 2019 (CTRL) for the repeat penalty, with negative logits multiplied so that they
    /// fall too; the other two as OpenAI's API defines them.
    fn penalise(&mut self, tokens: &[u32]) {
        let Sampling { repeat_penalty, frequency_penalty, presence_penalty, .. } = self.sampling;
        if (repeat_penalty, frequency_penalty, presence_penalty) == (1.0, 0.0, 0.0) {
            return;
        }
        let window = &tokens[tokens.len().saturating_sub(self.sampling.penalty_last_n)..];
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for &token in window {
            *counts.entry(token).or_default() += 1;
        }
        for (token, count) in counts {
            // A token that is ruled out stays so whatever the penalties are.
            let logit = self.logits.get_mut(token as usize).filter(|logit| **logit > f32::NEG_INFINITY);
            if let Some(logit) = logit {
                *logit = if *logit <= 0.0 { *logit * repeat_penalty } else { *logit / repeat_penalty };
                *logit = (*logit - (count as f32 * frequency_penalty + presence_penalty)).min(f32::MAX);
            }
        }
    }

    fn no_token(&self) -> SamplingError {
        SamplingError::NoToken { biased: !self.sampling.logit_bias.is_empty() }
    }
}

/// The highest of `logits`, the first among equals; none when all are minus infinity.
fn argmax(logits: &[f32]) -> Option<u32> {
    let mut best = (None, f32::NEG_INFINITY);
    for (id, &logit) in logits.iter().enumerate() {
        if logit > best.1 {
            best = (Some(id as u32), logit);
        }
    }
    best.0
}
