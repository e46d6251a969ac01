//! Routing weights of experts.

use graph::{Gating, Router};

/// Scratch of [`route`].
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
    order.extend(experts);
    if let Some([count, used]) = groups {
        let size = logits.len() / count;
        ranked.clear();
        ranked.extend(ranks.chunks_exact(size).zip(0..).map(|(ranks, group)| (of_group(ranks), group)));
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
    let sum = match renormalises {
        true => order.iter().map(|&expert| weight(expert)).sum::<f64>().max(0.5f64.powi(14)),
        false => 1.0,
    };
    y.fill(0.0);
    for &expert in &*order {
        y[expert as usize] = (weight(expert) / sum * f64::from(scale)) as f32;
    }
}

/// The largest logit, NaN if any is, and the sum of the exponentials of the others relative to it.
fn softmax(logits: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let larger = |max: f64, x: f64| if max >= x { max } else { x };
    let max = logits.clone().fold(f64::NEG_INFINITY, larger);
    let max = if logits.clone().any(f64::is_nan) { f64::NAN } else { max };
    (max, logits.map(|x| (x - max).exp()).sum())
}

/// The sum of the two largest ranks.
fn of_group(ranks: &[f64]) -> f64 {
    let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for &rank in ranks {
        if rank.total_cmp(&first).is_gt() {
            (first, second) = (rank, first);
        } else if rank.total_cmp(&second).is_gt() {
            second = rank;
        }
    }
    if ranks.len() > 1 { first + second } else { first }
}
