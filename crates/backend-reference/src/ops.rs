//! The operations, each as its formula.

use std::num::NonZero;
use std::thread;

use backend::{Bound, Error, KvLayout, PAGE, Step, Weight};
use graph::{Op, Pairing, Rope, Rows, ValueId};

/// Keys and values of every layer, in f32: `[layer][page * PAGE + place][kv head][dim]`.
#[derive(Debug)]
pub(crate) struct Kv {
    pub(crate) layout: KvLayout,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

impl Kv {
    pub(crate) fn new(layout: KvLayout) -> Result<Kv, Error> {
        let store = |dim| (0..layout.layers).map(|_| layout.zeroed(dim)).collect::<Result<Vec<_>, _>>();
        Ok(Kv { layout, keys: store(layout.k_dim)?, values: store(layout.v_dim)? })
    }
}

/// The value `now` of the graph, from the `results` of the values before it: `[rows, cols]`.
pub(crate) fn compute(
    bound: &Bound,
    now: usize,
    results: &[Vec<f32>],
    step: &Step,
    kv: Option<&mut Kv>,
) -> Vec<f32> {
    let value = &bound.values()[now];
    let rows = match value.rows {
        Rows::Step => step.tokens().len(),
        Rows::Wanted => step.wanted().len(),
    };
    let result = |id: ValueId| results[id.index()].as_slice();
    let cols = |id: ValueId| bound.value(id).cols;
    let mut out = vec![0.0; rows * value.cols];
    match &value.op {
        Op::Input => out.copy_from_slice(step.input()),
        Op::Embed { table } => {
            let table = bound.weight(*table);
            for (y, &token) in out.chunks_exact_mut(value.cols).zip(step.tokens()) {
                table.format.dequantize(table.row(token as usize), y);
            }
        }
        Op::Linear { x, weight } => linear(&mut out, result(*x), bound.weight(*weight)),
        Op::RmsNorm { x, weight, eps } => {
            let w = vector(bound.weight(*weight));
            for (y, x) in out.chunks_exact_mut(value.cols).zip(result(*x).chunks_exact(value.cols)) {
                let mean = dot(&wide(x), &wide(x)) / x.len() as f64;
                let scale = 1.0 / (mean + f64::from(*eps)).sqrt();
                for ((y, &x), &w) in y.iter_mut().zip(x).zip(&w) {
                    *y = (f64::from(x) * scale * f64::from(w)) as f32;
                }
            }
        }
        Op::Rope { x, rope } => {
            let factors = rope.factors.map(|id| vector(bound.weight(id)));
            out.copy_from_slice(result(*x));
            for (row, (_, position)) in out.chunks_exact_mut(value.cols).zip(step.rows()) {
                for head in row.chunks_exact_mut(rope.head_dim) {
                    rotate(head, position, rope, factors.as_deref());
                }
            }
        }
        Op::Attention { q, k, v, layer, heads, kv_heads, scale } => {
            let kv = kv.expect("compile has checked that there is a store");
            let shape = Heads {
                heads: *heads,
                kv_heads: *kv_heads,
                k_dim: cols(*k) / kv_heads,
                v_dim: cols(*v) / kv_heads,
            };
            store(&mut kv.keys[*layer], result(*k), cols(*k), step);
            store(&mut kv.values[*layer], result(*v), cols(*v), step);
            attend(
                &mut out,
                result(*q),
                &kv.keys[*layer],
                &kv.values[*layer],
                &shape,
                f64::from(*scale),
                step,
            );
        }
        Op::SwiGlu { gate, up } => {
            for ((y, &gate), &up) in out.iter_mut().zip(result(*gate)).zip(result(*up)) {
                let gate = f64::from(gate);
                *y = (gate / (1.0 + (-gate).exp()) * f64::from(up)) as f32;
            }
        }
        Op::Add { a, b } => {
            for ((y, &a), &b) in out.iter_mut().zip(result(*a)).zip(result(*b)) {
                *y = a + b;
            }
        }
        Op::AddBias { x, weight } => {
            let w = vector(bound.weight(*weight));
            for (y, x) in out.chunks_exact_mut(value.cols).zip(result(*x).chunks_exact(value.cols)) {
                for ((y, &x), &w) in y.iter_mut().zip(x).zip(&w) {
                    *y = x + w;
                }
            }
        }
        Op::TakeRows { x } => {
            let x = result(*x);
            for (y, &row) in out.chunks_exact_mut(value.cols).zip(step.wanted()) {
                y.copy_from_slice(&x[row as usize * value.cols..][..value.cols]);
            }
        }
    }
    out
}

/// `out[r][o] = sum_k w[o][k] * x[r][k]`; threads share the rows of `w`.
fn linear(out: &mut [f32], x: &[f32], w: &Weight) {
    if out.is_empty() {
        return; // a step that wants no logits
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let chunk = w.rows.div_ceil(threads);
    let x = wide(x);
    let columns = |first: usize| {
        let mut weights = vec![0.0; w.cols];
        let mut columns = Vec::new();
        for o in first..w.rows.min(first + chunk) {
            w.format.dequantize(w.row(o), &mut weights);
            let weights = wide(&weights);
            columns.extend(x.chunks_exact(w.cols).map(|x| dot(&weights, x) as f32));
        }
        columns
    };
    let parts: Vec<Vec<f32>> = thread::scope(|scope| {
        let running: Vec<_> =
            (0..w.rows).step_by(chunk).map(|first| scope.spawn(move || columns(first))).collect();
        running.into_iter().map(|thread| thread.join().expect("a row's sum does not panic")).collect()
    });
    let rows = out.len() / w.rows;
    for (o, column) in parts.iter().flat_map(|part| part.chunks_exact(rows)).enumerate() {
        for (r, &y) in column.iter().enumerate() {
            out[r * w.rows + o] = y;
        }
    }
}

/// Turns one head by its position: pair `i` by `position * scale * theta^(-2i/dims) / factors[i]`.
fn rotate(head: &mut [f32], position: usize, rope: &Rope, factors: Option<&[f32]>) {
    for i in 0..rope.dims / 2 {
        let frequency = f64::from(rope.theta).powf(-2.0 * i as f64 / rope.dims as f64);
        let factor = factors.map_or(1.0, |factors| f64::from(factors[i]));
        let (sin, cos) = (position as f64 * f64::from(rope.scale) * frequency / factor).sin_cos();
        let (i, j) = match rope.pairing {
            Pairing::Interleaved => (2 * i, 2 * i + 1),
            Pairing::Halves => (i, i + rope.dims / 2),
        };
        let (a, b) = (f64::from(head[i]), f64::from(head[j]));
        head[i] = (a * cos - b * sin) as f32;
        head[j] = (a * sin + b * cos) as f32;
    }
}

/// Writes each row of `x` to its position in the store.
fn store(store: &mut [f32], x: &[f32], cols: usize, step: &Step) {
    for (x, (span, position)) in x.chunks_exact(cols).zip(step.rows()) {
        let (page, place) = span.slot(position);
        store[(page * PAGE + place) * cols..][..cols].copy_from_slice(x);
    }
}

struct Heads {
    heads: usize,
    kv_heads: usize,
    k_dim: usize,
    v_dim: usize,
}

/// Each row and head: softmax over the scores of the positions up to its own, then the mean of their
/// values under it.
fn attend(out: &mut [f32], q: &[f32], keys: &[f32], values: &[f32], shape: &Heads, scale: f64, step: &Step) {
    let Heads { heads, kv_heads, k_dim, v_dim } = *shape;
    let mut mean = vec![0.0f64; v_dim];
    for (row, (span, position)) in step.rows().enumerate() {
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let slots = (0..=position).map(|p| {
                let (page, place) = span.slot(p);
                (page * PAGE + place) * kv_heads + kv_head
            });
            let q = wide(&q[(row * heads + head) * k_dim..][..k_dim]);
            let scores: Vec<f64> =
                slots.clone().map(|slot| scale * dot(&q, &wide(&keys[slot * k_dim..][..k_dim]))).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            mean.fill(0.0);
            for (score, slot) in scores.iter().zip(slots) {
                let weight = (score - max).exp() / total;
                for (mean, &v) in mean.iter_mut().zip(&values[slot * v_dim..][..v_dim]) {
                    *mean += weight * f64::from(v);
                }
            }
            for (y, &mean) in out[(row * heads + head) * v_dim..][..v_dim].iter_mut().zip(&mean) {
                *y = mean as f32;
            }
        }
    }
}

/// As f64.
fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// The sum of products, over eight running sums so that it need not take all day.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0f64; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// A weight of one row as f32.
fn vector(weight: &Weight) -> Vec<f32> {
    let mut values = vec![0.0; weight.cols];
    weight.format.dequantize(&weight.bytes, &mut values);
    values
}
