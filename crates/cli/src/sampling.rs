//! The options of the samplers, which a chat can change.

use std::str::FromStr;

use clap::value_parser;
use engine::{Dry, DynamicTemperature, Mirostat, MirostatVersion, SamplerKind, Sampling, Xtc};

use crate::values::{finite, logit_bias, unescape, within};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// 0 always takes the most probable token; higher is more random [short: --temp]
    #[arg(long, alias = "temp", value_name = "T", default_value_t = 0.8, env, value_parser = finite)]
    pub(crate) temperature: f32,
    /// Keep the K most probable tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value_t = 40, env)]
    pub(crate) top_k: i64,
    /// Keep the most probable tokens up to probability P; 1 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.95, env, value_parser = within(0.0..=1.0))]
    pub(crate) top_p: f32,
    /// Keep tokens at least P times as probable as the best; 0 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.05, env, value_parser = within(0.0..=1.0))]
    pub(crate) min_p: f32,
    /// Keep the tokens nearest to the entropy up to probability P; 1 keeps all
    #[arg(long, alias = "typical", value_name = "P", default_value_t = 1.0, env)]
    #[arg(value_parser = within(0.0..=1.0))]
    pub(crate) typical_p: f32,
    /// Penalty for tokens that have occurred; 1 is off
    #[arg(long, value_name = "X", default_value_t = 1.0, env, value_parser = within(1e-6..=1e6))]
    pub(crate) repeat_penalty: f32,
    /// Penalty for each time that a token has occurred; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, env, value_parser = within(-1e6..=1e6))]
    pub(crate) frequency_penalty: f32,
    /// Penalty for a token that has occurred at all; 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, env, value_parser = within(-1e6..=1e6))]
    pub(crate) presence_penalty: f32,
    /// Number of last tokens that the penalties consider; -1 is all, 0 none
    #[arg(long, value_name = "N", default_value_t = 64, env, value_parser = value_parser!(i64).range(-1..))]
    pub(crate) repeat_last_n: i64,
    /// Add to a token's logit, such as 15043+1 or 15043-inf; may be repeated
    #[arg(short = 'l', long, value_name = "ID+BIAS", value_parser = logit_bias)]
    pub(crate) logit_bias: Vec<(u32, f32)>,
    /// Seed of the random numbers; -1 is random
    #[arg(short, long, value_name = "SEED", default_value_t = -1, env)]
    #[arg(value_parser = value_parser!(i64).range(-1..=i64::from(u32::MAX)))]
    pub(crate) seed: i64,
    /// Keep tokens whose logit is at most N standard deviations below the largest; 0 or less keeps all
    #[arg(long, alias = "top-n-sigma", value_name = "N", default_value_t = -1.0, env, value_parser = finite)]
    pub(crate) top_nsigma: f32,
    /// Probability of excluding top choices (XTC); 0 is off
    #[arg(long, value_name = "P", default_value_t = 0.0, env, value_parser = within(0.0..=1.0))]
    pub(crate) xtc_probability: f32,
    /// Minimum probability of a top choice (XTC); above 0.5 is off
    #[arg(long, value_name = "P", default_value_t = 0.1, env, value_parser = within(0.0..=1.0))]
    pub(crate) xtc_threshold: f32,
    /// Penalise tokens that extend a repeated sequence (DRY); 0 is off
    #[arg(long, value_name = "X", default_value_t = 0.0, env, value_parser = within(0.0..=1e6))]
    pub(crate) dry_multiplier: f32,
    /// Growth of the DRY penalty per repeated token
    #[arg(long, value_name = "X", default_value_t = 1.75, env, value_parser = within(1.0..=1e6))]
    pub(crate) dry_base: f32,
    /// Repeated tokens without a DRY penalty
    #[arg(long, value_name = "N", default_value_t = 2, env)]
    pub(crate) dry_allowed_length: usize,
    /// Number of last tokens that DRY considers; -1 is all, 0 none
    #[arg(long, value_name = "N", default_value_t = -1, env, value_parser = value_parser!(i64).range(-1..))]
    pub(crate) dry_penalty_last_n: i64,
    /// Text that ends a repetition for DRY, with escapes such as \n; may be repeated; "none" is no text
    #[arg(long, value_name = "TEXT", value_parser = breaker, default_values = ["\\n", ":", "\"", "*"])]
    pub(crate) dry_sequence_breaker: Vec<String>,
    /// Vary the temperature with the entropy, from T - R to T + R; 0 is off
    #[arg(long, value_name = "R", default_value_t = 0.0, env, value_parser = within(0.0..=1e6))]
    pub(crate) dynatemp_range: f32,
    /// Exponent of the entropy for --dynatemp-range
    #[arg(long, value_name = "X", default_value_t = 1.0, env, value_parser = within(0.0..=1e6))]
    pub(crate) dynatemp_exp: f32,
    /// Mirostat 1 or 2, with the temperature and no other sampler; 0 is off
    #[arg(long, value_name = "N", default_value_t = 0, env, value_parser = value_parser!(u8).range(0..=2))]
    pub(crate) mirostat: u8,
    /// Learning rate of Mirostat
    #[arg(long, value_name = "X", default_value_t = 0.1, env, value_parser = within(0.0..=1e6))]
    pub(crate) mirostat_lr: f32,
    /// Target surprise of Mirostat, in bits
    #[arg(long, value_name = "BITS", default_value_t = 5.0, env, value_parser = within(0.0..=1e6))]
    pub(crate) mirostat_ent: f32,
    /// Samplers in order, as names separated by ; or as letters such as edskypmxt; others do not run
    #[arg(long, aliases = ["sampling-seq", "sampler-seq"], value_name = "NAMES")]
    #[arg(default_value = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature")]
    pub(crate) samplers: Samplers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Samplers(Vec<SamplerKind>);

impl FromStr for Samplers {
    type Err = String;

    /// Names separated by `;`, or letters.
    fn from_str(text: &str) -> Result<Samplers, String> {
        let names = text.split(';').filter(|name| !name.trim().is_empty());
        let named: Result<Vec<SamplerKind>, _> = names.map(str::parse).collect();
        let letters: Result<Vec<SamplerKind>, _> = text.chars().map(SamplerKind::from_letter).collect();
        let found = if letters.is_ok() { named.or(letters) } else { named };
        found.map(Samplers).map_err(|error| error.to_string())
    }
}

fn breaker(text: &str) -> Result<String, String> {
    let text = unescape(text)?;
    let is_fine = (1..=40).contains(&text.len());
    is_fine.then_some(text).ok_or_else(|| "expected a text of 1 to 40 bytes".to_owned())
}

impl SamplingArgs {
    pub(crate) fn sampling(&self) -> Sampling {
        let last = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
        let breakers = match &self.dry_sequence_breaker[..] {
            [none] if none == "none" => Vec::new(),
            given => given.to_vec(),
        };
        let version = match self.mirostat {
            0 => None,
            1 => Some(MirostatVersion::V1),
            _ => Some(MirostatVersion::V2),
        };
        let (range, exponent) = (self.dynatemp_range, self.dynatemp_exp);
        Sampling {
            temperature: self.temperature,
            dynamic_temperature: DynamicTemperature { range, exponent },
            top_k: usize::try_from(self.top_k).unwrap_or(0),
            typical_p: self.typical_p,
            top_p: self.top_p,
            min_p: self.min_p,
            top_n_sigma: self.top_nsigma,
            xtc: Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold },
            repeat_penalty: self.repeat_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            penalty_last_n: last(self.repeat_last_n),
            dry: Dry {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                penalty_last_n: last(self.dry_penalty_last_n),
                sequence_breakers: breakers,
            },
            mirostat: version.map(|version| Mirostat {
                version,
                tau: self.mirostat_ent,
                eta: self.mirostat_lr,
            }),
            samplers: self.samplers.0.clone(),
            logit_bias: self.logit_bias.clone(),
            seed: u32::try_from(self.seed).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct All {
        #[command(flatten)]
        sampling: SamplingArgs,
    }

    #[test]
    fn defaults_are_those_of_the_engine() {
        use clap::Parser as _;
        assert_eq!(All::parse_from(["x"]).sampling.sampling(), Sampling::default());
        let none = All::parse_from(["x", "--dry-sequence-breaker", "none"]).sampling.sampling();
        assert!(none.dry.sequence_breakers.is_empty());
    }

    #[test]
    fn samplers_are_named_or_have_letters() {
        let order = |text: &str| text.parse().map(|Samplers(kinds)| kinds);
        let expected = Ok(vec![SamplerKind::TopK, SamplerKind::Temperature]);
        for text in ["top_k;temperature", "top-k; temp", "kt"] {
            assert_eq!(order(text), expected, "{text}");
        }
        assert_eq!(order("temp"), Ok(vec![SamplerKind::Temperature]));
        assert_eq!(order(""), Ok(vec![]));
        for text in ["top_k;infill", "kq", "top_q"] {
            let error = order(text).expect_err(text);
            assert!(error.contains("top_k (k)") && error.contains("xtc (x)"), "{error}");
        }
    }
}
