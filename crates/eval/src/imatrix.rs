//! The inputs of a model's matrices on a calibration text, as `llama-imatrix` sums them.
//!
//! The windows of the text are computed one after another, each from position 0 and with BOS as its first token if the
//! tokenizer adds BOS. Every row counts. Matrices outside the layers are left out, except on request that of the output.

mod mixture;

use std::collections::{BTreeMap, HashSet};
use std::num::NonZero;

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Output, Row, Sequence, Step};
use convert::imatrix::{Calibration, InputSums};
use gguf::Gguf;
use graph::{Graph, Op, Value, ValueId, Weight};
use runner::ModelRunner;

use crate::{Error, Windows};
use mixture::Mixture;

/// Bytes of values per step: the memory that they take does not grow with the text.
const STEP_BYTES: usize = 256 << 20;

/// A model and a text to compute.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The weights.
    pub file: &'a Gguf,
    /// The model of the file.
    pub graph: &'a Graph,
    /// The text.
    pub windows: &'a Windows,
    /// The first token of each window.
    pub bos: Option<u32>,
    /// Format of the KV cache.
    pub kv: KvFormat,
    /// The most tokens per step; fewer when their values are too large.
    pub rows: usize,
    /// Whether to include `output.weight`.
    pub output: bool,
    /// Threads for the inputs of the last matrices of experts, which no backend returns.
    pub threads: NonZero<usize>,
}

/// Sums of squares of a value's columns, and its rows.
#[derive(Default)]
struct Squares {
    sums: Vec<f64>,
    rows: u64,
}

impl Squares {
    fn add(&mut self, row: &[f32]) {
        self.sums.resize(row.len(), 0.0);
        self.sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
        self.rows += 1;
    }

    fn merge(&mut self, other: Squares) {
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, x)| *sum += x);
        self.rows += other.rows;
    }
}

impl<'a> Inputs<'a> {
    /// The values that the matrices read.
    pub fn taps(&self) -> Vec<&'a str> {
        let mut ids: Vec<ValueId> = self.dense().into_iter().map(|(_, x)| x).collect();
        ids.extend(self.mixtures().iter().flat_map(|mixture| [mixture.x, mixture.routes]));
        ids.sort();
        ids.dedup();
        ids.into_iter().map(|id| &*self.graph.value(id).name).collect()
    }

    /// The size of the steps.
    pub fn bucket(&self) -> Bucket {
        let output = self.graph.value(self.graph.output()).cols;
        let cols = |name: &str| self.graph.find(name).map_or(0, |id| self.graph.value(id).cols);
        let row = output + self.taps().into_iter().map(cols).sum::<usize>();
        let most = STEP_BYTES / (row * size_of::<f32>());
        let rows = self.rows.min(self.windows.n_ctx()).min(most).max(1);
        Bucket { rows, outputs: rows }
    }

    /// The KV cache of one window.
    pub fn kv_layout(&self) -> KvLayout {
        let n_ctx = self.windows.n_ctx();
        KvLayout { n_ctx, ..KvLayout::uniform(self.graph, n_ctx.div_ceil(KV_BLOCK), self.kv) }
    }

    /// Computes the text on `backend`, which holds no model yet. Calls `progress` with the number of tokens computed. The
    /// result has no name of a text. Fails if the model cannot be computed, or an input is not finite.
    pub fn sum(
        &self,
        backend: Box<dyn Backend>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Calibration, Error> {
        let (taps, bucket) = (self.taps(), self.bucket());
        let compute = |error: backend::Error| Error::Engine(error.into());
        let mut runner =
            ModelRunner::new(self.file, self.graph, backend, &self.kv_layout(), &[]).map_err(compute)?;
        runner.tap(&taps).map_err(compute)?;
        runner.compile(bucket).map_err(compute)?;
        runner.prepare(self.file).map_err(compute)?;

        let (dense, mut mixtures) = (self.dense(), self.mixtures());
        let blocks = self.windows.n_ctx().div_ceil(KV_BLOCK) as u32;
        let mut squares: BTreeMap<ValueId, Squares> = BTreeMap::new();
        for (number, window) in self.windows.tokens().chunks_exact(self.windows.n_ctx()).enumerate() {
            let mut tokens = window.to_vec();
            if let Some(bos) = self.bos {
                tokens[0] = bos;
            }
            let mut n_past = 0;
            for tokens in tokens.chunks(bucket.rows) {
                let sequence = Sequence::uniform(n_past, tokens.len(), self.graph.groups().len(), 0..blocks);
                let rows = Row::all(tokens.iter().copied(), &Output::Logits);
                let step = Step::new(rows, vec![sequence]).map_err(compute)?;
                runner.run(&step).map_err(compute)?;
                self.file.check_intact().map_err(engine::Error::from)?;
                n_past += tokens.len();
                let read = |id: ValueId| runner.read(&self.graph.value(id).name).map_err(compute);
                for &(_, x) in &dense {
                    // Several matrices may have the same input.
                    let squares = squares.entry(x).or_default();
                    let done = (number * self.windows.n_ctx() + n_past) as u64;
                    if squares.rows < done {
                        read(x)?.chunks_exact(self.graph.value(x).cols).for_each(|row| squares.add(row));
                    }
                }
                for mixture in &mut mixtures {
                    mixture.add(read(mixture.x)?, read(mixture.routes)?, self.threads);
                }
                progress(number * self.windows.n_ctx() + n_past);
            }
        }
        let mut tensors: BTreeMap<String, InputSums> = BTreeMap::new();
        for (weight, x) in dense {
            let Some(squares) = squares.get(&x) else { continue };
            let inputs = InputSums { sums: f32s(&squares.sums), counts: vec![squares.rows] };
            add(&mut tensors, &weight.tensor, inputs)?;
        }
        for (tensor, inputs) in mixtures.into_iter().flat_map(Mixture::finish) {
            add(&mut tensors, &tensor, inputs)?;
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (chunks, chunk_size) = (number(self.windows.len()), number(self.windows.n_ctx()));
        Ok(Calibration { tensors, dataset: String::new(), chunks, chunk_size })
    }

    /// The matrices that all rows are multiplied with, and their inputs; parts of a tensor with the same input are one.
    fn dense(&self) -> Vec<(&'a Weight, ValueId)> {
        let (mut dense, mut known) = (Vec::new(), HashSet::new());
        for (_, value) in self.graph.values() {
            if let Op::Linear { x, weight } | Op::HeadLinear { x, weight } = value.op {
                let weight = self.graph.weight(weight);
                if self.counts(&weight.tensor) && known.insert((&*weight.tensor, x)) {
                    dense.push((weight, x));
                }
            }
        }
        dense
    }

    fn counts(&self, tensor: &str) -> bool {
        tensor.starts_with("blk.") || (self.output && tensor == "output.weight")
    }

    fn mixtures(&self) -> Vec<Mixture> {
        let experts = |(_, value): (ValueId, &Value)| Mixture::new(self.graph, self.file, value);
        self.graph.values().filter_map(experts).collect()
    }
}

fn f32s(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&x| x as f32).collect()
}

/// Adds the inputs of `tensor` to those that other operations gave it.
fn add(tensors: &mut BTreeMap<String, InputSums>, tensor: &str, inputs: InputSums) -> Result<(), Error> {
    if let Some(at) = inputs.sums.iter().position(|sum| !sum.is_finite()) {
        return Err(Error::Input { tensor: tensor.to_owned(), column: at, sum: inputs.sums[at] });
    }
    let known = tensors.entry(tensor.to_owned()).or_insert_with(|| InputSums {
        sums: vec![0.0; inputs.sums.len()],
        counts: vec![0; inputs.counts.len()],
    });
    known.sums.iter_mut().zip(inputs.sums).for_each(|(sum, x)| *sum += x);
    known.counts.iter_mut().zip(inputs.counts).for_each(|(count, n)| *count += n);
    Ok(())
}
