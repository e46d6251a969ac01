//! The parameters of sampling, and the ranges they may have.

use super::{SamplerKind, SamplingError};

/// The largest penalty: far above every sensible one, far below what turns a logit into an infinity.
const MAX_PENALTY: f32 = 1e6;

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
    /// Divides the logits; 0 or less always takes the most probable token, whatever the filters are.
    pub temperature: f32,
    /// Temperature that depends on the entropy.
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
    /// Exclude top choices.
    pub xtc: Xtc,
    /// Divides positive and multiplies negative logits of tokens seen before; 1 is off. From 1e-6 to 1e6.
    pub repeat_penalty: f32,
    /// Subtracted from a token's logit for each occurrence; 0 is off. From -1e6 to 1e6.
    pub frequency_penalty: f32,
    /// Subtracted from a token's logit if it occurred; 0 is off. From -1e6 to 1e6.
    pub presence_penalty: f32,
    /// The last tokens, prompt included, that the three penalties look at; 0 is none.
    pub penalty_last_n: usize,
    /// Penalise repeated sequences.
    pub dry: Dry,
    /// Keep the surprise of tokens near a target. Then the temperature is the only other sampler, as in llama.cpp.
    pub mirostat: Option<Mirostat>,
    /// The order of the samplers; one that is not in it does not run.
    pub samplers: Vec<SamplerKind>,
    /// Added to the logits of these tokens; minus infinity bans one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the draws. `None` and `0xFFFF_FFFF` stand for a random one, which
    /// [`Usage::seed`](crate::Usage::seed) reports.
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

/// XTC, "exclude top choices": with some probability, of the tokens above a threshold only the least probable stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// How often; 0 is off.
    pub probability: f32,
    /// Probability of a top choice; above 0.5 is off.
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
    /// Shorter repetitions have no penalty.
    pub allowed_length: usize,
    /// The last tokens, prompt included, in which repetitions are looked for; 0 is none.
    pub penalty_last_n: usize,
    /// Texts that repetitions do not extend across, of 1 to 40 bytes.
    pub sequence_breakers: Vec<String>,
}

/// Mirostat (Basu et al. 2020).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// Which of the two.
    pub version: MirostatVersion,
    /// Target surprise in bits.
    pub tau: f32,
    /// Learning rate.
    pub eta: f32,
}

/// The two versions of Mirostat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirostatVersion {
    /// Estimates the exponent of Zipf's law, and keeps so many tokens that the surprise is expected.
    V1,
    /// Keeps the tokens of less than a maximum surprise.
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
        let (multiplier, base, allowed_length) = (0.0, 1.75, 2);
        Dry { multiplier, base, allowed_length, penalty_last_n: usize::MAX, sequence_breakers }
    }
}

impl Sampling {
    /// The most probable token, always.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    pub(super) fn check(&self) -> Result<(), SamplingError> {
        let probability = |value: f32| ((0.0..=1.0).contains(&value), "a number from 0 to 1");
        let penalty = |value: f32| (value.abs() <= MAX_PENALTY, "a number from -1000000 to 1000000");
        let factor = |value: f32| {
            ((1.0 / MAX_PENALTY..=MAX_PENALTY).contains(&value), "a number from 0.000001 to 1000000")
        };
        let positive = |value: f32| ((0.0..=MAX_PENALTY).contains(&value), "a number from 0 to 1000000");
        let base = |value: f32| ((1.0..=MAX_PENALTY).contains(&value), "a number from 1 to 1000000");
        let finite = |value: f32| (value.is_finite(), "a finite number");
        let Sampling { dynamic_temperature, xtc, dry, .. } = self;
        let mut checks = vec![
            ("temperature", self.temperature, finite(self.temperature)),
            ("dynamic_temperature.range", dynamic_temperature.range, positive(dynamic_temperature.range)),
            (
                "dynamic_temperature.exponent",
                dynamic_temperature.exponent,
                positive(dynamic_temperature.exponent),
            ),
            ("typical_p", self.typical_p, probability(self.typical_p)),
            ("top_p", self.top_p, probability(self.top_p)),
            ("min_p", self.min_p, probability(self.min_p)),
            ("top_n_sigma", self.top_n_sigma, finite(self.top_n_sigma)),
            ("xtc.probability", xtc.probability, probability(xtc.probability)),
            ("xtc.threshold", xtc.threshold, probability(xtc.threshold)),
            ("repeat_penalty", self.repeat_penalty, factor(self.repeat_penalty)),
            ("frequency_penalty", self.frequency_penalty, penalty(self.frequency_penalty)),
            ("presence_penalty", self.presence_penalty, penalty(self.presence_penalty)),
            ("dry.multiplier", dry.multiplier, positive(dry.multiplier)),
            ("dry.base", dry.base, base(dry.base)),
        ];
        if let Some(Mirostat { version: _, tau, eta }) = self.mirostat {
            checks.push(("mirostat.tau", tau, positive(tau)));
            checks.push(("mirostat.eta", eta, positive(eta)));
        }
        if let Some(&(name, value, (_, expected))) = checks.iter().find(|(.., (fine, _))| !fine) {
            return Err(SamplingError::Parameter { name, value, expected });
        }
        if let Some(text) = dry.sequence_breakers.iter().find(|b| !(1..=MAX_BREAKER).contains(&b.len())) {
            return Err(SamplingError::SequenceBreaker { bytes: text.len() });
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
