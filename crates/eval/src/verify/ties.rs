//! Experts that are chosen differently in two runs because they are nearly tied.
//!
//! A router chooses the `k` experts with the largest scores. Rounding errors of a row's activations change the gap between
//! the last chosen expert and the first rejected one, and exchange them if the gap is smaller than the change. How much
//! rounding changes this gap is observed at all positions. An exchange at one of them is explained if its change is of that
//! size, and all exchanges are if there are as many as gaps and changes of that size give.

use std::collections::BTreeMap;
use std::f64::consts::FRAC_1_SQRT_2;

use engine::Model;
use graph::{Activation, Gating, Op};
use runner::FileWeights;

use super::Failure;
use super::logits::nmse;

/// Limit of the change that exchanges experts, in standard deviations of changes. Rounding errors are sums of many terms and
/// nearly normal: of a million changes, less than one exceeds 5 deviations. Rows with outliers have larger errors than the
/// median row, from which the deviation is estimated.
const MAX_CHANGE: f64 = 6.0;

/// Median of the absolute value of a normal variable, in standard deviations.
const MEDIAN: f64 = 0.6745;

/// The choices of a model's routers in two runs of a text.
pub(super) struct Ties {
    routers: Vec<Router>,
    /// By router and stage, the gaps of all rows whose earlier choices are the same in both runs.
    gaps: BTreeMap<(usize, usize), Vec<Gap>>,
    /// By position, its first different choice.
    exchanges: BTreeMap<usize, Exchange>,
}

struct Router {
    /// The name of its logits.
    name: String,
    router: graph::Router,
    bias: Option<Vec<f32>>,
}

/// The choice of those with the largest scores: of groups, then of the experts in them.
#[derive(Debug)]
struct Choice {
    of: &'static str,
    scores: Vec<f64>,
    /// How much a score changes with its logits: rounding hardly changes a sigmoid near 1.
    slopes: Vec<f64>,
    used: usize,
}

/// Between the last chosen and the first rejected of the first run, in units of logits.
#[derive(Clone, Copy, Debug)]
struct Gap {
    size: f64,
    /// How much the second run's gap between the two differs.
    change: f64,
}

#[derive(Clone, Debug)]
struct Exchange {
    router: usize,
    stage: usize,
    of: &'static str,
    /// Chosen in the first run only, and in the second run only.
    chosen: [usize; 2],
    /// Between the two, in units of logits: positive in the first run and negative in the second.
    gaps: [f64; 2],
    /// NMSE of the router's logits.
    nmse: f64,
}

impl Ties {
    /// Of the routers of `model`.
    ///
    /// # Errors
    /// If the file lacks the bias of a router.
    pub(super) fn new(model: &Model) -> Result<Ties, Failure> {
        let (graph, mut routers) = (model.graph(), Vec::new());
        for (_, value) in graph.values() {
            let Op::Route { logits, bias, router } = value.op else { continue };
            let file = FileWeights(model.file());
            let bias = bias.map(|id| {
                let weight = backend::Weights::weight(&file, graph.weight(id));
                weight.map(|weight| weight.vector()).ok_or_else(|| {
                    format!("the file lacks `{}`, which `{}` needs", graph.weight(id).tensor, value.name)
                })
            });
            let name = graph.value(logits).name.clone();
            routers.push(Router { name, router, bias: bias.transpose()? });
        }
        Ok(Ties { routers, gaps: BTreeMap::new(), exchanges: BTreeMap::new() })
    }

    /// Whether the model has no routers.
    pub(super) fn is_empty(&self) -> bool {
        self.routers.is_empty()
    }

    /// The names of the routers' logits, in the order of computation.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.routers.iter().map(|router| &*router.name)
    }

    /// Adds the row at `position`: per router its logits in both runs, if it has them. Returns whether a choice differs.
    pub(super) fn add(&mut self, position: usize, rows: &[Option<[Vec<f32>; 2]>]) -> bool {
        for (number, (router, runs)) in self.routers.iter().zip(rows).enumerate() {
            let Some(runs) = runs else { continue };
            let [first, second] = runs.each_ref().map(|logits| router.choices(logits));
            for (stage, (first, second)) in first.iter().zip(&second).enumerate() {
                self.gaps.entry((number, stage)).or_default().extend(first.gap(second));
                if let Some((chosen, gaps)) = first.exchange(second) {
                    let [a, b] = runs.each_ref().map(|logits| centred(logits));
                    let (router, of, nmse) = (number, first.of, nmse(&a, &b));
                    self.exchanges.insert(position, Exchange { router, stage, of, chosen, gaps, nmse });
                    // What follows depends on the choice.
                    return true;
                }
            }
        }
        false
    }

    /// Fails, with the reason, unless the first different choice at `position` is between near ties: the router's logits of
    /// both runs agree within `limit`, an NMSE, and the change of the gap is one that rounding makes.
    pub(super) fn explain(&self, position: usize, limit: f64) -> Result<(), String> {
        let Some(exchange) = self.exchanges.get(&position) else {
            return Err("all routers chose the same experts".to_owned());
        };
        let Exchange { router, stage, of, chosen: [a, b], gaps: [gap, back], nmse } = *exchange;
        let name = &self.routers[router].name;
        let place = format!("by `{name}` {of} {b} is chosen in place of {a}");
        // False for NaN, too.
        let is_close = nmse <= limit;
        if !is_close {
            return Err(format!("{place}, and the router's logits there differ by NMSE {nmse:.2e}"));
        }
        let (change, deviation) = (gap - back, self.deviation(router, stage));
        let is_typical = change <= MAX_CHANGE * deviation;
        if !is_typical {
            return Err(format!(
                "{place}, which is no near tie: their gap is {gap:.2e} token by token and {back:.2e} at once, a change of \
                 {change:.2e}, where gaps change by {deviation:.2e} (limit {MAX_CHANGE} times that)"
            ));
        }
        Ok(())
    }

    /// Fails, with the reason, if more positions have different choices than near ties give. With a standard deviation `d` of
    /// changes, a gap `g` changes its sign with a probability of at most `exp(-g^2 / 2 d^2) / 2` (Chernoff's bound of the
    /// normal distribution). The limit is three deviations above that sum, and 3, because one rare case must not fail.
    pub(super) fn are_as_many_as_expected(&self) -> Result<(), String> {
        let of_choice = |(&(router, stage), gaps): (&(usize, usize), &Vec<Gap>)| {
            let deviation = self.deviation(router, stage);
            let probability = |gap: &Gap| (-0.5 * (gap.size / deviation).powi(2)).exp() / 2.0;
            // A deviation of 0 exchanges nothing.
            gaps.iter().map(probability).filter(|probability| probability.is_finite()).sum::<f64>()
        };
        let expected: f64 = self.gaps.iter().map(of_choice).sum();
        let (found, most) = (self.exchanges.len(), expected + 3.0 * expected.sqrt() + 3.0);
        if found as f64 <= most {
            return Ok(());
        }
        Err(format!(
            "experts are chosen differently at {found} positions, and rounding explains {expected:.1} (limit {most:.0})"
        ))
    }

    /// Standard deviation of the changes of gaps, from their median, which few wrong rows do not move.
    fn deviation(&self, router: usize, stage: usize) -> f64 {
        let gaps = self.gaps.get(&(router, stage)).map_or(&[][..], Vec::as_slice);
        let mut changes: Vec<f64> = gaps.iter().map(|gap| gap.change).collect();
        changes.sort_by(f64::total_cmp);
        changes.get(changes.len() / 2).map_or(0.0, |median| median / MEDIAN)
    }
}

impl Router {
    /// The choices that follow from a row's logits, as [`Op::Route`] defines them.
    fn choices(&self, logits: &[f32]) -> Vec<Choice> {
        let graph::Router { used, gating, groups, .. } = self.router;
        let logits: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
        let ones = || vec![1.0; logits.len()];
        let (mut scores, slopes) = match (gating, &self.bias, groups) {
            // Weights rise with logits.
            (Gating::ChosenSoftmax, ..) | (_, None, None) => (logits.clone(), ones()),
            (Gating::Sigmoid, ..) => {
                let sigmoids: Vec<f64> = logits.iter().map(|&logit| Activation::Sigmoid.of(logit)).collect();
                let slopes = sigmoids.iter().map(|sigmoid| sigmoid * (1.0 - sigmoid)).collect();
                (sigmoids, slopes)
            }
            (Gating::Softmax, ..) => {
                let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                let weights: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
                let slopes = weights.iter().map(|weight| weight * (1.0 - weight)).collect();
                (weights, slopes)
            }
        };
        for (score, &bias) in scores.iter_mut().zip(self.bias.iter().flatten()) {
            *score += f64::from(bias);
        }
        let mut choices = Vec::new();
        if let Some([count, used]) = groups {
            let size = scores.len() / count;
            let (mut sums, mut slopes_of_groups) = (Vec::new(), Vec::new());
            for group in 0..count {
                let mut members: Vec<usize> = (group * size..(group + 1) * size).collect();
                members.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
                members.truncate(2);
                sums.push(members.iter().map(|&expert| scores[expert]).sum());
                slopes_of_groups.push(members.iter().map(|&expert| slopes[expert]).fold(0.0, f64::hypot));
            }
            let groups = Choice { of: "group", scores: sums, slopes: slopes_of_groups, used };
            let order = groups.order();
            for &group in &order[used..] {
                scores[group * size..][..size].fill(f64::NEG_INFINITY);
            }
            choices.push(groups);
        }
        choices.push(Choice { of: "expert", scores, slopes, used });
        choices
    }
}

impl Choice {
    /// All, the largest score first, of equal ones that with the lower index.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.scores.len()).collect();
        order.sort_by(|&a, &b| self.scores[b].total_cmp(&self.scores[a]));
        order
    }

    /// `None` if nothing is rejected.
    fn gap(&self, other: &Choice) -> Option<Gap> {
        let order = self.order();
        let (&a, &b) = (order.get(self.used.checked_sub(1)?)?, order.get(self.used)?);
        let [size, second] = self.gaps(other, [a, b]);
        let change = (size - second).abs();
        (size.is_finite() && change.is_finite()).then_some(Gap { size, change })
    }

    /// The pair with the widest gap that was exchanged, and its gaps in both runs; `None` if the choices are the same.
    fn exchange(&self, other: &Choice) -> Option<([usize; 2], [f64; 2])> {
        let [ours, theirs] = [self, other].map(Choice::order);
        let a = *ours[..self.used].iter().find(|index| !theirs[..self.used].contains(index))?;
        let b = *ours[self.used..].iter().rfind(|index| theirs[..self.used].contains(index))?;
        Some(([a, b], self.gaps(other, [a, b])))
    }

    /// The gap between two in both runs, divided by the root mean square of their larger slopes.
    fn gaps(&self, other: &Choice, [a, b]: [usize; 2]) -> [f64; 2] {
        let slope = |index: usize| self.slopes[index].max(other.slopes[index]);
        let unit = slope(a).hypot(slope(b)) * FRAC_1_SQRT_2;
        [self, other].map(|choice| (choice.scores[a] - choice.scores[b]) / unit)
    }
}

/// The logits without their mean, which no choice depends on.
fn centred(logits: &[f32]) -> Vec<f32> {
    let mean = logits.iter().sum::<f32>() / logits.len() as f32;
    logits.iter().map(|logit| logit - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ties of one router without a bias.
    fn ties(router: graph::Router) -> Ties {
        let router = Router { name: "logits".to_owned(), router, bias: None };
        Ties { routers: vec![router], gaps: BTreeMap::new(), exchanges: BTreeMap::new() }
    }

    /// Adds 150 rows of 4 experts. The gap between the second and the third is `gap(row)`, and then changes by `change(row)`.
    fn add(ties: &mut Ties, gap: impl Fn(usize) -> f32, change: impl Fn(usize) -> f32) {
        for row in 0..150 {
            let first = vec![3.0, 1.0 + gap(row), 1.0, -2.0];
            let second = vec![3.0, 1.0 + gap(row) + change(row), 1.0, -2.0];
            ties.add(row, &[Some([first, second])]);
        }
    }

    fn noise(row: usize) -> f32 {
        [-0.01, 0.005, 0.02, -0.005, 0.01][row % 5]
    }

    #[test]
    fn only_the_change_of_a_near_tie_is_explained() {
        for (size, change, why) in [
            (0.02, -0.03, None),
            (0.02, -0.2, Some("expert 2 is chosen in place of 1, which is no near tie")),
            (1.0, -5.0, Some("the router's logits there differ by NMSE")),
            (0.02, f32::NAN, Some("all routers chose the same experts")),
            (0.02, 0.3, Some("all routers chose the same experts")),
        ] {
            let mut ties = ties(graph::Router::new(2));
            let of = |row, special, other| if row == 70 { special } else { other };
            add(&mut ties, |row| of(row, size, 1.0), |row| of(row, change, noise(row)));
            let result = ties.explain(70, 2e-2);
            match (why, &result) {
                (None, Ok(())) => {}
                (Some(why), Err(found)) if found.contains(why) => {}
                _ => panic!("{size} {change}: {result:?}"),
            }
        }
    }

    /// Gaps of three deviations: one of 740 is exchanged.
    #[test]
    fn no_more_are_exchanged_than_rounding_explains() {
        for (every, is_good) in [(50, true), (5, false)] {
            let mut ties = ties(graph::Router::new(2));
            let is_exchanged = |row: usize| row.is_multiple_of(every);
            let change = |row| if is_exchanged(row) { -0.05 } else { noise(row) };
            add(&mut ties, |_| 0.0445, change);
            assert!((0..150).filter(|&row| is_exchanged(row)).all(|row| ties.explain(row, 2e-2).is_ok()));
            let result = ties.are_as_many_as_expected();
            assert_eq!(result.is_ok(), is_good, "{every}: {result:?}");
        }
    }

    /// The groups' sums of two are 4, 3.9 or more, and 2.
    #[test]
    fn groups_are_chosen_first() {
        let groups = graph::Router { groups: Some([3, 1]), ..graph::Router::new(1) };
        let mut ties = ties(groups);
        let row = |last: f32| vec![1.0, 3.0, last, 2.0, 1.0, 1.0];
        assert!(!ties.add(0, &[Some([row(1.9), row(1.95)])]));
        assert!(ties.add(1, &[Some([row(1.9), row(2.1)])]));
        let exchange = &ties.exchanges[&1];
        assert_eq!((exchange.of, exchange.chosen), ("group", [0, 1]));
        // The error of a sum of two logits is sqrt(2) times that of one.
        let gap = 0.1 * FRAC_1_SQRT_2;
        assert!((exchange.gaps[0] - gap).abs() < 1e-6 && (exchange.gaps[1] + gap).abs() < 1e-6);
    }
}
