//! The tokens that may come next, and the filters that thin them out.
//!
//! Each filter keeps the set of tokens that llama.cpp's sampler of that name keeps. Orders are total
//! (ties go to the lower id), so that nothing depends on how a sort treats equal elements, and sums
//! are in `f64`.

use std::cmp::Ordering;

/// A token and its logit, never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: u32,
    pub(crate) logit: f32,
}

impl Candidate {
    fn falling(&self, other: &Candidate) -> Ordering {
        other.logit.partial_cmp(&self.logit).unwrap_or(Ordering::Equal).then(self.id.cmp(&other.id))
    }
}

/// Keeps the `k` most probable; 0 keeps all.
pub(crate) fn top_k(candidates: &mut Vec<Candidate>, k: usize) {
    if k == 0 || k >= candidates.len() {
        return;
    }
    candidates.select_nth_unstable_by(k - 1, Candidate::falling);
    candidates.truncate(k);
    candidates.sort_unstable_by(Candidate::falling);
}

/// Keeps the most probable whose probabilities together reach `p` (Holtzman et al. 2020); 1 keeps all.
pub(crate) fn top_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p >= 1.0 || candidates.len() < 2 {
        return;
    }
    let weigh = weights(candidates);
    let enough = f64::from(p) * candidates.iter().map(&weigh).sum::<f64>();
    keep_until(candidates, Candidate::falling, &weigh, |sum| sum >= enough);
}

/// Keeps those whose surprise `-ln p` is nearest to the entropy, until their probabilities together
/// exceed `p` (Meister et al. 2023, locally typical sampling); 1 keeps all.
pub(crate) fn typical_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p >= 1.0 || candidates.len() < 2 {
        return;
    }
    let weigh = weights(candidates);
    let total = candidates.iter().map(&weigh).sum::<f64>();
    let surprise = |candidate: &Candidate| -(weigh(candidate) / total).ln();
    let entropy: f64 = candidates
        .iter()
        .map(|candidate| (weigh(candidate) / total, surprise(candidate)))
        .filter(|(probability, _)| *probability > 0.0)
        .map(|(probability, surprise)| probability * surprise)
        .sum();
    let distance = |candidate: &Candidate| (surprise(candidate) - entropy).abs();
    let enough = f64::from(p) * total;
    let nearest = |a: &Candidate, b: &Candidate| distance(a).total_cmp(&distance(b)).then(a.id.cmp(&b.id));
    keep_until(candidates, nearest, &weigh, |sum| sum > enough);
}

/// Keeps those at least `p` times as probable as the most probable one; 0 keeps all.
pub(crate) fn min_p(candidates: &mut Vec<Candidate>, p: f32) {
    if p <= 0.0 {
        return;
    }
    let best = best_logit(candidates);
    let least = best + p.min(1.0).ln();
    candidates.retain(|candidate| candidate.logit >= least);
}

/// Draws a token with probability proportional to `exp(logit / temperature)`; `u` lies in `[0, 1)`.
///
/// The tokens are laid out by id, so `u` names the same token whatever the filters did before.
pub(crate) fn draw(candidates: &mut [Candidate], temperature: f32, u: f64) -> Option<u32> {
    candidates.sort_unstable_by_key(|candidate| candidate.id);
    let best = f64::from(best_logit(candidates));
    let temperature = f64::from(temperature);
    let weigh = |candidate: &Candidate| ((f64::from(candidate.logit) - best) / temperature).exp();
    let target = u * candidates.iter().map(weigh).sum::<f64>();
    let mut sum = 0.0;
    let mut last = None;
    for candidate in candidates.iter() {
        let weight = weigh(candidate);
        sum += weight;
        if weight > 0.0 {
            last = Some(candidate.id);
        }
        if sum > target {
            break;
        }
    }
    last
}

/// Probability of a candidate, up to a common factor.
fn weights(candidates: &[Candidate]) -> impl Fn(&Candidate) -> f64 + use<> {
    let best = f64::from(best_logit(candidates));
    move |candidate| (f64::from(candidate.logit) - best).exp()
}

fn best_logit(candidates: &[Candidate]) -> f32 {
    candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max)
}

/// Sorts by `order` and keeps candidates up to the first at which the sum of their weights is `enough`.
///
/// Few are kept as a rule, so only a growing front of the list is sorted.
fn keep_until(
    candidates: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering,
    weigh: impl Fn(&Candidate) -> f64,
    enough: impl Fn(f64) -> bool,
) {
    let (mut sorted, mut front, mut sum) = (0, 128, 0.0);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let take = front.min(rest.len());
        if take < rest.len() {
            rest.select_nth_unstable_by(take - 1, &order);
        }
        rest[..take].sort_unstable_by(&order);
        for (i, candidate) in rest[..take].iter().enumerate() {
            sum += weigh(candidate);
            if enough(sum) {
                candidates.truncate(sorted + i + 1);
                return;
            }
        }
        sorted += take;
        front *= 4;
    }
}
