//! The inputs of experts' matrices. Backends return the input of a mixture and its routes; the inputs of the last matrices are
//! computed here, from dequantised weights.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Weight, Weights};
use convert::imatrix::InputSums;
use gguf::Gguf;
use graph::{Graph, Hidden, Op, Value, ValueId, WeightId};
use runner::FileWeights;

use super::{Squares, f32s};

/// One [`Op::Experts`], and the inputs of its experts so far.
pub(super) struct Mixture {
    pub(super) x: ValueId,
    pub(super) routes: ValueId,
    hidden: Hidden,
    /// The tensors of the hidden values, and the last.
    tensors: (Vec<String>, String),
    weights: Vec<Weight>,
    scales: Vec<Option<Vec<f32>>>,
    biases: Vec<Vec<f32>>,
    weighs_inputs: bool,
    experts: Vec<[Squares; 2]>,
}

impl Mixture {
    /// `None` unless `value` is a mixture whose weights are in the file.
    pub(super) fn new(graph: &Graph, file: &Gguf, value: &Value) -> Option<Mixture> {
        let Op::Experts { x, routes, hidden, down, weighs_inputs, .. } = value.op else { return None };
        let weight = |&id: &WeightId| FileWeights(file).weight(graph.weight(id));
        let tensor = |id: WeightId| graph.weight(id).tensor.clone();
        let mut tensors: Vec<String> = hidden.weights().iter().map(|&id| tensor(id)).collect();
        tensors.dedup();
        Some(Mixture {
            x,
            routes,
            hidden,
            tensors: (tensors, tensor(down)),
            weights: hidden.weights().iter().map(weight).collect::<Option<_>>()?,
            scales: (hidden.scales().iter())
                .map(|id| id.map_or(Some(None), |id| Some(Some(weight(&id)?.vector()))))
                .collect::<Option<_>>()?,
            biases: hidden.biases().iter().map(|id| Some(weight(id)?.vector())).collect::<Option<_>>()?,
            weighs_inputs,
            experts: (0..graph.weight(down).count).map(|_| Default::default()).collect(),
        })
    }

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
        let [inner, cols] = self.shape();
        let mut squares = <[Squares; 2]>::default();
        let mut rows = Vec::new();
        for (x, routes) in x.chunks_exact(cols).zip(routes.chunks_exact(self.experts.len())) {
            let weight = routes[expert];
            if weight != 0.0 {
                let scale = if self.weighs_inputs { weight } else { 1.0 };
                let row: Vec<f32> = x.iter().map(|x| scale * x).collect();
                squares[0].add(&row);
                rows.push(row);
            }
        }
        let mut hiddens = vec![0.0; rows.len() * inner];
        let mut columns = vec![vec![0.0; cols]; self.weights.len()];
        for column in 0..if rows.is_empty() { 0 } else { inner } {
            for (number, (weight, values)) in self.weights.iter().zip(&mut columns).enumerate() {
                let row = self.hidden.matrix(number, expert) * inner + column;
                weight.format.dequantize(weight.row(row), values);
            }
            for (row, hidden) in rows.iter().zip(hiddens.chunks_exact_mut(inner)) {
                let product = |number: usize| {
                    let bias = self.biases.get(number).map_or(0.0, |bias| bias[expert * inner + column]);
                    let scale = self.scales[number].as_ref().map_or(1.0, |scale| scale[expert]);
                    f64::from(scale * dot(row, &columns[number]) + bias)
                };
                hidden[column] = self.hidden.apply(product) as f32;
            }
        }
        hiddens.chunks_exact(inner).for_each(|hidden| squares[1].add(hidden));
        squares
    }

    /// Hidden values and inputs of an expert.
    fn shape(&self) -> [usize; 2] {
        [self.weights[0].rows, self.weights[0].cols]
    }

    /// The inputs of its tensors. Experts that no row chose have zeros.
    pub(super) fn finish(self) -> impl Iterator<Item = (String, InputSums)> {
        let [inner, cols] = self.shape();
        let of = |which: usize, cols: usize| {
            let mut inputs = InputSums::default();
            for squares in self.experts.iter().map(|both| &both[which]) {
                inputs.sums.extend(f32s(&squares.sums));
                inputs.sums.resize((inputs.counts.len() + 1) * cols, 0.0);
                inputs.counts.push(squares.rows);
            }
            inputs
        };
        let (of_x, of_hidden) = (of(0, cols), of(1, inner));
        let (first, last) = self.tensors;
        first.into_iter().map(move |tensor| (tensor, of_x.clone())).chain([(last, of_hidden)])
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
