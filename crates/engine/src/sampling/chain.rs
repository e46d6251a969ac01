//! The samplers of a request, in order: each modifies the logits of candidates, or drops candidates.

use std::collections::HashMap;
use std::str::FromStr;

use tokenizer::Tokenizer;

use super::device::DeviceSampling;
use super::dry::{Breakers, DryPenalty};
use super::mirostat::MirostatState;
use super::{DynamicTemperature, Sampling};
use crate::candidates::{self, Candidate};
use crate::random::SplitMix64;

/// A sampler that [`Sampling::samplers`] can order, named after its parameters in [`Sampling`]. `Penalties` are the
/// repeat, frequency and presence penalties; `Temperature` can be dynamic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub enum SamplerKind {
    Penalties,
    Dry,
    TopNSigma,
    TopK,
    TypicalP,
    TopP,
    MinP,
    Xtc,
    Temperature,
}

/// There is no sampler of this name or letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sampler {:?}; there are {}", .0, SamplerKind::names())]
pub struct UnknownSampler(String);

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

    /// llama.cpp's name, letter and further names.
    pub(super) fn words(self) -> (&'static str, char, &'static [&'static str]) {
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

    /// The sampler of llama.cpp's letter. Fails if no sampler has this letter.
    pub fn from_letter(letter: char) -> Result<SamplerKind, UnknownSampler> {
        let found = SamplerKind::DEFAULT.into_iter().find(|kind| kind.words().1 == letter);
        found.ok_or_else(|| UnknownSampler(letter.into()))
    }

    fn names() -> String {
        SamplerKind::DEFAULT.map(|kind| format!("{} ({})", kind.name(), kind.words().1)).join(", ")
    }
}

impl FromStr for SamplerKind {
    type Err = UnknownSampler;

    fn from_str(text: &str) -> Result<SamplerKind, UnknownSampler> {
        let name = text.trim().replace('-', "_");
        let is_named = |kind: &SamplerKind| kind.name() == name || kind.words().2.contains(&&*name);
        let found = SamplerKind::DEFAULT.into_iter().find(is_named);
        found.ok_or_else(|| UnknownSampler(text.to_owned()))
    }
}

/// The samplers of one request, with their state.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    sampling: Sampling,
    /// Only samplers that have an effect.
    order: Vec<SamplerKind>,
    dry: Option<DryPenalty>,
    mirostat: Option<MirostatState>,
    xtc_seed: u64,
    /// Occurrences of tokens, for [`penalise`].
    counts: HashMap<u32, u32>,
    is_greedy: bool,
}

impl Chain {
    pub(super) fn new(
        mut sampling: Sampling,
        seed: u32,
        breakers: &Breakers,
        tokenizer: &Tokenizer,
    ) -> Chain {
        let mirostat = sampling.mirostat.map(MirostatState::new);
        if mirostat.is_some() {
            sampling.samplers = vec![SamplerKind::Temperature];
            sampling.dynamic_temperature.range = 0.0;
        }
        let is_greedy = sampling.temperature <= 0.0 && sampling.samplers.contains(&SamplerKind::Temperature);
        let is_kept = |kind: &SamplerKind| {
            let is_penalty = matches!(kind, SamplerKind::Penalties | SamplerKind::Dry);
            has_effect(*kind, &sampling) && (is_penalty || !is_greedy)
        };
        let order: Vec<SamplerKind> = sampling.samplers.iter().copied().filter(is_kept).collect();
        let has_dry = order.contains(&SamplerKind::Dry);
        Chain {
            dry: has_dry.then(|| DryPenalty::new(&sampling.dry, breakers, tokenizer)),
            order,
            mirostat,
            // Not the random numbers of the draws, which are seeded with 32 bits.
            xtc_seed: u64::from(seed) | 1 << 32,
            counts: HashMap::new(),
            is_greedy,
            sampling,
        }
    }

    /// The same as a device does it, if it can.
    pub(super) fn on_device(&self, seed: u32) -> Option<DeviceSampling> {
        DeviceSampling::new(&self.sampling, &self.order, self.is_greedy, seed)
    }

    /// Whether the best token is chosen, and none is drawn.
    pub(super) fn is_greedy(&self) -> bool {
        self.is_greedy
    }

    pub(super) fn is_argmax(&self) -> bool {
        self.is_greedy && self.order.is_empty()
    }

    /// How many of the best candidates give the token that all logits give, if at most `lowered` tokens have lower logits by
    /// then; `None` if all logits are necessary.
    ///
    /// Until top-k or the argmax selects tokens, only penalties may run, and they may not raise a logit. Of the best candidates
    /// enough keep their logits then, and a token beyond is no better than any of these, or equal and of a higher id.
    pub(super) fn needed(&self, mut lowered: usize) -> Option<usize> {
        let Sampling { repeat_penalty, frequency_penalty, presence_penalty, .. } = self.sampling;
        for kind in &self.order {
            match kind {
                SamplerKind::TopK => return lowered.checked_add(self.sampling.top_k),
                SamplerKind::Penalties
                    if repeat_penalty >= 1.0 && frequency_penalty >= 0.0 && presence_penalty >= 0.0 =>
                {
                    lowered = lowered.saturating_add(self.sampling.penalty_last_n);
                }
                SamplerKind::Dry => lowered = lowered.saturating_add(self.sampling.dry.penalty_last_n),
                _ => return None,
            }
        }
        if self.is_greedy { lowered.checked_add(1) } else { None }
    }

    /// Chooses from `all` candidates the token after `tokens`; `u` is from `[0, 1)`.
    pub(super) fn choose(
        &mut self,
        all: impl ExactSizeIterator<Item = Candidate>,
        tokens: &[u32],
        u: f64,
        kept: &mut Vec<Candidate>,
    ) -> Option<u32> {
        let n_vocab = all.len();
        // A token that is ruled out is no candidate.
        let possible = all.filter(|candidate| candidate.logit > f32::NEG_INFINITY);
        // A leading top-k never stores all candidates.
        let starts_with_top_k = self.order.first() == Some(&SamplerKind::TopK);
        candidates::top_k(possible, if starts_with_top_k { self.sampling.top_k } else { 0 }, kept);
        for i in usize::from(starts_with_top_k)..self.order.len() {
            self.apply(self.order[i], tokens, kept);
        }
        if self.is_greedy {
            return candidates::best(kept);
        }
        if let Some(mirostat) = &self.mirostat {
            mirostat.truncate(kept, n_vocab);
        }
        let chosen = candidates::draw(kept, u);
        if let (Some(mirostat), Some(token)) = (&mut self.mirostat, chosen) {
            mirostat.observe(candidates::probability(kept, token));
        }
        chosen
    }

    fn apply(&mut self, kind: SamplerKind, tokens: &[u32], kept: &mut Vec<Candidate>) {
        let sampling = &self.sampling;
        match kind {
            SamplerKind::Penalties => penalise(sampling, tokens, &mut self.counts, kept),
            SamplerKind::Dry => {
                if let Some(dry) = &self.dry {
                    dry.apply(tokens, kept);
                }
            }
            SamplerKind::TopNSigma => candidates::top_n_sigma(kept, sampling.top_n_sigma),
            SamplerKind::TopK => candidates::top_k(std::mem::take(kept).into_iter(), sampling.top_k, kept),
            SamplerKind::TypicalP => candidates::typical_p(kept, sampling.typical_p),
            SamplerKind::TopP => candidates::top_p(kept, sampling.top_p),
            SamplerKind::MinP => candidates::min_p(kept, sampling.min_p),
            SamplerKind::Xtc => {
                if SplitMix64::nth_f64(self.xtc_seed, tokens.len()) < f64::from(sampling.xtc.probability) {
                    candidates::exclude_top_choices(kept, sampling.xtc.threshold);
                }
            }
            SamplerKind::Temperature => {
                let DynamicTemperature { range, exponent } = sampling.dynamic_temperature;
                candidates::temperature(kept, [sampling.temperature, range, exponent].map(f64::from));
            }
        }
    }
}

/// Whether the sampler has an effect with these parameters.
pub(super) fn has_effect(kind: SamplerKind, sampling: &Sampling) -> bool {
    let Sampling { repeat_penalty, frequency_penalty, presence_penalty, xtc, dry, .. } = sampling;
    match kind {
        SamplerKind::Penalties => {
            let is_off = (*repeat_penalty, *frequency_penalty, *presence_penalty) == (1.0, 0.0, 0.0);
            !is_off && sampling.penalty_last_n > 0
        }
        SamplerKind::Dry => dry.multiplier != 0.0 && dry.penalty_last_n > 0,
        SamplerKind::TopNSigma => sampling.top_n_sigma > 0.0,
        SamplerKind::TopK => sampling.top_k > 0,
        SamplerKind::TypicalP => sampling.typical_p < 1.0,
        SamplerKind::TopP => sampling.top_p < 1.0,
        SamplerKind::MinP => sampling.min_p > 0.0,
        SamplerKind::Xtc => xtc.probability > 0.0 && xtc.threshold <= 0.5,
        SamplerKind::Temperature => sampling.temperature != 1.0 || sampling.dynamic_temperature.range > 0.0,
    }
}

/// Penalises tokens that occurred before: the repeat penalty of Keskar et al. 2019 (CTRL), but with negative logits
/// multiplied so that they decrease, too; the other two as OpenAI's API defines them.
fn penalise(sampling: &Sampling, tokens: &[u32], counts: &mut HashMap<u32, u32>, kept: &mut [Candidate]) {
    let Sampling { repeat_penalty: repeat, frequency_penalty, presence_penalty, penalty_last_n, .. } =
        *sampling;
    counts.clear();
    for &token in &tokens[tokens.len().saturating_sub(penalty_last_n)..] {
        *counts.entry(token).or_default() += 1;
    }
    candidates::change(kept, counts, |logit, &count| {
        let logit = if logit <= 0.0 { logit * repeat } else { logit / repeat };
        logit - (count as f32 * frequency_penalty + presence_penalty)
    });
}
