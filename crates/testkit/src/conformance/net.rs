//! A small graph with its weights, to run on a backend.

use std::collections::HashMap;
use std::fmt::Display;

use backend::{
    Backend, Bucket, Error, KV_BLOCK, KvFormat, KvLayout, LoadedModel, Program, Row, Sequence, Step, Taps,
    Weight,
};
use graph::{Builder, Graph, Mask, Score, Store, ValueId, WeightId};
use quant::Format;
use synth::Random;

use super::Make;

/// A graph under construction, its weights, and the size of its KV cache.
pub(super) struct Net {
    pub(super) graph: Builder,
    pub(super) weights: HashMap<String, Weight>,
    pub(super) blocks: usize,
    pub(super) kv: KvFormat,
}

impl Default for Net {
    fn default() -> Net {
        Net { graph: Builder::new(), weights: HashMap::new(), blocks: 2, kv: KvFormat::F16 }
    }
}

pub(super) fn store(heads: usize, k_dim: usize, v_dim: usize) -> Store {
    Store { heads, k_dim, v_dim, mask: Mask::Causal }
}

/// A step of one sequence, for a graph without stores: token `i` in row `i`, all rows are outputs.
pub(super) fn rows(n: usize) -> Step {
    step(0, n, 0)
}

/// A step of one sequence, for a graph with one store group: tokens and positions `n_past..n_past + n` on blocks 0, 1, …,
/// all rows are outputs.
pub(super) fn sequence(n_past: usize, n: usize) -> Step {
    step(n_past, n, 1)
}

/// The same for a graph with `groups` store groups.
pub(super) fn step(n_past: usize, n: usize, groups: usize) -> Step {
    let blocks = 0..(n_past + n).div_ceil(KV_BLOCK) as u32;
    let tokens = (n_past..n_past + n).map(|i| i as u32);
    let sequence = Sequence::uniform(n_past, n, groups, blocks);
    Step::new(Row::logits(tokens, 0..n as u32), vec![sequence]).expect("a good step")
}

impl Net {
    /// A net with this number of blocks per group and K/V format.
    pub(super) fn with_kv(blocks: usize, kv: KvFormat) -> Net {
        Net { blocks, kv, ..Net::default() }
    }

    /// Declares matrices in any format.
    pub(super) fn weights(
        &mut self,
        name: &str,
        format: Format,
        [count, rows, cols]: [usize; 3],
        bytes: Vec<u8>,
    ) -> WeightId {
        self.weights.insert(name.into(), Weight { format, count, rows, cols, bytes: bytes.into() });
        self.graph.weights(name, [count, rows, cols])
    }

    /// Declares an F32 matrix, given row-major.
    pub(super) fn matrix(&mut self, name: &str, rows: usize, values: &[f32]) -> WeightId {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.weights(name, Format::F32, [1, rows, values.len() / rows], bytes)
    }

    /// An embedding: its row for token `i` is row `i` of `values`.
    pub(super) fn input(&mut self, name: &'static str, rows: usize, values: &[f32]) -> ValueId {
        let table = self.matrix(name, rows, values);
        self.graph.embed(name, table)
    }

    pub(super) fn attention(
        &mut self,
        name: &'static str,
        [q, k, v]: [ValueId; 3],
        store: Store,
        heads: usize,
        score: impl Into<Score>,
    ) -> ValueId {
        let store = self.graph.store(store);
        self.graph.attention(name, q, Some([k, v]), store, heads, score)
    }

    /// Loads the graph on a backend; `outputs` already has output rows only.
    pub(super) fn load(
        self,
        outputs: ValueId,
        backend: Box<dyn Backend>,
    ) -> Result<(Graph, Box<dyn LoadedModel>), Error> {
        let graph = self.graph.finish(outputs);
        let loaded = backend.load(&graph, &self.weights, &KvLayout::uniform(&graph, self.blocks, self.kv))?;
        Ok((graph, loaded))
    }

    /// Loads the graph with the output rows of `output` as its result; `None` if the backend refuses the type of the cache, or has
    /// another one instead.
    pub(super) fn load_in_its_type(
        mut self,
        output: ValueId,
        backend: Box<dyn Backend>,
    ) -> Option<Box<dyn LoadedModel>> {
        let (kv, outputs) = (self.kv, self.graph.output_rows("outputs", output));
        match self.load(outputs, backend) {
            Err(Error::KvFormat { .. }) => None,
            loaded => Some(loaded.expect("a good graph").1).filter(|loaded| loaded.kv_format(kv) == kv),
        }
    }

    /// Compiles the graph with the output rows of `output` as its result, for steps of up to 64 rows.
    pub(super) fn compile(
        self,
        output: ValueId,
        backend: Box<dyn Backend>,
    ) -> Result<Box<dyn Program>, Error> {
        self.compile_for(64, output, backend)
    }

    fn compile_for(
        mut self,
        rows: usize,
        output: ValueId,
        backend: Box<dyn Backend>,
    ) -> Result<Box<dyn Program>, Error> {
        let outputs = self.graph.output_rows("outputs", output);
        let (_, mut loaded) = self.load(outputs, backend)?;
        loaded.compile(Bucket { rows, outputs: rows }, Taps::None)
    }

    /// Runs `steps` and concatenates their outputs.
    pub(super) fn run(self, output: ValueId, backend: Box<dyn Backend>, steps: &[Step]) -> Vec<f32> {
        let rows = steps.iter().map(|step| step.rows().len()).max().unwrap_or(0).max(64);
        let mut program = self.compile_for(rows, output, backend).expect("a good graph");
        let run = |step| program.run(step).expect("a good step").values().to_vec();
        steps.iter().flat_map(run).collect()
    }
}

/// Normally distributed values, determined by `seed` and `name`.
pub(super) fn normal(seed: u64, name: &str, values: usize) -> Vec<f32> {
    let random = Random::new(seed, name);
    (0..values as u64).map(|i| random.normal(i)).collect()
}

/// Asserts that a step has the same outputs on both programs, the first of the reference, up to an NMSE of `limit`.
pub(super) fn same(programs: &mut [Box<dyn Program>; 2], step: &Step, limit: f64, what: impl Display) {
    let [exact, found] = programs.each_mut().map(|program| program.run(step).expect("a good step"));
    let error = nmse(exact.values(), found.values());
    assert!(error <= limit, "{what}, {} rows: NMSE {error:e}", step.rows().len());
}

/// Asserts that two backends have the same results, up to an NMSE of `limit`. The first of `makes` is the reference. There is one
/// step for each of `counts`, with so many rows. `declare` makes the graph and returns its result.
pub(super) fn compare(
    makes: [Make<'_>; 2],
    counts: &[usize],
    limit: f64,
    what: impl Display,
    declare: impl Fn(&mut Net) -> ValueId,
) {
    let mut programs = makes.map(|make| {
        let mut net = Net::default();
        let output = declare(&mut net);
        net.compile(output, make()).expect("a good graph")
    });
    for &n in counts {
        same(&mut programs, &rows(n), limit, &what);
    }
}

/// Normalised mean squared error: `sum (a - b)^2 / sum a^2`, `a` the reference.
pub fn nmse(reference: &[f32], found: &[f32]) -> f64 {
    assert_eq!(reference.len(), found.len());
    let square = |x: f64| x * x;
    let error: f64 = reference.iter().zip(found).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    error / reference.iter().map(|&a| square(f64::from(a))).sum::<f64>()
}

/// Asserts equality up to rounding of f32, or of F16 K/V.
pub(super) fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let bound = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= bound, "element {i}: {found}, expected {expected}");
    }
}
