//! The samplers of a request, in order: each modifies the logits of candidates, or drops candidates.
//!
//! A sampler keeps the same tokens as llama.cpp's of that name.

use std::collections::HashMap;

use tokenizer::Tokenizer;

use super::device::DeviceSampling;
use super::dry::{Breakers, DryPenalty};
use super::last;
use super::mirostat::MirostatState;
use crate::candidates::{self, Candidate};
use crate::params::{Params, SamplerKind};
use crate::random::SplitMix64;

/// The samplers of one request, with their state.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    params: Params,
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
    pub(super) fn new(mut params: Params, seed: u32, breakers: &Breakers, tokenizer: &Tokenizer) -> Chain {
        let mirostat = MirostatState::new(&params);
        if mirostat.is_some() {
            params.samplers = vec![SamplerKind::Temperature];
            params.dynatemp_range = 0.0;
        }
        let is_greedy = params.temperature <= 0.0 && params.samplers.contains(&SamplerKind::Temperature);
        let is_kept = |kind: &SamplerKind| {
            let is_penalty = matches!(kind, SamplerKind::Penalties | SamplerKind::Dry);
            has_effect(*kind, &params) && (is_penalty || !is_greedy)
        };
        let order: Vec<SamplerKind> = params.samplers.iter().copied().filter(is_kept).collect();
        let has_dry = order.contains(&SamplerKind::Dry);
        Chain {
            dry: has_dry.then(|| DryPenalty::new(&params, breakers, tokenizer)),
            order,
            mirostat,
            // Not the random numbers of the draws, which are seeded with 32 bits.
            xtc_seed: u64::from(seed) | 1 << 32,
            counts: HashMap::new(),
            is_greedy,
            params,
        }
    }

    /// The same as a device does it, if it can.
    pub(super) fn on_device(&self, logit_bias: &[(u32, f32)], seed: u32) -> Option<DeviceSampling> {
        DeviceSampling::new(&self.params, logit_bias, &self.order, self.is_greedy, seed)
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
        let Params { repeat_penalty, frequency_penalty, presence_penalty, .. } = self.params;
        for kind in &self.order {
            match kind {
                SamplerKind::TopK => return lowered.checked_add(self.params.top_k),
                SamplerKind::Penalties
                    if repeat_penalty >= 1.0 && frequency_penalty >= 0.0 && presence_penalty >= 0.0 =>
                {
                    lowered = lowered.saturating_add(last(self.params.repeat_last_n));
                }
                SamplerKind::Dry => lowered = lowered.saturating_add(last(self.params.dry_penalty_last_n)),
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
        candidates::top_k(possible, if starts_with_top_k { self.params.top_k } else { 0 }, kept);
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
        let params = &self.params;
        match kind {
            SamplerKind::Penalties => penalise(params, tokens, &mut self.counts, kept),
            SamplerKind::Dry => {
                if let Some(dry) = &self.dry {
                    dry.apply(tokens, kept);
                }
            }
            SamplerKind::TopNSigma => top_n_sigma(kept, params.top_n_sigma),
            SamplerKind::TopK => candidates::top_k(std::mem::take(kept).into_iter(), params.top_k, kept),
            SamplerKind::TypicalP => typical_p(kept, params.typical_p),
            SamplerKind::TopP => top_p(kept, params.top_p),
            SamplerKind::MinP => min_p(kept, params.min_p),
            SamplerKind::Xtc => {
                if SplitMix64::nth_f64(self.xtc_seed, tokens.len()) < f64::from(params.xtc_probability) {
                    exclude_top_choices(kept, params.xtc_threshold);
                }
            }
            SamplerKind::Temperature => {
                let Params { temperature, dynatemp_range, dynatemp_exponent, .. } = *params;
                scale(kept, [temperature, dynatemp_range, dynatemp_exponent].map(f64::from));
            }
        }
    }
}

/// Whether the sampler has an effect with these parameters.
pub(super) fn has_effect(kind: SamplerKind, params: &Params) -> bool {
    match kind {
        SamplerKind::Penalties => {
            let Params { repeat_penalty, frequency_penalty, presence_penalty, .. } = *params;
            let is_off = (repeat_penalty, frequency_penalty, presence_penalty) == (1.0, 0.0, 0.0);
            !is_off && params.repeat_last_n != Some(0)
        }
        SamplerKind::Dry => params.dry_multiplier != 0.0 && params.dry_penalty_last_n != Some(0),
        SamplerKind::TopNSigma => params.top_n_sigma > 0.0,
        SamplerKind::TopK => params.top_k > 0,
        SamplerKind::TypicalP => params.typical_p < 1.0,
        SamplerKind::TopP => params.top_p < 1.0,
        SamplerKind::MinP => params.min_p > 0.0,
        SamplerKind::Xtc => params.xtc_probability > 0.0 && params.xtc_threshold <= 0.5,
        SamplerKind::Temperature => params.temperature != 1.0 || params.dynatemp_range > 0.0,
    }
}

/// Penalises tokens that occurred before: the repeat penalty of Keskar et al. 2019 (CTRL), but with negative logits
/// multiplied so that they decrease, too; the other two as OpenAI's API defines them.
fn penalise(params: &Params, tokens: &[u32], counts: &mut HashMap<u32, u32>, kept: &mut [Candidate]) {
    let Params { repeat_penalty: repeat, frequency_penalty, presence_penalty, repeat_last_n, .. } = *params;
    counts.clear();
    for &token in &tokens[tokens.len().saturating_sub(last(repeat_last_n))..] {
        *counts.entry(token).or_default() += 1;
    }
    candidates::change(kept, counts, |logit, &count| {
        let logit = if logit <= 0.0 { logit * repeat } else { logit / repeat };
        logit - (count as f32 * frequency_penalty + presence_penalty)
    });
}

/// Keeps those whose logit is at most `n` standard deviations below the largest (Tang et al. 2024, top-nσ).
fn top_n_sigma(kept: &mut Vec<Candidate>, n: f32) {
    let count = kept.len() as f64;
    let mean = kept.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
    let squares = kept.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum::<f64>();
    let least = f64::from(candidates::best_logit(kept)) - f64::from(n) * (squares / count).sqrt();
    kept.retain(|candidate| f64::from(candidate.logit) >= least);
}

/// Drops the tokens with a probability of at least `threshold`, except the least probable of them (XTC).
fn exclude_top_choices(kept: &mut Vec<Candidate>, threshold: f32) {
    candidates::sort_by_logit(kept);
    let (weights, total) = candidates::weights(kept);
    let top = weights.iter().take_while(|&weight| weight / total >= f64::from(threshold)).count();
    kept.drain(..top.saturating_sub(1));
}

/// Subtracts the largest logit and divides by the temperature. With a range above 0, the temperature grows from
/// `temperature - range` to `temperature + range` with the normalised entropy to the power of `exponent`.
fn scale(kept: &mut Vec<Candidate>, [temperature, range, exponent]: [f64; 3]) {
    if kept.len() <= 1 {
        return;
    }
    let mut temperature = temperature;
    if range > 0.0 {
        let (weights, total) = candidates::weights(kept);
        let possible = weights.iter().filter(|&&weight| weight > 0.0);
        let entropy: f64 = possible.map(|weight| -(weight / total) * (weight / total).ln()).sum();
        let (least, most) = ((temperature - range).max(0.0), temperature + range);
        temperature = least + (most - least) * (entropy / (kept.len() as f64).ln()).powf(exponent);
    }
    let best = f64::from(candidates::best_logit(kept));
    for candidate in kept.iter_mut() {
        let below = f64::from(candidate.logit) - best;
        // At temperature 0 the others are impossible.
        candidate.logit = if below == 0.0 { 0.0 } else { (below / temperature) as f32 };
    }
    kept.retain(|candidate| candidate.logit > f32::NEG_INFINITY);
}

/// Keeps the most probable whose probabilities together reach `p` (Holtzman et al. 2020).
fn top_p(kept: &mut Vec<Candidate>, p: f32) {
    let (weights, total) = candidates::weights(kept);
    // Not negated: -0 and 0 are equal logits, but have an order as ranks.
    let rank = kept.iter().map(|candidate| 0.0 - f64::from(candidate.logit));
    let enough = f64::from(p) * total;
    candidates::keep_until(kept, rank.zip(weights).collect(), |sum| sum >= enough);
}

/// Keeps those whose surprise `-ln p` is nearest to the entropy, until their probabilities together
/// exceed `p` (Meister et al. 2023, locally typical sampling).
fn typical_p(kept: &mut Vec<Candidate>, p: f32) {
    let (weights, total) = candidates::weights(kept);
    let surprise: Vec<f64> = weights.iter().map(|weight| -(weight / total).ln()).collect();
    let possible = surprise.iter().zip(&weights).filter(|(surprise, _)| surprise.is_finite());
    let entropy: f64 = possible.map(|(surprise, weight)| weight / total * surprise).sum();
    let rank = surprise.iter().map(|surprise| (surprise - entropy).abs());
    let enough = f64::from(p) * total;
    candidates::keep_until(kept, rank.zip(weights).collect(), |sum| sum > enough);
}

/// Keeps those at least `p` times as probable as the most probable one.
fn min_p(kept: &mut Vec<Candidate>, p: f32) {
    let least = candidates::best_logit(kept) + p.ln();
    kept.retain(|candidate| candidate.logit >= least);
}
