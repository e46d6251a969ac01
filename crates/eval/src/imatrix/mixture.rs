//! The inputs of experts' matrices.
//!
//! Backends return the input of a mixture and its routes. The inputs of the experts' last matrices are computed here, from
//! dequantised weights.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Weight, Weights};
use gguf::Gguf;
use graph::{Glu, Graph, Op, Value, ValueId};
use quantize::InputSums;
use runner::FileWeights;

use super::{Squares, f32s};

/// One [`Op::Experts`], and the inputs of its experts so far.
pub(super) struct Mixture {
    pub(super) x: ValueId,
    pub(super) routes: ValueId,
    /// The tensors of gate, up and down.
    tensors: [String; 3],
    /// Gate and up.
    weights: [Weight; 2],
    biases: Option<[Vec<f32>; 2]>,
    glu: Glu,
    weighs_inputs: bool,
    is_fused: bool,
    /// The inputs of gate and up, and of down.
    experts: Vec<[Squares; 2]>,
}

impl Mixture {
    /// `None` unless `value` is a mixture whose weights are in the file.
    pub(super) fn new(graph: &Graph, file: &Gguf, value: &Value) -> Option<Mixture> {
        let Op::Experts { x, routes, gate, up, down, biases, glu, weighs_inputs } = value.op else {
            return None;
        };
        let weight = |id| FileWeights(file).weight(graph.weight(id));
        let bias = |id| weight(id).map(|bias| bias.vector());
        let biases = match biases {
            Some([gate, up, _]) => Some([bias(gate)?, bias(up)?]),
            None => None,
        };
        let weights = [weight(gate)?, weight(up)?];
        let count = graph.weight(down).count;
        Some(Mixture {
            x,
            routes,
            tensors: [gate, up, down].map(|id| graph.weight(id).tensor.clone()),
            is_fused: graph.weight(gate).count != count,
            weights,
            biases,
            glu,
            weighs_inputs,
            experts: (0..count).map(|_| Default::default()).collect(),
        })
    }

    /// Adds the rows `x` with their `routes`. Threads share the experts.
    pub(super) fn add(&mut self, x: &[f32], routes: &[f32], threads: NonZero<usize>) {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            loop {
                let expert = next.fetch_add(1, Ordering::Relaxed);
                if expert >= self.experts.len() {
                    return;
                }
                let squares = self.expert(expert, x, routes);
                done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((expert, squares));
            }
        };
        std::thread::scope(|scope| (0..threads.get()).for_each(|_| drop(scope.spawn(work))));
        for (expert, squares) in done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            self.experts[expert].iter_mut().zip(squares).for_each(|(sum, squares)| sum.merge(squares));
        }
    }

    fn expert(&self, expert: usize, x: &[f32], routes: &[f32]) -> [Squares; 2] {
        let [gate, up] = &self.weights;
        let mut squares = <[Squares; 2]>::default();
        let mut rows = Vec::new();
        for (x, routes) in x.chunks_exact(gate.cols).zip(routes.chunks_exact(self.experts.len())) {
            let weight = routes[expert];
            if weight != 0.0 {
                let scale = if self.weighs_inputs { weight } else { 1.0 };
                let row: Vec<f32> = x.iter().map(|x| scale * x).collect();
                squares[0].add(&row);
                rows.push(row);
            }
        }
        let mut hidden = vec![0.0; rows.len() * gate.rows];
        let matrices = Op::gate_and_up(self.is_fused, expert);
        let (mut of_gate, mut of_up) = (vec![0.0; gate.cols], vec![0.0; up.cols]);
        let bias = |number: usize, column: usize| {
            self.biases.as_ref().map_or(0.0, |biases| biases[number][expert * gate.rows + column])
        };
        for column in 0..if rows.is_empty() { 0 } else { gate.rows } {
            gate.format.dequantize(gate.row(matrices[0] * gate.rows + column), &mut of_gate);
            up.format.dequantize(up.row(matrices[1] * up.rows + column), &mut of_up);
            for (row, hidden) in rows.iter().zip(hidden.chunks_exact_mut(gate.rows)) {
                let gate = dot(row, &of_gate) + bias(0, column);
                let up = dot(row, &of_up) + bias(1, column);
                hidden[column] = self.glu.of(gate.into(), up.into()) as f32;
            }
        }
        hidden.chunks_exact(gate.rows).for_each(|hidden| squares[1].add(hidden));
        squares
    }

    /// The inputs of its tensors. Experts that no row chose have zeros.
    pub(super) fn finish(self) -> impl Iterator<Item = (String, InputSums)> {
        let cols = [self.weights[0].cols, self.weights[0].rows];
        let of = |which: usize| {
            let mut inputs = InputSums::default();
            for squares in self.experts.iter().map(|both| &both[which]) {
                inputs.sums.extend(f32s(&squares.sums));
                inputs.sums.resize((inputs.counts.len() + 1) * cols[which], 0.0);
                inputs.counts.push(squares.rows);
            }
            inputs
        };
        let (of_x, of_hidden) = (of(0), of(1));
        let [gate, up, down] = self.tensors;
        let up = (up != gate).then(|| (up, of_x.clone()));
        [(gate, of_x)].into_iter().chain(up).chain([(down, of_hidden)])
    }
}

/// In f32, which the compiler turns into vectors.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
