//! The samplers of a request, in order: each changes the logits of candidates, or drops candidates.

use std::fmt;
use std::str::FromStr;

use tokenizer::Tokenizer;

use super::dry::DryPenalty;
use super::mirostat::MirostatState;
use super::penalties::Penalties;
use super::{DynamicTemperature, Sampling, Xtc};
use crate::candidates::{self, Candidate};
use crate::random::SplitMix64;

/// A sampler that [`Sampling::samplers`] can order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplerKind {
    /// [`Sampling::repeat_penalty`], [`Sampling::frequency_penalty`] and [`Sampling::presence_penalty`].
    Penalties,
    /// [`Sampling::dry`].
    Dry,
    /// [`Sampling::top_n_sigma`].
    TopNSigma,
    /// [`Sampling::top_k`].
    TopK,
    /// [`Sampling::typical_p`].
    TypicalP,
    /// [`Sampling::top_p`].
    TopP,
    /// [`Sampling::min_p`].
    MinP,
    /// [`Sampling::xtc`].
    Xtc,
    /// [`Sampling::temperature`] and [`Sampling::dynamic_temperature`].
    Temperature,
}

/// There is no sampler of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sampler {name:?}; there are {}", SamplerKind::names())]
pub struct UnknownSampler {
    /// The name, or the letter.
    pub name: String,
}

impl SamplerKind {
    /// All of them, in llama.cpp's default order.
    pub const DEFAULT: [SamplerKind; 9] = [
        SamplerKind::Penalties,
        SamplerKind::Dry,
        SamplerKind::TopNSigma,
        SamplerKind::TopK,
        SamplerKind::TypicalP,
        SamplerKind::TopP,
        SamplerKind::MinP,
        SamplerKind::Xtc,
        SamplerKind::Temperature,
    ];

    /// llama.cpp's name, such as `top_k`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// llama.cpp's letter, such as `k`.
    pub fn letter(self) -> char {
        self.words().1
    }

    /// The name, the letter, and other names that llama.cpp takes.
    fn words(self) -> (&'static str, char, &'static [&'static str]) {
        match self {
            SamplerKind::Penalties => ("penalties", 'e', &[]),
            SamplerKind::Dry => ("dry", 'd', &[]),
            SamplerKind::TopNSigma => ("top_n_sigma", 's', &[]),
            SamplerKind::TopK => ("top_k", 'k', &[]),
            SamplerKind::TypicalP => ("typ_p", 'y', &["typical_p", "typical", "typ"]),
            SamplerKind::TopP => ("top_p", 'p', &["nucleus"]),
            SamplerKind::MinP => ("min_p", 'm', &[]),
            SamplerKind::Xtc => ("xtc", 'x', &[]),
            SamplerKind::Temperature => ("temperature", 't', &["temp"]),
        }
    }

    /// The sampler of a letter.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_letter(letter: char) -> Result<SamplerKind, UnknownSampler> {
        let found = SamplerKind::DEFAULT.into_iter().find(|kind| kind.letter() == letter);
        found.ok_or_else(|| UnknownSampler { name: letter.into() })
    }

    /// All names and letters, for people.
    fn names() -> String {
        let named = |kind: SamplerKind| format!("{} ({})", kind.name(), kind.letter());
        SamplerKind::DEFAULT.map(named).join(", ")
    }
}

impl FromStr for SamplerKind {
    type Err = UnknownSampler;

    fn from_str(text: &str) -> Result<SamplerKind, UnknownSampler> {
        let name = text.trim().replace('-', "_");
        let is_named = |kind: &SamplerKind| kind.name() == name || kind.words().2.contains(&&*name);
        let found = SamplerKind::DEFAULT.into_iter().find(is_named);
        found.ok_or_else(|| UnknownSampler { name: text.to_owned() })
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A sampler that changes something.
#[derive(Clone, Debug)]
enum Stage {
    Penalties(Penalties),
    Dry(DryPenalty),
    TopNSigma(f32),
    TopK(usize),
    TypicalP(f32),
    TopP(f32),
    MinP(f32),
    Xtc(Xtc, SplitMix64),
    Temperature(f32, DynamicTemperature),
}

/// The samplers of one request.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    stages: Vec<Stage>,
    mirostat: Option<MirostatState>,
    is_greedy: bool,
}

impl Chain {
    /// Those of `sampling` that change something.
    pub(super) fn new(sampling: &Sampling, seed: u32, tokenizer: &Tokenizer) -> Chain {
        let mirostat = sampling.mirostat.map(MirostatState::new);
        let order: &[SamplerKind] =
            if mirostat.is_some() { &[SamplerKind::Temperature] } else { &sampling.samplers };
        let is_greedy = sampling.temperature <= 0.0 && order.contains(&SamplerKind::Temperature);
        let stages = order.iter().filter_map(|&kind| stage(kind, sampling, seed, tokenizer));
        let is_of_greedy = |stage: &Stage| !is_greedy || matches!(stage, Stage::Penalties(_) | Stage::Dry(_));
        Chain { stages: stages.filter(is_of_greedy).collect(), mirostat, is_greedy }
    }

    /// Whether the token is the one of the largest logit.
    pub(super) fn is_argmax(&self) -> bool {
        self.is_greedy && self.stages.is_empty()
    }

    /// Chooses from `logits` the token after `tokens`; `u` is from `[0, 1)`.
    pub(super) fn choose(
        &mut self,
        logits: &[f32],
        tokens: &[u32],
        u: f64,
        kept: &mut Vec<Candidate>,
    ) -> Option<u32> {
        // A leading top-k never holds all candidates.
        let k = if let Some(&Stage::TopK(k)) = self.stages.first() { k } else { 0 };
        candidates::top_k(possible(logits), k, kept);
        self.stages.iter_mut().skip(usize::from(k > 0)).for_each(|stage| stage.apply(tokens, kept));
        if self.is_greedy {
            return candidates::best(kept);
        }
        if let Some(mirostat) = &self.mirostat {
            mirostat.truncate(kept, logits.len());
        }
        let chosen = candidates::draw(kept, u);
        if let (Some(mirostat), Some(token)) = (&mut self.mirostat, chosen) {
            mirostat.observe(candidates::probability(kept, token));
        }
        chosen
    }
}

/// The sampler of this kind, if it changes anything.
fn stage(kind: SamplerKind, sampling: &Sampling, seed: u32, tokenizer: &Tokenizer) -> Option<Stage> {
    let Sampling { dynamic_temperature, top_k, typical_p, top_p, min_p, top_n_sigma, xtc, .. } = *sampling;
    match kind {
        SamplerKind::Penalties => Penalties::new(sampling).map(Stage::Penalties),
        SamplerKind::Dry => DryPenalty::new(&sampling.dry, tokenizer).map(Stage::Dry),
        SamplerKind::TopNSigma => (top_n_sigma > 0.0).then_some(Stage::TopNSigma(top_n_sigma)),
        SamplerKind::TopK => (top_k > 0).then_some(Stage::TopK(top_k)),
        SamplerKind::TypicalP => (typical_p < 1.0).then_some(Stage::TypicalP(typical_p)),
        SamplerKind::TopP => (top_p < 1.0).then_some(Stage::TopP(top_p)),
        SamplerKind::MinP => (min_p > 0.0).then_some(Stage::MinP(min_p)),
        SamplerKind::Xtc => {
            // Other numbers than those of the draws, which are seeded with 32 bits.
            let random = SplitMix64::new(u64::from(seed) | 1 << 32);
            (xtc.probability > 0.0 && xtc.threshold <= 0.5).then_some(Stage::Xtc(xtc, random))
        }
        SamplerKind::Temperature => {
            let dynamic = match sampling.mirostat {
                Some(_) => DynamicTemperature { range: 0.0, exponent: 1.0 },
                None => dynamic_temperature,
            };
            let is_on = sampling.temperature != 1.0 || dynamic.range > 0.0;
            is_on.then_some(Stage::Temperature(sampling.temperature, dynamic))
        }
    }
}

impl Stage {
    fn apply(&mut self, tokens: &[u32], kept: &mut Vec<Candidate>) {
        match self {
            Stage::Penalties(penalties) => penalties.apply(tokens, kept),
            Stage::Dry(dry) => dry.apply(tokens, kept),
            Stage::TopNSigma(n) => candidates::top_n_sigma(kept, *n),
            Stage::TopK(k) => candidates::top_k(std::mem::take(kept).into_iter(), *k, kept),
            Stage::TypicalP(p) => candidates::typical_p(kept, *p),
            Stage::TopP(p) => candidates::top_p(kept, *p),
            Stage::MinP(p) => candidates::min_p(kept, *p),
            Stage::Xtc(xtc, random) => {
                if random.next_f64() < f64::from(xtc.probability) {
                    candidates::exclude_top_choices(kept, xtc.threshold);
                }
            }
            Stage::Temperature(temperature, DynamicTemperature { range, exponent }) => {
                candidates::temperature(kept, [*temperature, *range, *exponent].map(f64::from));
            }
        }
    }
}

/// The tokens that are not ruled out.
fn possible(logits: &[f32]) -> impl Iterator<Item = Candidate> {
    let all = logits.iter().enumerate().map(|(id, &logit)| Candidate { id: id as u32, logit });
    all.filter(|candidate| candidate.logit > f32::NEG_INFINITY)
}
