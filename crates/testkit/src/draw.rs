//! How a token is drawn, as the papers and llama.cpp define it: with all candidates, one filter after another, nothing clever.

use backend::{Draw, Filter, Input, Output, Outputs, Penalties, Row, Step, greedy_token};

/// The tokens that a device chooses in `step`, drawn or greedy, from the `logits` of its output rows; [`Outputs::NO_TOKEN`] where none is
/// possible.
pub fn chosen(step: &Step, logits: &[f32]) -> Vec<u32> {
    let cols = logits.len() / step.outputs().len().max(1);
    let choose = |((row, output), logits): ((usize, &Output), &[f32])| match output {
        Output::Draw(draw) => drawn(logits, draw, token(&step.rows()[row])),
        _ => greedy_token(logits),
    };
    let rows = step.outputs().zip(logits.chunks_exact(cols.max(1)));
    rows.map(|row| choose(row).unwrap_or(Outputs::NO_TOKEN)).collect()
}

/// The token of a row that has one.
pub fn token(row: &Row) -> u32 {
    if let Input::Token(token) = row.input { token } else { panic!("{row:?} has no token") }
}

/// The token that `draw` gives for a row of `logits` whose own token is `own`; none if a logit is NaN or +∞, or no token is possible.
pub fn drawn(logits: &[f32], draw: &Draw, own: u32) -> Option<u32> {
    drawn_near(logits, draw, own, [0.0; 2])
}

/// How far sums over the whole vocabulary may be from those in another order, as a part of the total.
const NEAR: f64 = 1e-12;

/// Whether `draw` gives `token`. Sums over the whole vocabulary may be of another order, so that `u` and `p` count as up to 1e-12
/// more or less.
pub fn is_drawn(token: Option<u32>, logits: &[f32], draw: &Draw, own: u32) -> bool {
    let near: &[f64] = if draw.is_of_best() { &[0.0] } else { &[0.0, NEAR, -NEAR] };
    let mut errors = near.iter().flat_map(|u| near.iter().map(move |p| [*u, *p]));
    errors.any(|errors| drawn_near(logits, draw, own, errors) == token)
}

/// The same with errors of `u` and of `p`.
fn drawn_near(logits: &[f32], draw: &Draw, own: u32, [u_error, p_error]: [f64; 2]) -> Option<u32> {
    if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
        return None;
    }
    let mut all = logits.to_vec();
    for &(id, bias) in &*draw.biases {
        if let Some(logit) = all.get_mut(id as usize) {
            *logit = (*logit + bias).min(f32::MAX);
        }
    }
    if let Some(penalties) = &draw.penalties {
        penalise(&mut all, penalties, own);
    }
    let mut kept = crate::best(&all, if draw.top_k == 0 { usize::MAX } else { draw.top_k });
    for filter in &*draw.filters {
        // The lower id first among equals, whatever the filter before has made equal.
        kept.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("numbers").then(a.0.cmp(&b.0)));
        match *filter {
            Filter::TopP(p) => top_p(&mut kept, f64::from(p) + p_error),
            // In logarithms, as llama.cpp does.
            Filter::MinP(p) => {
                let least = kept.first()?.1 + p.ln();
                kept.retain(|(_, logit)| *logit >= least);
            }
            Filter::Temperature(temperature) => {
                let best = f64::from(kept.first()?.1);
                let is_one = kept.len() == 1;
                for (_, logit) in &mut kept {
                    let below = f64::from(*logit) - best;
                    *logit = if below < 0.0 { (below / f64::from(temperature)) as f32 } else { 0.0 };
                }
                kept.retain(|(_, logit)| is_one || *logit > f32::NEG_INFINITY);
            }
        }
    }
    let weights = weights(&kept);
    let mut by_id: Vec<(u32, f64)> = kept.iter().map(|(id, _)| *id).zip(weights).collect();
    by_id.sort_by_key(|(id, _)| *id);
    let target = (draw.u + u_error) * by_id.iter().map(|(_, weight)| weight).sum::<f64>();
    by_id.retain(|(_, weight)| *weight > 0.0);
    let mut sum = 0.0;
    let reached = by_id.iter().find(|(_, weight)| {
        sum += weight;
        sum > target
    });
    reached.or(by_id.last()).map(|(id, _)| *id)
}

/// CTRL's repeat penalty (Keskar et al. 2019), which lowers negative logits, too; frequency and presence penalties as OpenAI's API
/// defines them.
fn penalise(logits: &mut [f32], penalties: &Penalties, own: u32) {
    let Penalties { repeat, frequency, presence, counts } = penalties;
    let mut counts: std::collections::BTreeMap<u32, u32> = counts.iter().copied().collect();
    *counts.entry(own).or_default() += 1;
    for (id, n) in counts {
        let Some(logit) = logits.get_mut(id as usize).filter(|logit| **logit > f32::NEG_INFINITY) else {
            continue;
        };
        let repeated = if *logit > 0.0 { *logit / repeat } else { *logit * repeat };
        *logit = (repeated - (n as f32 * frequency + presence)).clamp(f32::MIN, f32::MAX);
    }
}

/// Holtzman et al. 2020: the smallest set of the most probable tokens whose probabilities reach `p`.
fn top_p(kept: &mut Vec<(u32, f32)>, p: f64) {
    let weights = weights(kept);
    let enough = p * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum >= enough
    });
    kept.truncate(reached.map_or(usize::MAX, |last| last + 1));
}

/// Probabilities up to a common factor.
fn weights(kept: &[(u32, f32)]) -> Vec<f64> {
    let best = kept.iter().map(|(_, logit)| f64::from(*logit)).fold(f64::NEG_INFINITY, f64::max);
    kept.iter().map(|(_, logit)| (f64::from(*logit) - best).exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits ln 1, ln 2, ln 4, ln 8 and an impossible one: probabilities of 1, 2, 4 and 8 of 15.
    fn logits() -> Vec<f32> {
        [1f32, 2.0, 4.0, 8.0, 0.0].map(f32::ln).to_vec()
    }

    fn with(u: f64, filters: &[Filter]) -> Option<u32> {
        drawn(&logits(), &draw(u, filters), 4)
    }

    fn draw(u: f64, filters: &[Filter]) -> Draw {
        Draw { u, biases: [].into(), penalties: None, top_k: 9, filters: filters.into() }
    }

    #[test]
    fn tokens_share_the_interval_in_the_order_of_ids() {
        let at = |fifteenths: f64| with(fifteenths / 15.0, &[]);
        assert_eq!(
            [0.0, 0.99, 1.01, 2.99, 3.01, 6.99, 7.01, 14.99].map(at).map(Option::unwrap),
            [0, 0, 1, 1, 2, 2, 3, 3]
        );
    }

    #[test]
    fn filters_keep_what_they_say() {
        // Half of 15 is less than the 8 of the best; 0.6 needs the 4 as well.
        assert_eq!(with(0.0, &[Filter::TopP(0.5)]), Some(3));
        assert_eq!(with(0.0, &[Filter::TopP(0.6)]), Some(2));
        assert_eq!(with(0.0, &[Filter::MinP(0.2)]), Some(1));
        assert_eq!(with(0.0, &[Filter::MinP(0.3)]), Some(2));
        // Probabilities of 1, 4, 16 and 64 of 85: three quarters are less than 64, but more than 8 of 15.
        assert_eq!(with(0.0, &[Filter::Temperature(0.5), Filter::TopP(0.75)]), Some(3));
        assert_eq!(with(0.0, &[Filter::TopP(0.75), Filter::Temperature(0.5)]), Some(2));
        assert_eq!(with(0.0, &[Filter::Temperature(1e-45)]), Some(3));
        // Three of eight equal ones, the lowest ids.
        let rising: Vec<f32> = (0..8).map(|i| i as f32 * 1e-30).collect();
        let equal = draw(0.99, &[Filter::Temperature(1e30), Filter::TopP(0.3)]);
        assert_eq!(drawn(&rising, &equal, 0), Some(2));
    }

    #[test]
    fn all_tokens_are_kept_without_top_k() {
        let drawn = |top_k, u| drawn(&logits(), &Draw { top_k, ..draw(u, &[]) }, 4);
        // The largest two are 4 and 8 of 12.
        assert_eq!([0, 2, 4].map(|top_k| drawn(top_k, 0.1)), [Some(1), Some(2), Some(1)]);
        assert_eq!([0, 2, 4].map(|top_k| drawn(top_k, 0.99)), [Some(3); 3]);
    }

    /// Tokens 2 and 3 meet at 7 of 15.
    #[test]
    fn sums_of_all_tokens_are_of_any_order() {
        let is_drawn = |token, top_k, u| is_drawn(Some(token), &logits(), &Draw { top_k, ..draw(u, &[]) }, 4);
        let border =
            1.0 - f64::from(8f32.ln()).exp() / logits().iter().map(|x| f64::from(*x).exp()).sum::<f64>();
        for (above, found) in [(-1e-13, [true, true]), (1e-13, [true, true]), (-1e-11, [true, false])] {
            assert_eq!([2, 3].map(|token| is_drawn(token, 0, border + above)), found, "{above}");
        }
        assert_eq!([2, 3].map(|token| is_drawn(token, 9, border + 1e-13)), [false, true]);
    }

    #[test]
    fn penalties_count_the_own_token() {
        let penalties = |repeat, frequency, presence, counts: &[(u32, u32)]| {
            let penalties = Some(Penalties { repeat, frequency, presence, counts: counts.to_vec() });
            Draw { penalties, top_k: 1, ..draw(0.0, &[]) }
        };
        // ln 8 - 0.7 is less than ln 4 + 0.01.
        assert_eq!(drawn(&logits(), &penalties(1.0, 0.0, 0.7, &[]), 3), Some(2));
        assert_eq!(drawn(&logits(), &penalties(1.0, 0.0, 0.7, &[]), 2), Some(3));
        // Twice 0.4.
        assert_eq!(drawn(&logits(), &penalties(1.0, 0.4, 0.0, &[(3, 1)]), 3), Some(2));
        assert_eq!(drawn(&logits(), &penalties(1.0, 0.4, 0.0, &[(3, 1)]), 0), Some(3));
        // 2.08 / 2 is less than 1.39; a negative one falls too.
        assert_eq!(drawn(&logits(), &penalties(2.0, 0.0, 0.0, &[]), 3), Some(2));
        assert_eq!(drawn(&[-1.0, -1.5], &penalties(2.0, 0.0, 0.0, &[]), 0), Some(1));
    }

    #[test]
    fn biases_rule_out() {
        let biased = |biases: &[(u32, f32)]| Draw { biases: biases.into(), top_k: 1, ..draw(0.0, &[]) };
        assert_eq!(drawn(&logits(), &biased(&[(3, f32::NEG_INFINITY)]), 0), Some(2));
        assert_eq!(drawn(&logits(), &biased(&[(1, 1.0), (1, 1.0)]), 0), Some(1));
        assert_eq!(drawn(&[1.0], &biased(&[(0, f32::NEG_INFINITY)]), 0), None);
        assert_eq!(drawn(&[1.0, f32::NAN], &biased(&[(1, f32::NEG_INFINITY)]), 0), None);
    }
}
