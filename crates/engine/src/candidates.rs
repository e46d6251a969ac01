//! The candidates for the next token: their order, their probabilities, the best of them, and a draw.
//!
//! Orders are total (the lower id first among equals), so that no result depends on how a sort treats equal elements, and sums
//! are in `f64`.

use std::cmp::Ordering;
use std::collections::HashMap;

/// A token and its logit, never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: u32,
    pub(crate) logit: f32,
}

/// Collects the `k` most probable of `all`, best first; with 0 all, in their order.
pub(crate) fn top_k(all: impl Iterator<Item = Candidate>, k: usize, kept: &mut Vec<Candidate>) {
    kept.clear();
    if k == 0 {
        kept.extend(all);
        return;
    }
    // One comparison with the worst candidate of the last cut rejects nearly all.
    let room = k.saturating_mul(4).max(256);
    let mut least = f32::NEG_INFINITY;
    for candidate in all {
        if candidate.logit < least {
            continue;
        }
        kept.push(candidate);
        if kept.len() == room {
            kept.select_nth_unstable_by(k - 1, falling);
            kept.truncate(k);
            least = kept[k - 1].logit;
        }
    }
    kept.sort_unstable_by(falling);
    kept.truncate(k);
}

/// Most probable first, the lower id first among equals.
fn falling(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

pub(crate) fn sort_by_logit(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(falling);
}

pub(crate) fn best(candidates: &[Candidate]) -> Option<u32> {
    candidates.iter().min_by(|a, b| falling(a, b)).map(|candidate| candidate.id)
}

/// Modifies the logits of the tokens in `of`. Infinite results are clamped, so that no token is ruled out.
pub(crate) fn change<T>(candidates: &mut [Candidate], of: &HashMap<u32, T>, by: impl Fn(f32, &T) -> f32) {
    let change = |candidate: &mut Candidate, of: &T| {
        candidate.logit = by(candidate.logit, of).clamp(f32::MIN, f32::MAX);
    };
    if of.len() < candidates.len() && candidates.is_sorted_by_key(|candidate| candidate.id) {
        for (id, of) in of {
            if let Ok(at) = candidates.binary_search_by_key(id, |candidate| candidate.id) {
                change(&mut candidates[at], of);
            }
        }
        return;
    }
    for candidate in candidates {
        if let Some(of) = of.get(&candidate.id) {
            change(candidate, of);
        }
    }
}

pub(crate) fn probability(candidates: &[Candidate], id: u32) -> f64 {
    let (weights, total) = weights(candidates);
    let found = candidates.iter().zip(weights).find(|(candidate, _)| candidate.id == id);
    found.map_or(0.0, |(_, weight)| weight / total)
}

/// Draws a token with probability proportional to `exp(logit)`; `u` is from `[0, 1)`.
///
/// Tokens are in the order of their ids, so that `u` selects the same token in whatever order the filters left them.
pub(crate) fn draw(candidates: &mut [Candidate], u: f64) -> Option<u32> {
    candidates.sort_unstable_by_key(|candidate| candidate.id);
    let best = f64::from(best_logit(candidates));
    let weigh = |candidate: &Candidate| (f64::from(candidate.logit) - best).exp();
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

/// Probability of each candidate up to a common factor, and their sum.
pub(crate) fn weights(candidates: &[Candidate]) -> (Vec<f64>, f64) {
    let best = f64::from(best_logit(candidates));
    let weights: Vec<f64> = candidates.iter().map(|c| (f64::from(c.logit) - best).exp()).collect();
    let total = weights.iter().sum();
    (weights, total)
}

pub(crate) fn best_logit(candidates: &[Candidate]) -> f32 {
    candidates.iter().map(|candidate| candidate.logit).fold(f32::NEG_INFINITY, f32::max)
}

/// Keeps the candidates of lowest rank, up to the first at which the sum of weights is `enough`.
/// `ranks` holds the rank and weight of each. Usually few are kept, so only a growing front of the list is sorted.
pub(crate) fn keep_until(
    candidates: &mut Vec<Candidate>,
    ranks: Vec<(f64, f64)>,
    enough: impl Fn(f64) -> bool,
) {
    type Ranked = ((f64, f64), Candidate);
    let mut ranked: Vec<Ranked> = ranks.into_iter().zip(candidates.drain(..)).collect();
    let order = |(a, x): &Ranked, (b, y): &Ranked| a.0.total_cmp(&b.0).then(x.id.cmp(&y.id));
    let (mut rest, mut front, mut sum) = (&mut *ranked, 128, 0.0);
    while !rest.is_empty() {
        let take = front.min(rest.len());
        if take < rest.len() {
            rest.select_nth_unstable_by(take - 1, order);
        }
        let (sorted, others) = rest.split_at_mut(take);
        sorted.sort_unstable_by(order);
        for ((_, weight), candidate) in sorted {
            candidates.push(*candidate);
            sum += *weight;
            if enough(sum) {
                return;
            }
        }
        (rest, front) = (others, front * 4);
    }
}
