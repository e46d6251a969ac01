//! Routing weights of experts.

use graph::{Gating, Router};

#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// By expert: what the choice is made by.
    ranks: Vec<f64>,
    /// The experts, later the chosen ones.
    order: Vec<u32>,
    /// The rank of each group, and its number.
    groups: Vec<(f64, u32)>,
}

/// The routing weights of a row; see [`graph::Op::Route`].
pub(crate) fn route(
    y: &mut [f32],
    logits: &[f32],
    bias: Option<&[f32]>,
    router: Router,
    ranking: &mut Ranking,
) {
    let Router { used, gating, renormalises, scale, groups } = router;
    let experts = 0..logits.len() as u32;
    let logit = |expert: u32| f64::from(logits[expert as usize]);
    // The weights before the choice, up to a factor that all share.
    let (max, total) = match gating {
        Gating::Softmax => softmax(experts.clone().map(logit)),
        Gating::ChosenSoftmax | Gating::Sigmoid => (0.0, 1.0),
    };
    let weight = |expert: u32| match gating {
        Gating::ChosenSoftmax => logit(expert),
        Gating::Softmax => (logit(expert) - max).exp() / total,
        Gating::Sigmoid => 1.0 / (1.0 + (-logit(expert)).exp()),
    };
    let Ranking { ranks, order, groups: ranked } = ranking;
    ranks.clear();
    ranks.extend(experts.clone().map(|expert| {
        let rank = weight(expert) + bias.map_or(0.0, |bias| f64::from(bias[expert as usize]));
        if rank.is_nan() { f64::NAN } else { rank }
    }));
    order.clear();
    order.extend(experts.clone());
    if let Some([count, used]) = groups {
        let size = logits.len() / count;
        ranked.clear();
        ranked.extend(ranks.chunks_exact(size).zip(0..).map(|(ranks, group)| (group_rank(ranks), group)));
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let ranked = &ranked[..used];
        order.retain(|&expert| ranked.iter().any(|&(_, group)| group == expert / size as u32));
    }
    let rank = |expert: u32| ranks[expert as usize];
    let larger_first = |&a: &u32, &b: &u32| rank(b).total_cmp(&rank(a)).then(a.cmp(&b));
    if used < order.len() {
        order.select_nth_unstable_by(used, larger_first);
        order.truncate(used);
    }
    order.sort_unstable_by(larger_first);
    let (max, total) = match gating {
        Gating::ChosenSoftmax => softmax(order.iter().copied().map(logit)),
        Gating::Softmax | Gating::Sigmoid => (max, total),
    };
    let weight = |expert: u32| match gating {
        Gating::ChosenSoftmax => (logit(expert) - max).exp() / total,
        Gating::Softmax | Gating::Sigmoid => weight(expert),
    };
    let sum = || order.iter().map(|&expert| weight(expert)).sum::<f64>();
    let sum = if renormalises { sum().max(0.5f64.powi(14)) } else { 1.0 };
    y.fill(0.0);
    let is_valid = largest(experts.map(logit)).is_finite();
    for &expert in &*order {
        let weight = if is_valid { weight(expert) / sum } else { f64::NAN };
        y[expert as usize] = (weight * f64::from(scale)) as f32;
    }
}

/// The largest logit, NaN if any is, and the sum of the exponentials of the others relative to it.
fn softmax(logits: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let max = largest(logits.clone());
    (max, logits.map(|x| (x - max).exp()).sum())
}

/// The largest logit; NaN if any is.
fn largest(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    let larger = |max: f64, x: f64| if max >= x { max } else { x };
    if logits.clone().any(f64::is_nan) { f64::NAN } else { logits.fold(f64::NEG_INFINITY, larger) }
}

/// The sum of the two largest ranks.
fn group_rank(ranks: &[f64]) -> f64 {
    let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for &rank in ranks {
        if rank.total_cmp(&first).is_gt() {
            (first, second) = (rank, first);
        } else if rank.total_cmp(&second).is_gt() {
            second = rank;
        }
    }
    match if ranks.len() > 1 { first + second } else { first } {
        sum if sum.is_nan() => f64::NAN,
        sum => sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(logits: &[f32], bias: Option<&[f32]>, router: Router) -> Vec<f32> {
        let mut y = vec![f32::NAN; logits.len()];
        let mut ranking = Ranking { ranks: vec![9.0], order: vec![7; 3], groups: vec![(1.0, 2)] };
        route(&mut y, logits, bias, router, &mut ranking);
        y
    }

    fn close(found: Vec<f32>, expected: &[f32]) {
        let is_close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7);
        assert!(found.len() == expected.len() && is_close, "{found:?}, expected {expected:?}");
    }

    /// softmax(ln 2, ln 6) is 1/4, 3/4.
    #[test]
    fn routes_go_to_the_largest_logits() {
        let of = |logits: &[f32], used| routes(logits, None, Router::new(used));
        let logits = [0.5, 2f32.ln(), -3.0, 6f32.ln()];
        close(of(&logits, 2), &[0.0, 0.25, 0.0, 0.75]);
        close(of(&logits, 1), &[0.0, 0.0, 0.0, 1.0]);
        close(of(&[1.0, 3.0, 3.0, 3.0, 1.0], 2), &[0.0, 0.5, 0.5, 0.0, 0.0]);
        close(of(&[1.0, f32::NEG_INFINITY], 2), &[1.0, 0.0]);
        close(of(&[1e30, -1e30, 1e30], 3), &[0.5, 0.0, 0.5]);
        let found = of(&[1.0, f32::NAN, 2.0], 2);
        assert!(found[0] == 0.0 && found[1].is_nan() && found[2].is_nan(), "{found:?}");
    }

    /// Probabilities 1/8, 1/8, 1/4, 1/2; sigmoids 1/2, 2/3, 3/4, 4/5.
    #[test]
    fn gating_bias_scale_and_groups() {
        let (all, logits) = (Router::new(2), [1.0, 1.0, 2.0, 4.0].map(f32::ln));
        let softmax = Router { gating: Gating::Softmax, ..all };
        close(routes(&logits, None, softmax), &[0.0, 0.0, 0.25, 0.5]);
        let renormalised = Router { renormalises: true, scale: 3.0, ..softmax };
        close(routes(&logits, None, renormalised), &[0.0, 0.0, 1.0, 2.0]);
        let logits = [1.0, 2.0, 3.0, 4.0].map(f32::ln);
        let sigmoid = Router { gating: Gating::Sigmoid, ..all };
        close(routes(&logits, None, sigmoid), &[0.0, 0.0, 0.75, 0.8]);
        // The bias decides, but does not enter the weights.
        close(routes(&logits, Some(&[0.4, 0.0, 0.0, 0.0]), sigmoid), &[0.5, 0.0, 0.0, 0.8]);
        let grouped = Router { groups: Some([2, 1]), ..sigmoid };
        close(routes(&logits, Some(&[0.2, 0.2, 0.0, 0.0]), grouped), &[0.5, 2.0 / 3.0, 0.0, 0.0]);
        close(routes(&logits, Some(&[0.15, 0.2, 0.0, 0.0]), grouped), &[0.0, 0.0, 0.75, 0.8]);
    }
}
