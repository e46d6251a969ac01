//! Mistakes of choosing experts and of adding up what they make.

use graph::{Activation, Op, ValueId, WeightId};

use super::{Candidate, Diagnosis, Rank, elementwise, general};
use crate::activation::sigmoid;
use crate::{Error, Matrix};

/// Experts up to which each is looked at alone.
const MOST: usize = 64;

/// Mistakes of [`Op::Route`].
pub(super) fn route(diagnosis: &mut Diagnosis<'_>, logits: ValueId, used: usize) {
    let s = diagnosis.candidate;
    let [x] = &s.inputs[..] else { return };
    let experts = x.cols;
    let mut number = |used: usize, text: String| {
        if (1..=experts).contains(&used) {
            diagnosis.try_run("route-used", Rank::Known, text, s.as_op(Op::Route { logits, used }));
        }
    };
    number(experts, "all experts are used: the softmax is over all logits, none is set to 0".into());
    number(used + 1, format!("rows use {} of {experts} experts, not {used}", used + 1));
    number(used - 1, format!("rows use {} of {experts} experts, not {used}", used - 1));
    let lowest = s.on(&[&x.map(|x| -x)]);
    diagnosis.try_run("route-order", Rank::Known, "the experts of the smallest logits are chosen", lowest);

    // The chosen experts with other weights: `of` makes them from the logits and those of a row.
    let weighed = |of: &dyn Fn(f64, &[f64]) -> f64, is_normalized: bool| {
        let mut made = s.expected.clone();
        for (r, y) in made.data.chunks_exact_mut(experts).enumerate() {
            let logits: Vec<f64> = x.row(r).iter().copied().map(f64::from).collect();
            let mut weights: Vec<f64> = logits.iter().map(|&logit| of(logit, &logits)).collect();
            let is_chosen = |e: usize| s.expected.at(r, e) != 0.0;
            let total: f64 = (0..experts).filter(|&e| is_chosen(e)).map(|e| weights[e]).sum();
            if is_normalized {
                weights.iter_mut().for_each(|weight| *weight /= total);
            }
            for (e, y) in y.iter_mut().enumerate() {
                *y = if is_chosen(e) { weights[e] as f32 } else { 0.0 };
            }
        }
        made
    };
    let softmax = |logit: f64, all: &[f64]| {
        let max = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (logit - max).exp() / all.iter().map(|x| (x - max).exp()).sum::<f64>()
    };
    let mut known = |kind, text: &str, made: Matrix| diagnosis.try_out(kind, Rank::Known, text, &made);
    known(
        "route-normalized",
        "the softmax is over all logits and what the chosen experts have of it is not divided by their sum",
        weighed(&softmax, false),
    );
    known(
        "route-function",
        "the logits go through a sigmoid, not a softmax",
        weighed(&|x, _| sigmoid(x), false),
    );
    known(
        "route-function",
        "the logits go through a sigmoid and are divided by their sum: it is not a softmax",
        weighed(&|x, _| sigmoid(x), true),
    );
    known("route-function", "the chosen experts all count alike", weighed(&|_, _| 1.0, true));
    known(
        "route-function",
        "the chosen experts have their logits, without softmax",
        weighed(&|x, _| x, false),
    );
}

/// Mistakes of [`Op::Experts`].
pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (Op::Experts { x: x_id, routes: routes_id, gate, up, down, act }, [x, routes]) =
        (s.call.op, &s.inputs[..])
    else {
        return;
    };
    let op = |[gate, up, down]: [WeightId; 3], act| Op::Experts {
        x: x_id,
        routes: routes_id,
        gate,
        up,
        down,
        act,
    };
    let exchanged = s.as_op(op([up, gate, down], act));
    diagnosis.try_run("gate-exchanged", Rank::Known, "gate and up of the experts are exchanged", exchanged);
    let other = match act {
        Activation::Silu => Activation::GeluTanh,
        Activation::GeluTanh => Activation::Silu,
    };
    let [own, wrong] = [act, other].map(elementwise::called);
    let text = format!("the experts' gates go through {wrong}, not {own}");
    diagnosis.try_run("gate-function", Rank::Known, text, s.as_op(op([gate, up, down], other)));

    let used = routes.map(|p| if p != 0.0 { 1.0 } else { 0.0 });
    diagnosis.try_run(
        "experts-weight",
        Rank::Known,
        "what the experts make is added up without their weights",
        s.on(&[x, &used]),
    );
    diagnosis.try_run(
        "experts-weight",
        Rank::Known,
        "the experts' weights are multiplied with their inputs, not with what they make",
        weighed_before(s, x, routes),
    );
    let squared = s.on(&[x, &routes.map(|p| p * p)]);
    diagnosis.try_run("experts-weight", Rank::Known, "the experts' weights are multiplied twice", squared);
    let first = s.on(&[x, &only_some(routes, |place, _| place == 0)]);
    diagnosis.try_run("experts-used", Rank::Known, "only the expert of the largest weight is added", first);
    let but_last = s.on(&[x, &only_some(routes, |place, all| place + 1 < all)]);
    diagnosis.try_run(
        "experts-used",
        Rank::Known,
        "the expert of the smallest weight is not added",
        but_last,
    );
    for (from, text) in [(1, "before"), (routes.cols - 1, "after")] {
        let shifted =
            Matrix::from_fn(routes.rows, routes.cols, |r, e| routes.at(r, (e + from) % routes.cols));
        let text = format!("experts are off by one: a row gets those {text} the ones that it chose");
        diagnosis.try_run("experts-index", Rank::Known, text, s.on(&[x, &shifted]));
    }
    one(diagnosis, x, routes);
    for weight in [gate, up, down] {
        general::other_weights(diagnosis, weight, "experts' weight");
    }
}

/// The weights of some of the experts that each row chose, by their place among these, the largest weight first, and
/// how many there are; 0 for the others.
fn only_some(routes: &Matrix, is_kept: impl Fn(usize, usize) -> bool) -> Matrix {
    let mut kept = routes.clone();
    for row in kept.data.chunks_exact_mut(routes.cols) {
        let mut chosen: Vec<usize> = (0..row.len()).filter(|&e| row[e] != 0.0).collect();
        chosen.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        let lost = (0..chosen.len()).filter(|&place| !is_kept(place, chosen.len()));
        lost.for_each(|place| row[chosen[place]] = 0.0);
    }
    kept
}

/// The result when inputs are multiplied with the experts' weights: a row for each expert that a row of `x` chose.
fn weighed_before(s: &Candidate<'_>, x: &Matrix, routes: &Matrix) -> Result<Matrix, Error> {
    let all = (0..x.rows).flat_map(|r| (0..routes.cols).map(move |e| (r, e)));
    let pairs: Vec<(usize, usize)> = all.filter(|&(r, e)| routes.at(r, e) != 0.0).collect();
    let scaled = Matrix::from_fn(pairs.len(), x.cols, |i, c| {
        let (r, e) = pairs[i];
        routes.at(r, e) * x.at(r, c)
    });
    let one = Matrix::from_fn(pairs.len(), routes.cols, |i, e| if pairs[i].1 == e { 1.0 } else { 0.0 });
    let parts = s.on(&[&scaled, &one])?;
    let mut made = s.expected.map(|_| 0.0);
    for (i, (r, _)) in pairs.into_iter().enumerate() {
        let row = &mut made.data[r * parts.cols..][..parts.cols];
        row.iter_mut().zip(parts.row(i)).for_each(|(sum, part)| *sum += part);
    }
    Ok(made)
}

/// One expert that is lost, or wrong in itself: the rows that use it are wrong, and no others.
fn one(diagnosis: &mut Diagnosis<'_>, x: &Matrix, routes: &Matrix) {
    let s = diagnosis.candidate;
    if routes.cols > MOST {
        return;
    }
    for expert in 0..routes.cols {
        let users: Vec<usize> = (0..routes.rows).filter(|&r| routes.at(r, expert) != 0.0).collect();
        // Whoever is wrong uses it.
        if users.is_empty() || !s.region.rows.iter().all(|r| users.contains(r)) {
            continue;
        }
        let without =
            Matrix::from_fn(routes.rows, routes.cols, |r, e| if e == expert { 0.0 } else { routes.at(r, e) });
        let text = format!("expert {expert} is not added");
        diagnosis.try_run("expert-lost", Rank::Known, text, s.on(&[x, &without]));
        if users == s.region.rows && users.len() < routes.rows {
            let text = format!(
                "the rows that use expert {expert} are wrong, and no others: look at its matrices, and at how its \
                 rows are gathered"
            );
            diagnosis.note("expert-wrong", text);
        }
    }
}
