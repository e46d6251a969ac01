//! Sampling parameters and their ranges.

use super::{SamplerKind, SamplingError};

/// Least and largest value, and the range in words. The limit of 1e6 is far above every sensible value, and far below
/// those that make a logit infinite.
type Range = (f32, f32, &'static str);

const FINITE: Range = (f32::MIN, f32::MAX, "a finite number");
const PROBABILITY: Range = (0.0, 1.0, "a number from 0 to 1");
const POSITIVE: Range = (0.0, 1e6, "a number from 0 to 1000000");
const PENALTY: Range = (-1e6, 1e6, "a number from -1000000 to 1000000");

/// The longest sequence breaker of DRY in bytes, as in llama.cpp.
const MAX_BREAKER: usize = 40;

/// How a request's tokens are chosen. The defaults are llama.cpp's.
///
/// ```
/// use engine::Sampling;
/// let sampling = Sampling { temperature: 0.7, seed: Some(42), ..Sampling::default() };
/// # let _ = sampling;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits. 0 or less is argmax, without filters.
    pub temperature: f32,
    /// Makes the temperature depend on the entropy.
    pub dynamic_temperature: DynamicTemperature,
    /// Keep the `top_k` most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the tokens nearest to the entropy up to this probability; 1 keeps all.
    pub typical_p: f32,
    /// Keep the most probable tokens up to this probability; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens at least `min_p` times as probable as the best; 0 keeps all.
    pub min_p: f32,
    /// Keep tokens whose logit is at most this many standard deviations below the largest; 0 or less keeps all.
    pub top_n_sigma: f32,
    /// Sometimes exclude the most probable tokens.
    pub xtc: Xtc,
    /// Divides positive and multiplies negative logits of tokens that occurred; 1 is off. From 1e-6 to 1e6.
    pub repeat_penalty: f32,
    /// Subtracted from a token's logit for each occurrence; 0 is off. From -1e6 to 1e6.
    pub frequency_penalty: f32,
    /// Subtracted from a token's logit if it occurred; 0 is off. From -1e6 to 1e6.
    pub presence_penalty: f32,
    /// Number of last tokens, prompt included, that the three penalties consider.
    pub penalty_last_n: usize,
    /// Penalise repeated sequences.
    pub dry: Dry,
    /// Keep the surprise of tokens near a target. The temperature is the only other sampler then, as in llama.cpp.
    pub mirostat: Option<Mirostat>,
    /// The samplers to run, in order.
    pub samplers: Vec<SamplerKind>,
    /// Added to the logits of these tokens; minus infinity bans one.
    pub logit_bias: Vec<(u32, f32)>,
    /// `None` and `0xFFFF_FFFF` are a random seed, which [`Usage::seed`](crate::Usage::seed) reports.
    pub seed: Option<u32>,
}

/// Dynamic temperature (entropy-based): from `temperature - range`, where one token is certain, to `temperature + range`,
/// where all tokens are equally likely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicTemperature {
    /// 0 is off.
    pub range: f32,
    /// Exponent of the normalised entropy.
    pub exponent: f32,
}

/// XTC, "exclude top choices": with some probability, drops all tokens above a threshold but the least probable of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// Probability of dropping tokens; 0 is off.
    pub probability: f32,
    /// Least probability of a top choice; above 0.5 is off.
    pub threshold: f32,
}

/// DRY, "don't repeat yourself": tokens that would extend a repeated sequence of `n` tokens lose
/// `multiplier * base^(n - allowed_length)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// 0 is off.
    pub multiplier: f32,
    /// At least 1.
    pub base: f32,
    /// Shorter repetitions are not penalised.
    pub allowed_length: usize,
    /// Number of last tokens, prompt included, that are searched for repetitions.
    pub penalty_last_n: usize,
    /// Texts of 1 to 40 bytes that end a repetition.
    pub sequence_breakers: Vec<String>,
}

/// Mirostat (Basu et al. 2020).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// The algorithm.
    pub version: MirostatVersion,
    /// Target surprise in bits.
    pub tau: f32,
    /// Learning rate.
    pub eta: f32,
}

/// A version of Mirostat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirostatVersion {
    /// Estimates the exponent of Zipf's law and keeps as many tokens as give the expected surprise.
    V1,
    /// Keeps the tokens below a maximum surprise.
    V2,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.8,
            dynamic_temperature: DynamicTemperature { range: 0.0, exponent: 1.0 },
            top_k: 40,
            typical_p: 1.0,
            top_p: 0.95,
            min_p: 0.05,
            top_n_sigma: -1.0,
            xtc: Xtc { probability: 0.0, threshold: 0.1 },
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_last_n: 64,
            dry: Dry::default(),
            mirostat: None,
            samplers: SamplerKind::DEFAULT.to_vec(),
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

impl Default for Dry {
    fn default() -> Dry {
        let sequence_breakers = ["\n", ":", "\"", "*"].map(str::to_owned).to_vec();
        Dry { multiplier: 0.0, base: 1.75, allowed_length: 2, penalty_last_n: usize::MAX, sequence_breakers }
    }
}

impl Sampling {
    /// Always the most probable token.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    /// Checks that every parameter is in its range, and every bias for a token of the vocabulary.
    pub(super) fn check(&self, n_vocab: usize) -> Result<(), SamplingError> {
        let Sampling { dynamic_temperature, xtc, dry, .. } = self;
        let mut checks = vec![
            ("temperature", self.temperature, FINITE),
            ("dynamic_temperature.range", dynamic_temperature.range, POSITIVE),
            ("dynamic_temperature.exponent", dynamic_temperature.exponent, POSITIVE),
            ("typical_p", self.typical_p, PROBABILITY),
            ("top_p", self.top_p, PROBABILITY),
            ("min_p", self.min_p, PROBABILITY),
            ("top_n_sigma", self.top_n_sigma, FINITE),
            ("xtc.probability", xtc.probability, PROBABILITY),
            ("xtc.threshold", xtc.threshold, PROBABILITY),
            ("repeat_penalty", self.repeat_penalty, (1e-6, 1e6, "a number from 0.000001 to 1000000")),
            ("frequency_penalty", self.frequency_penalty, PENALTY),
            ("presence_penalty", self.presence_penalty, PENALTY),
            ("dry.multiplier", dry.multiplier, POSITIVE),
            ("dry.base", dry.base, (1.0, 1e6, "a number from 1 to 1000000")),
        ];
        if let Some(Mirostat { version: _, tau, eta }) = self.mirostat {
            checks.extend([("mirostat.tau", tau, POSITIVE), ("mirostat.eta", eta, POSITIVE)]);
        }
        for (name, value, (least, most, expected)) in checks {
            if !(least..=most).contains(&value) {
                return Err(SamplingError::Parameter { name, value: value.to_string(), expected });
            }
        }
        for text in &dry.sequence_breakers {
            if !(1..=MAX_BREAKER).contains(&text.len()) {
                let value = format!("a text of {} bytes", text.len());
                let (name, expected) = ("dry.sequence_breakers", "1 to 40 bytes");
                return Err(SamplingError::Parameter { name, value, expected });
            }
        }
        for &(token, bias) in &self.logit_bias {
            if token as usize >= n_vocab {
                return Err(SamplingError::Bias { token, n_vocab });
            }
            if bias.is_nan() || bias == f32::INFINITY {
                let (name, expected) = ("logit_bias", "a finite number or minus infinity");
                return Err(SamplingError::Parameter { name, value: bias.to_string(), expected });
            }
        }
        Ok(())
    }
}
