//! The operations, each a direct transcription of its formula.

use std::num::NonZero;
use std::{iter, thread};

use backend::{BoundProgram, Input, Step, Weight};
use graph::{Activation, Gating, Hidden, Index, Map, NormKind, Op, Pairing, Pool, Router, ValueId, WeightId};

use crate::State;
use crate::attention;
use crate::recurrent::{LinearAttention, convolve};
use crate::sums::{dot, f64s, softcap};

/// One value, `[rows, cols]`, from the `results` of earlier values.
pub(crate) fn compute(
    bound: &BoundProgram,
    id: ValueId,
    results: &[Vec<f32>],
    step: &Step,
    State { stores, slots, .. }: &mut State,
) -> Vec<f32> {
    let value = bound.value(id);
    let result = |id: ValueId| results[id.index()].as_slice();
    let mut out = vec![0.0; step.count(value.rows) * value.cols];
    match value.op {
        Op::Input { cols: _ } => out.copy_from_slice(step.hidden()),
        Op::Embed { table, index } => {
            let table = bound.weight(table);
            let rows = step.rows().iter().zip(step.positions());
            for (y, (row, (_, position))) in out.chunks_exact_mut(value.cols).zip(rows) {
                let at = match (index, row.input) {
                    (Index::Token, Input::Embedding(at)) => {
                        y.copy_from_slice(&step.embeddings()[at as usize * value.cols..][..value.cols]);
                        continue;
                    }
                    (Index::Token, Input::Token(token)) => token as usize,
                    (Index::Token, Input::Ahead(_)) => unreachable!("tokens are chosen by the host"),
                    (Index::Position, _) => position,
                };
                table.format.dequantize(table.row(at), y);
            }
        }
        Op::Linear { x, weight } => linear(&mut out, result(x), bound.weight(weight)),
        Op::Norm { x, kind, width, weight, eps } => {
            let w = weight.map_or_else(|| vec![1.0; width], |weight| bound.weight(weight).vector());
            let groups = out.chunks_exact_mut(width).zip(result(x).chunks_exact(width));
            for ((y, x), w) in groups.zip(w.chunks_exact(width).cycle()) {
                let mut x = f64s(x);
                if kind == NormKind::Layer {
                    let mean = x.iter().sum::<f64>() / x.len() as f64;
                    x.iter_mut().for_each(|x| *x -= mean);
                }
                let (sum, eps) = (dot(&x, &x), f64::from(eps));
                let scale = match kind {
                    NormKind::Rms | NormKind::Layer => 1.0 / (sum / x.len() as f64 + eps).sqrt(),
                    NormKind::L2 => 1.0 / (sum + eps).sqrt(),
                };
                for ((y, &x), &w) in y.iter_mut().zip(&x).zip(w) {
                    *y = (x * scale * f64::from(w)) as f32;
                }
            }
        }
        Op::Rope { x, ref rope } => {
            let factors =
                rope.factors_for(bound.model().kv_layout().n_ctx).map(|id| bound.weight(id).vector());
            let frequencies = rope.frequencies(factors.as_deref());
            out.copy_from_slice(result(x));
            for (row, (_, position)) in out.chunks_exact_mut(value.cols).zip(step.positions()) {
                let cos_sin: Vec<_> = frequencies.iter().map(|&f| rope.cos_sin(position, f)).collect();
                for head in row.chunks_exact_mut(rope.head_dim) {
                    rotate(head, rope.pairing, &cos_sin);
                }
            }
        }
        Op::Attention { q, kv, store, heads, score } => {
            let group = bound.graph().store_group(store);
            let store = &mut stores[store.index()];
            if let Some([k, v]) = kv {
                store.write(result(k), result(v), step, group);
            }
            let sinks = score.sinks.map(|id| bound.weight(id).vector());
            let score = (score, sinks.as_deref());
            attention::attend(&mut out, result(q), store, heads, score, step, group);
        }
        Op::Conv { x, weight, bias } => {
            let weight = bound.weight(weight).vector();
            let bias = bias.map(|bias| bound.weight(bias).vector());
            let weights = (&*weight, bias.as_deref());
            convolve(&mut out, result(x), weights, value.cols, step, &mut slots[id.index()]);
        }
        Op::LinearAttention { q, k, v, decay, beta, skip, heads } => {
            let inputs = [q, k, v, decay, beta].map(result);
            let skip = skip.map(|skip| bound.weight(skip).vector());
            let dims = [bound.value(k).cols / heads.k_heads, value.cols / heads.heads];
            LinearAttention { inputs, skip, heads, dims }.compute(&mut out, step, &mut slots[id.index()]);
        }
        Op::Gate { gate, up, glu } => {
            let columns_per_gate = value.cols / bound.value(gate).cols;
            let gates = result(gate).iter().flat_map(|&gate| iter::repeat_n(gate, columns_per_gate));
            for ((y, gate), &up) in out.iter_mut().zip(gates).zip(result(up)) {
                *y = glu.apply(f64::from(gate), f64::from(up)) as f32;
            }
        }
        Op::Route { logits, bias, router } => {
            let bias = bias.map_or_else(|| vec![0.0; value.cols], |bias| bound.weight(bias).vector());
            for (y, logits) in out.chunks_exact_mut(value.cols).zip(result(logits).chunks_exact(value.cols)) {
                route(y, logits, &bias, router);
            }
        }
        Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs } => {
            let vector = |id: WeightId| bound.weight(id).vector();
            let experts = Experts {
                weights: hidden.weights().iter().map(|&id| bound.weight(id)).collect(),
                scales: hidden.scales().iter().map(|id| id.map(vector)).collect(),
                biases: hidden.biases().iter().map(|&id| vector(id)).collect(),
                hidden,
                down: bound.weight(down),
                scale: scale.map(vector),
                bias: bias.map(vector),
                weighs_inputs,
            };
            experts.mix(&mut out, result(x), result(routes));
        }
        Op::Map { x, map } => {
            for (y, &x) in out.iter_mut().zip(result(x)) {
                *y = match map {
                    Map::Scale(factor) => factor * x,
                    Map::Softcap(cap) => softcap(f64::from(x), cap) as f32,
                    Map::Act(act) => act.apply(f64::from(x)) as f32,
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
        Op::MulWeight { x, weight } => {
            let w = bound.weight(weight).vector();
            for (y, x) in out.chunks_exact_mut(w.len()).zip(result(x).chunks_exact(w.len())) {
                for ((y, &x), &w) in y.iter_mut().zip(x).zip(&w) {
                    *y = x * w;
                }
            }
        }
        Op::ScaleByPosition { x, beta, offset, interval } => {
            let rows = out.chunks_exact_mut(value.cols).zip(result(x).chunks_exact(value.cols));
            for ((y, x), (_, position)) in rows.zip(step.positions()) {
                let intervals = (position as f64 + f64::from(offset)) / f64::from(interval);
                let factor = 1.0 + f64::from(beta) * intervals.floor().ln_1p();
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = (factor * f64::from(x)) as f32);
            }
        }
        Op::HeadLinear { x, weight } => {
            let (x, w) = (result(x), bound.weight(weight));
            for head in 0..w.count {
                let slice = |row: &[f32]| row[head * w.cols..][..w.cols].to_vec();
                let x: Vec<f32> = x.chunks_exact(w.count * w.cols).flat_map(slice).collect();
                let mut products = vec![0.0; x.len() / w.cols * w.rows];
                linear(&mut products, &x, &w.part(head));
                for (y, products) in out.chunks_exact_mut(value.cols).zip(products.chunks_exact(w.rows)) {
                    y[head * w.rows..][..w.rows].copy_from_slice(products);
                }
            }
        }
        Op::Slice { x, heads, start, len } => {
            let width = bound.value(x).cols / heads;
            for (y, head) in out.chunks_exact_mut(len).zip(result(x).chunks_exact(width)) {
                y.copy_from_slice(&head[start..start + len]);
            }
        }
        Op::Join { a, b, heads, b_heads } => {
            let [a_width, b_width] = [bound.value(a).cols / heads, bound.value(b).cols / b_heads];
            let b = result(b).chunks_exact(b_width).flat_map(|b| iter::repeat_n(b, heads / b_heads));
            let heads = out.chunks_exact_mut(a_width + b_width);
            for ((y, a), b) in heads.zip(result(a).chunks_exact(a_width)).zip(b) {
                y[..a_width].copy_from_slice(a);
                y[a_width..].copy_from_slice(b);
            }
        }
        // The interpreter adds those of the other ranks.
        Op::AllReduce { x } => out.copy_from_slice(result(x)),
        Op::OutputRows { x } => {
            let x = result(x);
            for (y, (row, _)) in out.chunks_exact_mut(value.cols).zip(step.outputs()) {
                y.copy_from_slice(&x[row * value.cols..][..value.cols]);
            }
        }
        Op::Pool { x, pool } => {
            let x = result(x);
            for (y, (row, _)) in out.chunks_exact_mut(value.cols).zip(step.outputs()) {
                let rows = step.rows_beside(row);
                let rows = if pool == Pool::First { rows.start..rows.start + 1 } else { rows };
                for (col, y) in y.iter_mut().enumerate() {
                    let sum: f64 = rows.clone().map(|row| f64::from(x[row * value.cols + col])).sum();
                    *y = (sum / rows.len() as f64) as f32;
                }
            }
        }
    }
    out
}

/// The weights of the chosen experts; 0 for the others.
fn route(out: &mut [f32], logits: &[f32], bias: &[f32], router: Router) {
    let x = f64s(logits);
    let softmax_over = |chosen: &[usize]| {
        let max = chosen.iter().map(|&expert| x[expert]).fold(f64::NEG_INFINITY, f64::max);
        let max = if chosen.iter().any(|&expert| x[expert].is_nan()) { f64::NAN } else { max };
        let total: f64 = chosen.iter().map(|&expert| (x[expert] - max).exp()).sum();
        x.iter().map(|x| (x - max).exp() / total).collect::<Vec<f64>>()
    };
    let all: Vec<usize> = (0..x.len()).collect();
    let weights = match router.gating {
        Gating::ChosenSoftmax => x.clone(),
        Gating::Softmax => softmax_over(&all),
        Gating::Sigmoid => x.iter().map(|&x| Activation::Sigmoid.apply(x)).collect(),
    };
    // NaN of either sign ranks highest. The sorts are stable, so the lower index of equal weights ranks first.
    let ranked = |rank: f64| if rank.is_nan() { f64::NAN } else { rank };
    let rank = |expert: usize| ranked(weights[expert] + f64::from(bias[expert]));
    let mut order = all;
    if let Some([count, used]) = router.groups {
        let size = x.len() / count;
        let group_rank = |group: usize| {
            let mut ranks: Vec<f64> = (group * size..(group + 1) * size).map(rank).collect();
            ranks.sort_by(|a, b| b.total_cmp(a));
            ranked(ranks.iter().take(2).sum())
        };
        let mut groups: Vec<usize> = (0..count).collect();
        groups.sort_by(|&a, &b| group_rank(b).total_cmp(&group_rank(a)));
        order.retain(|expert| groups[..used].contains(&(expert / size)));
    }
    order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)));
    let chosen = &order[..router.used];
    let weights = match router.gating {
        Gating::ChosenSoftmax => softmax_over(chosen),
        Gating::Softmax | Gating::Sigmoid => weights,
    };
    let total: f64 = chosen.iter().map(|&expert| weights[expert]).sum();
    let total = if router.renormalises { total.max(0.5f64.powi(14)) } else { 1.0 };
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_valid = largest.is_finite() && !x.iter().any(|x| x.is_nan());
    for &expert in chosen {
        let weight = if is_valid { weights[expert] / total } else { f64::NAN };
        out[expert] = (weight * f64::from(router.scale)) as f32;
    }
}

struct Experts<'a> {
    hidden: Hidden,
    /// Those of the hidden values.
    weights: Vec<&'a Weight>,
    scales: Vec<Option<Vec<f32>>>,
    biases: Vec<Vec<f32>>,
    down: &'a Weight,
    scale: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    weighs_inputs: bool,
}

impl Experts<'_> {
    /// One expert at a time for all rows that chose it.
    fn mix(&self, out: &mut [f32], x: &[f32], routes: &[f32]) {
        let Experts { weights, scales, biases, down, .. } = self;
        let (mut sums, cols) = (vec![0.0; out.len()], weights[0].cols);
        for expert in 0..down.count {
            let weight_of = |row: usize| routes[row * down.count + expert];
            let rows: Vec<usize> = (0..x.len() / cols).filter(|&row| weight_of(row) != 0.0).collect();
            let input = |row: usize| {
                let weight = if self.weighs_inputs { weight_of(row) } else { 1.0 };
                x[row * cols..][..cols].iter().map(move |x| weight * x)
            };
            let x: Vec<f32> = rows.iter().copied().flat_map(input).collect();
            let product = |x: &[f32], w: Weight, scale: &Option<Vec<f32>>, bias: Option<&Vec<f32>>| {
                let mut y = vec![0.0; rows.len() * w.rows];
                linear(&mut y, x, &w);
                if let Some(scale) = scale {
                    y.iter_mut().for_each(|y| *y *= scale[expert]);
                }
                if let Some(bias) = bias {
                    let bias = bias[expert * w.rows..][..w.rows].iter().cycle();
                    y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                }
                y
            };
            let hidden_product = |(at, w): (usize, &&Weight)| {
                product(&x, w.part(self.hidden.matrix(at, expert)), &scales[at], biases.get(at))
            };
            let products: Vec<Vec<f32>> = weights.iter().enumerate().map(hidden_product).collect();
            let hidden_at = |i: usize| self.hidden.apply(|at| f64::from(products[at][i])) as f32;
            let hiddens: Vec<f32> = (0..products[0].len()).map(hidden_at).collect();
            let downs = product(&hiddens, down.part(expert), &self.scale, self.bias.as_ref());
            for (&row, downs) in rows.iter().zip(downs.chunks_exact(down.rows)) {
                let weight = if self.weighs_inputs { 1.0 } else { weight_of(row) };
                for (sum, &y) in sums[row * down.rows..].iter_mut().zip(downs) {
                    *sum += f64::from(weight) * f64::from(y);
                }
            }
        }
        out.iter_mut().zip(sums).for_each(|(y, sum)| *y = sum as f32);
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
