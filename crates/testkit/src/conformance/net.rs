//! A small graph with its weights, run on a backend.

use backend::{Backend, Bucket, Error, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use graph::{Builder, ValueId, WeightId};
use quant::Format;

/// A graph being built, and its weights.
#[derive(Default)]
pub(super) struct Net {
    pub(super) graph: Builder,
    pub(super) weights: Vec<(String, Weight)>,
}

/// A K/V store of one layer.
pub(super) fn store(kv_heads: usize, k_dim: usize, v_dim: usize, pages: usize, format: KvFormat) -> KvLayout {
    KvLayout { layers: 1, kv_heads, k_dim, v_dim, pages, format }
}

/// A step of one sequence from position 0 on pages 0, 1, …: token `i` in row `i`, all rows wanted.
pub(super) fn rows(n: usize) -> Step {
    sequence(0, n)
}

/// The tokens `past..past + n` of one sequence, at positions of the same numbers, all rows wanted.
pub(super) fn sequence(past: usize, n: usize) -> Step {
    let pages = (0..(past + n).div_ceil(backend::PAGE) as u32).collect();
    let tokens = (past..past + n).map(|i| i as u32).collect();
    Step::new(tokens, vec![Span { past, len: n, pages }], (0..n as u32).collect()).expect("a good step")
}

impl Net {
    /// A matrix in any format.
    pub(super) fn weight(
        &mut self,
        name: &str,
        format: Format,
        rows: usize,
        cols: usize,
        bytes: Vec<u8>,
    ) -> WeightId {
        self.weights.push((name.into(), Weight { format, rows, cols, bytes: bytes.into() }));
        self.graph.weight(name, rows, cols)
    }

    /// A matrix of F32, given row after row.
    pub(super) fn matrix(&mut self, name: &str, rows: usize, values: &[f32]) -> WeightId {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.weight(name, Format::F32, rows, values.len() / rows, bytes)
    }

    /// A value whose row for token `i` is row `i` of `values`.
    pub(super) fn input(&mut self, name: &'static str, rows: usize, values: &[f32]) -> ValueId {
        let table = self.matrix(name, rows, values);
        self.graph.embed(name, table)
    }

    /// Compiles the graph for the wanted rows of `output`.
    pub(super) fn compile(
        mut self,
        output: ValueId,
        backend: Box<dyn Backend>,
        kv: Option<KvLayout>,
    ) -> Result<Box<dyn Program>, Error> {
        let wanted = self.graph.take_rows("wanted", output);
        self.compile_wanted(wanted, backend, kv)
    }

    /// Compiles the graph for `wanted`, which has the wanted rows already.
    pub(super) fn compile_wanted(
        self,
        wanted: ValueId,
        backend: Box<dyn Backend>,
        kv: Option<KvLayout>,
    ) -> Result<Box<dyn Program>, Error> {
        self.compile_for(64, wanted, backend, kv)
    }

    /// The same for steps of up to `rows`.
    fn compile_for(
        self,
        rows: usize,
        wanted: ValueId,
        mut backend: Box<dyn Backend>,
        kv: Option<KvLayout>,
    ) -> Result<Box<dyn Program>, Error> {
        for (name, weight) in self.weights {
            backend.load(&name, weight)?;
        }
        if let Some(kv) = kv {
            backend.allocate_kv(kv)?;
        }
        backend.compile(&self.graph.finish(wanted), Bucket { rows, wanted: rows }, Taps::None)
    }

    /// The outputs of `steps`, one after the other.
    pub(super) fn run(
        mut self,
        output: ValueId,
        backend: Box<dyn Backend>,
        kv: Option<KvLayout>,
        steps: &[Step],
    ) -> Vec<f32> {
        let rows = steps.iter().map(|step| step.tokens().len()).max().unwrap_or(0).max(64);
        let wanted = self.graph.take_rows("wanted", output);
        let mut program = self.compile_for(rows, wanted, backend, kv).expect("a good graph");
        let mut outputs = Vec::new();
        for step in steps {
            program.run(step).expect("a good step");
            outputs.extend_from_slice(program.output());
        }
        outputs
    }
}

/// Normalised mean squared error: `sum (a - b)^2 / sum a^2`, `a` the reference.
pub fn nmse(reference: &[f32], found: &[f32]) -> f64 {
    assert_eq!(reference.len(), found.len());
    let square = |x: f64| x * x;
    let error: f64 = reference.iter().zip(found).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    error / reference.iter().map(|&a| square(f64::from(a))).sum::<f64>()
}
