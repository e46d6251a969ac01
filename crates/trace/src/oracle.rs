//! One operation at a time on a reference backend, fed with tables: local replay.

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Span, Step, Taps, Weight};
use gguf::Gguf;
use graph::{Builder, Graph, Op, Rope, ValueId, WeightId};

use crate::{Error, Matrix, digest};

/// Makes an empty reference backend.
pub type MakeBackend<'a> = &'a (dyn Fn() -> Box<dyn Backend> + 'a);

/// Computes single operations of a model exactly.
#[derive(Clone, Copy)]
pub struct Oracle<'a> {
    file: &'a Gguf,
    graph: &'a Graph,
    make: MakeBackend<'a>,
}

/// An operation without its inputs, with the weights it is to use: what a replay or a hypothesis runs.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// The rows of a table that the tokens name.
    Embed(Weight, Vec<u32>),
    Linear(Weight),
    RmsNorm(Weight, f32),
    /// With the factors, and the position of the first row.
    Rope(Rope, Option<Weight>, usize),
    Attention {
        heads: usize,
        kv_heads: usize,
        scale: f32,
    },
    SwiGlu,
    Add,
    AddBias(Weight),
    TakeRows,
}

impl<'a> Oracle<'a> {
    /// An oracle for the model whose file and graph these are, on backends that `make` makes.
    pub fn new(file: &'a Gguf, graph: &'a Graph, make: MakeBackend<'a>) -> Oracle<'a> {
        Oracle { file, graph, make }
    }

    /// The identity of the model's files: see [`crate::digest`].
    pub fn digest(&self) -> String {
        digest(self.file)
    }

    /// The model's graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// A weight of the model, in place.
    ///
    /// # Errors
    /// When the file does not hold it.
    pub(crate) fn weight(&self, id: WeightId) -> Result<Weight, Error> {
        let graph::Weight { name, rows, cols } = self.graph.weight(id);
        let tensor =
            self.file.tensor(name).ok_or_else(|| backend::Error::MissingWeight { name: name.clone() })?;
        Ok(Weight { format: tensor.format, rows: *rows, cols: *cols, bytes: tensor.data.clone() })
    }

    /// What makes the value `id` for these tokens.
    pub(crate) fn call(&self, id: ValueId, tokens: &[u32]) -> Result<Call, Error> {
        Ok(match &self.graph.value(id).op {
            Op::Input => unreachable!("the graph of a whole model begins with tokens"),
            Op::Embed { table } => Call::Embed(self.weight(*table)?, tokens.to_vec()),
            Op::Linear { weight, .. } => Call::Linear(self.weight(*weight)?),
            Op::RmsNorm { weight, eps, .. } => Call::RmsNorm(self.weight(*weight)?, *eps),
            Op::Rope { rope, .. } => {
                Call::Rope(rope.clone(), rope.factors.map(|id| self.weight(id)).transpose()?, 0)
            }
            Op::Attention { heads, kv_heads, scale, .. } => {
                Call::Attention { heads: *heads, kv_heads: *kv_heads, scale: *scale }
            }
            Op::SwiGlu { .. } => Call::SwiGlu,
            Op::Add { .. } => Call::Add,
            Op::AddBias { weight, .. } => Call::AddBias(self.weight(*weight)?),
            Op::TakeRows { .. } => Call::TakeRows,
        })
    }

    /// The result of `call` on `inputs`, whose rows are positions 0, 1, … of one sequence.
    ///
    /// # Errors
    /// When the backend refuses it.
    pub(crate) fn run(&self, call: &Call, inputs: &[&Matrix]) -> Result<Matrix, Error> {
        if let Call::TakeRows = call {
            return Ok(inputs[0].clone());
        }
        let mut net = Net { graph: Builder::new(), backend: (self.make)() };
        let rows = inputs.first().map_or(0, |table| table.rows);
        let mut tokens: Vec<u32> = (0..rows as u32).collect();
        let mut past = 0;
        let x = net.inputs(inputs)?;
        let g = &mut net.graph;
        let y = match call {
            Call::Embed(table, ids) => {
                tokens.clone_from(ids);
                let table = net.weight("table", table.clone())?;
                net.graph.embed("y", table)
            }
            Call::Linear(weight) => {
                let w = net.weight("w", weight.clone())?;
                net.graph.linear("y", x[0], w)
            }
            Call::RmsNorm(weight, eps) => {
                let w = net.weight("w", weight.clone())?;
                net.graph.rms_norm("y", x[0], w, *eps)
            }
            Call::Rope(rope, factors, first) => {
                past = *first;
                let factors = factors.clone().map(|factors| net.weight("factors", factors)).transpose()?;
                net.graph.rope("y", x[0], &Rope { factors, ..rope.clone() })
            }
            Call::Attention { heads, kv_heads, scale } => {
                let y = g.attention("y", [x[0], x[1], x[2]], *heads, *kv_heads, *scale);
                net.backend.allocate_kv(KvLayout {
                    layers: 1,
                    kv_heads: *kv_heads,
                    k_dim: inputs[1].cols / kv_heads,
                    v_dim: inputs[2].cols / kv_heads,
                    pages: rows.div_ceil(PAGE),
                    format: KvFormat::F32,
                })?;
                y
            }
            Call::SwiGlu => g.swiglu("y", x[0], x[1]),
            Call::Add => g.add("y", x[0], x[1]),
            Call::AddBias(weight) => {
                let w = net.weight("w", weight.clone())?;
                net.graph.add_bias("y", x[0], w)
            }
            Call::TakeRows => x[0],
        };
        net.run(y, tokens, past)
    }
}

/// A small graph with its backend.
struct Net {
    graph: Builder,
    backend: Box<dyn Backend>,
}

impl Net {
    fn weight(&mut self, name: &str, weight: Weight) -> Result<WeightId, Error> {
        let id = self.graph.weight(name, weight.rows, weight.cols);
        self.backend.load(name, weight)?;
        Ok(id)
    }

    /// Values whose row for token `i` is row `i` of a table.
    fn inputs(&mut self, tables: &[&Matrix]) -> Result<Vec<ValueId>, Error> {
        let names = ["x0", "x1", "x2"];
        let input = |(&name, table): (&&'static str, &&Matrix)| {
            let weight = self.weight(name, table.weight())?;
            Ok(self.graph.embed(name, weight))
        };
        names.iter().zip(tables).map(input).collect()
    }

    fn run(mut self, y: ValueId, tokens: Vec<u32>, past: usize) -> Result<Matrix, Error> {
        let wanted = self.graph.take_rows("wanted", y);
        let graph = self.graph.finish(wanted);
        let rows = tokens.len();
        let bucket = Bucket { rows, wanted: rows };
        let mut program = self.backend.compile(&graph, bucket, Taps::None)?;
        let pages = (0..(past + rows).div_ceil(PAGE) as u32).collect();
        let span = Span { past, len: rows, pages };
        let page_store = Step::new(tokens, vec![span], (0..rows as u32).collect())?;
        program.run(&page_store)?;
        Ok(Matrix::new(graph.value(wanted).cols, program.output().to_vec()))
    }
}
