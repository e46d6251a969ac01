//! Building a graph, one call an operation.

use std::collections::HashMap;
use std::panic::Location;

use crate::{Graph, Op, Rope, Rows, Value, ValueId, Weight, WeightId};

/// Builds a [`Graph`]. Every method takes and returns `Copy` ids.
///
/// A model is our code and its configuration has been checked, so a shape that does not fit is a
/// bug in the model: the methods panic and name the line of the model that called them.
#[derive(Debug, Default)]
pub struct Builder {
    values: Vec<Value>,
    by_name: HashMap<String, ValueId>,
    weights: Vec<Weight>,
    weights_by_name: HashMap<String, WeightId>,
    layers: usize,
}

/// A value's name: a base, and the layer it belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Named(pub &'static str, pub Option<usize>);

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(layer) => write!(f, "{}-{layer}", self.0),
            None => f.write_str(self.0),
        }
    }
}

impl From<&'static str> for Named {
    fn from(base: &'static str) -> Named {
        Named(base, None)
    }
}

impl From<(&'static str, usize)> for Named {
    fn from((base, layer): (&'static str, usize)) -> Named {
        Named(base, Some(layer))
    }
}

impl Builder {
    /// An empty graph.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The weight called `name` in the file, `rows` rows of `cols` values.
    #[track_caller]
    pub fn weight(&mut self, name: impl Into<String>, rows: usize, cols: usize) -> WeightId {
        let weight = Weight { name: name.into(), rows, cols };
        if let Some(&id) = self.weights_by_name.get(&weight.name) {
            assert_eq!(self.weights[id.index()], weight, "a weight has one shape");
            return id;
        }
        let id = WeightId(self.weights.len() as u32);
        self.weights_by_name.insert(weight.name.clone(), id);
        self.weights.push(weight);
        id
    }

    /// The embeddings of the step's tokens: `[rows, table.cols]`.
    #[track_caller]
    pub fn embed(&mut self, name: impl Into<Named>, table: WeightId) -> ValueId {
        let cols = self.weights[table.index()].cols;
        self.push(name, Op::Embed { table }, Rows::Step, cols)
    }

    /// `x` times the transpose of `weight`: `[rows, weight.rows]`.
    #[track_caller]
    pub fn linear(&mut self, name: impl Into<Named>, x: ValueId, weight: WeightId) -> ValueId {
        let (rows, cols) = self.shape(x);
        let w = &self.weights[weight.index()];
        assert_eq!(cols, w.cols, "input of linear and columns of `{}`", w.name);
        let out = w.rows;
        self.push(name, Op::Linear { x, weight }, rows, out)
    }

    /// Root-mean-square norm: `[rows, cols]`.
    #[track_caller]
    pub fn rms_norm(&mut self, name: impl Into<Named>, x: ValueId, weight: WeightId, eps: f32) -> ValueId {
        let (rows, cols) = self.shape(x);
        let w = &self.weights[weight.index()];
        assert_eq!((1, cols), (w.rows, w.cols), "input of rms_norm and `{}`", w.name);
        self.push(name, Op::RmsNorm { x, weight, eps }, rows, cols)
    }

    /// Rotates each head of `x` by its position: `[rows, cols]`.
    #[track_caller]
    pub fn rope(&mut self, name: impl Into<Named>, x: ValueId, rope: &Rope) -> ValueId {
        let (rows, cols) = self.shape(x);
        assert_eq!(rows, Rows::Step, "rope needs the positions of the step's rows");
        assert!(cols.is_multiple_of(rope.head_dim), "{cols} columns are not heads of {}", rope.head_dim);
        assert!(rope.dims.is_multiple_of(2) && rope.dims <= rope.head_dim, "{} columns rotate", rope.dims);
        if let Some(factors) = rope.factors {
            let w = &self.weights[factors.index()];
            assert_eq!((1, rope.dims / 2), (w.rows, w.cols), "pairs of rope and `{}`", w.name);
        }
        self.push(name, Op::Rope { x, rope: rope.clone() }, rows, cols)
    }

    /// Causal attention over the cache of the next layer, after writing `k` and `v` to it:
    /// `[rows, heads * v_dim]`.
    #[track_caller]
    pub fn attention(
        &mut self,
        name: impl Into<Named>,
        [q, k, v]: [ValueId; 3],
        heads: usize,
        kv_heads: usize,
        scale: f32,
    ) -> ValueId {
        let ((rows, q_cols), (_, k_cols), (_, v_cols)) = (self.shape(q), self.shape(k), self.shape(v));
        assert!(heads.is_multiple_of(kv_heads), "{heads} heads share {kv_heads} key/value heads");
        assert!(k_cols.is_multiple_of(kv_heads) && v_cols.is_multiple_of(kv_heads), "columns of k and v");
        assert_eq!(q_cols / heads, k_cols / kv_heads, "width of a query head and of a key head");
        for x in [q, k, v] {
            assert_eq!(self.shape(x).0, Rows::Step, "attention needs every row of the step");
        }
        let layer = self.layers;
        self.layers += 1;
        let op = Op::Attention { q, k, v, layer, heads, kv_heads, scale };
        self.push(name, op, rows, heads * (v_cols / kv_heads))
    }

    /// `silu(gate) * up`: `[rows, cols]`.
    #[track_caller]
    pub fn swiglu(&mut self, name: impl Into<Named>, gate: ValueId, up: ValueId) -> ValueId {
        assert_eq!(self.shape(gate), self.shape(up), "gate and up");
        let (rows, cols) = self.shape(gate);
        self.push(name, Op::SwiGlu { gate, up }, rows, cols)
    }

    /// `a + b`: `[rows, cols]`.
    #[track_caller]
    pub fn add(&mut self, name: impl Into<Named>, a: ValueId, b: ValueId) -> ValueId {
        assert_eq!(self.shape(a), self.shape(b), "both sides of add");
        let (rows, cols) = self.shape(a);
        self.push(name, Op::Add { a, b }, rows, cols)
    }

    /// `x` plus the one row of `weight`: `[rows, cols]`.
    #[track_caller]
    pub fn add_bias(&mut self, name: impl Into<Named>, x: ValueId, weight: WeightId) -> ValueId {
        let (rows, cols) = self.shape(x);
        let w = &self.weights[weight.index()];
        assert_eq!((1, cols), (w.rows, w.cols), "input of add_bias and `{}`", w.name);
        self.push(name, Op::AddBias { x, weight }, rows, cols)
    }

    /// The rows of `x` whose logits are wanted: `[wanted, cols]`.
    #[track_caller]
    pub fn take_rows(&mut self, name: impl Into<Named>, x: ValueId) -> ValueId {
        let (rows, cols) = self.shape(x);
        assert_eq!(rows, Rows::Step, "rows are taken once");
        self.push(name, Op::TakeRows { x }, Rows::Wanted, cols)
    }

    /// The graph whose result is `output`.
    #[track_caller]
    pub fn finish(self, output: ValueId) -> Graph {
        assert_eq!(self.shape(output).0, Rows::Wanted, "the output has the wanted rows");
        Graph {
            values: self.values,
            by_name: self.by_name,
            weights: self.weights,
            layers: self.layers,
            output,
        }
    }

    fn shape(&self, x: ValueId) -> (Rows, usize) {
        let value = &self.values[x.index()];
        (value.rows, value.cols)
    }

    #[track_caller]
    fn push(&mut self, name: impl Into<Named>, op: Op, rows: Rows, cols: usize) -> ValueId {
        let name = name.into().to_string();
        let id = ValueId(self.values.len() as u32);
        let taken = self.by_name.insert(name.clone(), id);
        assert!(taken.is_none(), "the name `{name}` is taken");
        self.values.push(Value { name, op, rows, cols, location: Location::caller() });
        id
    }
}
