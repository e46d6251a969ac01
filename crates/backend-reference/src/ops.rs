//! The operations, each a direct transcription of its formula.

use std::num::NonZero;
use std::thread;

use backend::{BoundProgram, Step, Weight};
use graph::{Activation, Map, NormKind, Op, Pairing, Value, ValueId};

use crate::attention::{self, Store};
use crate::sums::{dot, f64s};

/// Computes one value, `[rows, cols]`, from the `results` of earlier values.
pub(crate) fn compute(
    bound: &BoundProgram,
    value: &Value,
    results: &[Vec<f32>],
    step: &Step,
    stores: &mut [Store],
) -> Vec<f32> {
    let result = |id: ValueId| results[id.index()].as_slice();
    let mut out = vec![0.0; step.count(value.rows) * value.cols];
    match value.op {
        Op::Input { cols: _ } => out.copy_from_slice(step.input()),
        Op::Embed { table } => {
            let table = bound.weight(table);
            for (y, &token) in out.chunks_exact_mut(value.cols).zip(step.tokens()) {
                table.format.dequantize(table.row(token as usize), y);
            }
        }
        Op::Linear { x, weight } => linear(&mut out, result(x), bound.weight(weight)),
        Op::Norm { x, kind, weight, eps } => {
            let w = bound.weight(weight).vector();
            for (y, x) in out.chunks_exact_mut(w.len()).zip(result(x).chunks_exact(w.len())) {
                let mut x = f64s(x);
                if kind == NormKind::Layer {
                    let mean = x.iter().sum::<f64>() / x.len() as f64;
                    x.iter_mut().for_each(|x| *x -= mean);
                }
                let scale = 1.0 / (dot(&x, &x) / x.len() as f64 + f64::from(eps)).sqrt();
                for ((y, &x), &w) in y.iter_mut().zip(&x).zip(&w) {
                    *y = (x * scale * f64::from(w)) as f32;
                }
            }
        }
        Op::Rope { x, ref rope } => {
            let factors = rope.factors_for(bound.model().n_ctx()).map(|id| bound.weight(id).vector());
            let frequencies = rope.frequencies(factors.as_deref());
            out.copy_from_slice(result(x));
            for (row, (_, position)) in out.chunks_exact_mut(value.cols).zip(step.rows()) {
                let cos_sin: Vec<_> = frequencies.iter().map(|&f| rope.cos_sin(position, f)).collect();
                for head in row.chunks_exact_mut(rope.head_dim) {
                    rotate(head, rope.pairing, &cos_sin);
                }
            }
        }
        Op::Attention { q, kv, store, heads, score } => {
            let group = bound.graph().group_of(store);
            let store = &mut stores[store.index()];
            if let Some([k, v]) = kv {
                store.write(result(k), result(v), step, group);
            }
            attention::attend(&mut out, result(q), store, heads, score, step, group);
        }
        Op::Gate { gate, up, act } => {
            for ((y, &gate), &up) in out.iter_mut().zip(result(gate)).zip(result(up)) {
                *y = (activation(act, f64::from(gate)) * f64::from(up)) as f32;
            }
        }
        Op::Route { logits, used } => {
            for (y, logits) in out.chunks_exact_mut(value.cols).zip(result(logits).chunks_exact(value.cols)) {
                route(y, logits, used);
            }
        }
        Op::Experts { x, routes, gate, up, down, act } => {
            let weights = [gate, up, down].map(|id| bound.weight(id));
            experts(&mut out, result(x), result(routes), weights, act);
        }
        Op::Map { x, map } => {
            for (y, &x) in out.iter_mut().zip(result(x)) {
                *y = match map {
                    Map::Scale(factor) => factor * x,
                    Map::Softcap(cap) => softcap(f64::from(x), cap) as f32,
                    Map::Act(act) => activation(act, f64::from(x)) as f32,
                };
            }
        }
        Op::Add { a, b } => {
            for ((y, &a), &b) in out.iter_mut().zip(result(a)).zip(result(b)) {
                *y = a + b;
            }
        }
        Op::AddBias { x, weight } => {
            let w = bound.weight(weight).vector();
            for (y, x) in out.chunks_exact_mut(value.cols).zip(result(x).chunks_exact(value.cols)) {
                for ((y, &x), &w) in y.iter_mut().zip(x).zip(&w) {
                    *y = x + w;
                }
            }
        }
        Op::OutputRows { x } => {
            let x = result(x);
            for (y, output) in out.chunks_exact_mut(value.cols).zip(step.outputs()) {
                y.copy_from_slice(&x[output.row as usize * value.cols..][..value.cols]);
            }
        }
    }
    out
}

pub(crate) fn softcap(x: f64, cap: f32) -> f64 {
    f64::from(cap) * (x / f64::from(cap)).tanh()
}

fn activation(act: Activation, x: f64) -> f64 {
    match act {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
    }
}

/// The softmax over the `used` largest logits; 0 for the others.
fn route(out: &mut [f32], logits: &[f32], used: usize) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // NaN of either sign ranks highest. The sort is stable, so the lower index of equal logits ranks first.
    let logit = |expert: usize| if logits[expert].is_nan() { f32::NAN } else { logits[expert] };
    order.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)));
    let chosen = &order[..used];
    let max = f64::from(logits[chosen[0]]);
    let exp = |expert: usize| (f64::from(logits[expert]) - max).exp();
    let total: f64 = chosen.iter().map(|&expert| exp(expert)).sum();
    for &expert in chosen {
        out[expert] = (exp(expert) / total) as f32;
    }
}

/// Mixture of experts, one expert at a time for all rows that chose it.
fn experts(out: &mut [f32], x: &[f32], routes: &[f32], weights: [&Weight; 3], act: Activation) {
    let [gate, up, down] = weights;
    let mut sums = vec![0.0; out.len()];
    for expert in 0..gate.count {
        let weight_of = |row: usize| routes[row * gate.count + expert];
        let rows: Vec<usize> = (0..x.len() / gate.cols).filter(|&row| weight_of(row) != 0.0).collect();
        let x: Vec<f32> = rows.iter().flat_map(|row| &x[row * gate.cols..][..gate.cols]).copied().collect();
        let [mut gates, mut ups] = [(); 2].map(|()| vec![0.0; rows.len() * gate.rows]);
        linear(&mut gates, &x, &gate.part(expert));
        linear(&mut ups, &x, &up.part(expert));
        for (gate, &up) in gates.iter_mut().zip(&ups) {
            *gate = (activation(act, f64::from(*gate)) * f64::from(up)) as f32;
        }
        let mut downs = vec![0.0; rows.len() * down.rows];
        linear(&mut downs, &gates, &down.part(expert));
        for (&row, downs) in rows.iter().zip(downs.chunks_exact(down.rows)) {
            for (sum, &y) in sums[row * down.rows..].iter_mut().zip(downs) {
                *sum += f64::from(weight_of(row)) * f64::from(y);
            }
        }
    }
    for (y, sum) in out.iter_mut().zip(sums) {
        *y = sum as f32;
    }
}

/// `out[r][o] = sum_k w[o][k] * x[r][k]`; threads split the rows of `w`.
fn linear(out: &mut [f32], x: &[f32], w: &Weight) {
    if out.is_empty() {
        return; // a step without outputs, or an expert that no row chose
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let chunk = w.rows.div_ceil(threads);
    let x = f64s(x);
    let columns = |first: usize| {
        let mut weights = vec![0.0; w.cols];
        let mut columns = Vec::new();
        for o in first..w.rows.min(first + chunk) {
            w.format.dequantize(w.row(o), &mut weights);
            let weights = f64s(&weights);
            columns.extend(x.chunks_exact(w.cols).map(|x| dot(&weights, x) as f32));
        }
        columns
    };
    let parts: Vec<Vec<f32>> = thread::scope(|scope| {
        let running: Vec<_> =
            (0..w.rows).step_by(chunk).map(|first| scope.spawn(move || columns(first))).collect();
        running.into_iter().map(|thread| thread.join().expect("dot products do not panic")).collect()
    });
    let rows = out.len() / w.rows;
    for (o, column) in parts.iter().flat_map(|part| part.chunks_exact(rows)).enumerate() {
        for (r, &y) in column.iter().enumerate() {
            out[r * w.rows + o] = y;
        }
    }
}

fn rotate(head: &mut [f32], pairing: Pairing, cos_sin: &[[f64; 2]]) {
    for (i, [cos, sin]) in cos_sin.iter().enumerate() {
        let (i, j) = match pairing {
            Pairing::Interleaved => (2 * i, 2 * i + 1),
            Pairing::Halves => (i, i + cos_sin.len()),
        };
        let (a, b) = (f64::from(head[i]), f64::from(head[j]));
        head[i] = (a * cos - b * sin) as f32;
        head[j] = (a * sin + b * cos) as f32;
    }
}
