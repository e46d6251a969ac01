//! From logits to a token.
//!
//! The order is that of llama.cpp's default chain: logit bias, penalties, top-k, typical-p, top-p,
//! min-p, temperature, draw. Bias and penalties are [`Processor`]s; a request may bring others, which come
//! after these. At temperature 0 the filters have no say: the token is the one with the
//! highest logit after the processors, the lowest id among equals.

mod processors;
#[cfg(test)]
mod tests;

use backend::{arg_max, log_sum_exp, top_log_probabilities};

use crate::candidates::{self, Candidate};
use crate::random::{SplitMix64, random_seed};
use processors::{Bias, Penalties};

pub use processors::Processor;

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
        let mut processors: Vec<Box<dyn Processor>> = Vec::new();
        if !sampling.logit_bias.is_empty() {
            processors.push(Box::new(Bias(sampling.logit_bias.clone())));
        }
        let Sampling { repeat_penalty, frequency_penalty, presence_penalty, penalty_last_n, .. } = sampling;
        let penalties = [repeat_penalty, frequency_penalty, presence_penalty];
        if let Some(penalties) = Penalties::new(penalties, penalty_last_n) {
            processors.push(Box::new(penalties));
        }
        let (logits, candidates) = (Vec::new(), Vec::new());
        Ok(Sampler { sampling, seed, random, processors, brought: 0, logits, candidates })
    }

    /// The same with further processors, which come after bias and penalties.
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
        self.sampling.temperature <= 0.0 && self.processors.is_empty()
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
        let chosen = if self.sampling.temperature <= 0.0 {
            arg_max(processed)
        } else {
            filter(&self.sampling, processed, &mut self.candidates);
            candidates::draw(&mut self.candidates, self.sampling.temperature, u)
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

/// The candidates that pass the filters.
fn filter(sampling: &Sampling, logits: &[f32], kept: &mut Vec<Candidate>) {
    candidates::top_k(possible(logits), sampling.top_k, kept);
    candidates::typical_p(kept, sampling.typical_p);
    candidates::top_p(kept, sampling.top_p);
    candidates::min_p(kept, sampling.min_p);
}

/// The tokens that are not ruled out.
fn possible(logits: &[f32]) -> impl Iterator<Item = Candidate> {
    let all = logits.iter().enumerate().map(|(id, &logit)| Candidate { id: id as u32, logit });
    all.filter(|candidate| candidate.logit > f32::NEG_INFINITY)
}
