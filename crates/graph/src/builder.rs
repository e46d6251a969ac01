//! The graph builder: one call per operation.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::Location;

use crate::{
    Activation, Glu, Graph, Group, Hidden, Index, Map, NormKind, Op, Operand, Pool, Rope, Router, Rows,
    Score, Store, StoreId, Value, ValueId, Weight, WeightId,
};

/// Builds a [`Graph`]. Configurations are validated before, so a shape mismatch is a bug in the model code: the methods panic
/// with the caller's location.
#[derive(Debug, Default)]
pub struct Builder {
    pub(crate) values: Vec<Value>,
    pub(crate) by_name: HashMap<String, ValueId>,
    weights: Vec<Weight>,
    weights_by_name: HashMap<String, WeightId>,
    pub(crate) stores: Vec<(Store, usize)>,
    groups: Vec<Group>,
    layer_ends: Vec<ValueId>,
    heads: Vec<ValueId>,
}

/// A value's name: a base name and an optional layer index, such as `Qcur-0`.
#[derive(Clone, Copy, Debug)]
pub struct ValueName(pub &'static str, pub Option<usize>);

impl std::fmt::Display for ValueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(layer) => write!(f, "{}-{layer}", self.0),
            None => f.write_str(self.0),
        }
    }
}

impl From<&'static str> for ValueName {
    fn from(base: &'static str) -> ValueName {
        ValueName(base, None)
    }
}

impl From<(&'static str, usize)> for ValueName {
    fn from((base, layer): (&'static str, usize)) -> ValueName {
        ValueName(base, Some(layer))
    }
}

impl Builder {
    /// An empty graph.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Declares weight `name` of the file, a matrix `[rows, cols]`.
    #[track_caller]
    pub fn weight(&mut self, name: impl Into<String>, rows: usize, cols: usize) -> WeightId {
        self.weights(name, [1, rows, cols])
    }

    /// Declares weight `name` of the file, `count` matrices `[rows, cols]`.
    #[track_caller]
    pub fn weights(&mut self, name: impl Into<String>, shape: [usize; 3]) -> WeightId {
        self.declare(Weight::whole(name.into(), shape))
    }

    /// Declares rows `range` of tensor `name`, a matrix `[rows, cols]` that fuses several weights.
    #[track_caller]
    pub fn weight_rows(
        &mut self,
        name: impl Into<String>,
        tensor_rows: usize,
        range: Range<usize>,
        cols: usize,
    ) -> WeightId {
        let (tensor, rows) = (name.into(), range.len());
        let name = format!("{tensor}[{}..{}]", range.start, range.end);
        self.declare(Weight { name, tensor, tensor_rows, range, rows, cols, count: 1, share: None })
    }

    /// Declares tensor `name` of `count` matrices `[2 * rows, cols]` as twice as many matrices, the halves of each.
    #[track_caller]
    pub fn weight_halves(&mut self, name: impl Into<String>, [count, rows, cols]: [usize; 3]) -> WeightId {
        let tensor = name.into();
        let name = format!("{tensor}[halves]");
        let (tensor_rows, range, count) = (2 * rows, 0..2 * rows, 2 * count);
        self.declare(Weight { name, tensor, tensor_rows, range, rows, cols, count, share: None })
    }

    #[track_caller]
    pub(crate) fn declare(&mut self, weight: Weight) -> WeightId {
        if let Some(&id) = self.weights_by_name.get(&weight.name) {
            assert_eq!(self.weights[id.index()], weight, "a weight has one shape");
            return id;
        }
        let id = WeightId(self.weights.len() as u32);
        self.weights_by_name.insert(weight.name.clone(), id);
        self.weights.push(weight);
        id
    }

    /// Whether a value has one row per output row.
    pub fn has_output_rows(&self, id: ValueId) -> bool {
        self.shape_at(id).0 == Rows::Output
    }

    /// A declared weight.
    pub fn declared(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// Declares a KV store: one attention operation writes it, others may read it.
    #[track_caller]
    pub fn store(&mut self, store: Store) -> StoreId {
        assert_ne!(store.mask.size(), Some(0), "a mask includes the row's own position");
        let group = Group { mask: store.mask };
        let number = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        self.stores.push((store, number));
        StoreId(self.stores.len() as u32 - 1)
    }

    /// [`Builder::linear`], times the only number of `scale`. The product alone is `name`, followed by `_unscaled`.
    #[track_caller]
    pub fn scaled_linear(
        &mut self,
        name: ValueName,
        x: ValueId,
        weight: WeightId,
        scale: WeightId,
    ) -> ValueId {
        let layer = name.1.map_or_else(String::new, |layer| format!("-{layer}"));
        let x = self.named(format!("{}_unscaled{layer}", name.0), Op::Linear { x, weight });
        self.mul_weight(name, x, scale)
    }

    /// RMS norm over groups of `weight.cols` columns: `[rows, cols]`.
    #[track_caller]
    pub fn rms_norm(
        &mut self,
        name: impl Into<ValueName>,
        x: ValueId,
        weight: WeightId,
        eps: f32,
    ) -> ValueId {
        let width = self.weights[weight.index()].cols;
        self.norm(name, x, NormKind::Rms, width, Some(weight), eps)
    }

    /// Mixture of experts, weighted by `routes`; the weights are gate, up and down: `[rows, down.rows]`.
    #[track_caller]
    pub fn experts(
        &mut self,
        name: impl Into<ValueName>,
        x: ValueId,
        routes: ValueId,
        [gate, up, down]: [WeightId; 3],
        glu: impl Into<Glu>,
    ) -> ValueId {
        let hidden = Hidden::Gated {
            weights: [gate, up],
            scales: [None; 2],
            biases: None,
            glu: glu.into(),
            is_fused: false,
        };
        self.op(name, Op::Experts { x, routes, hidden, down, scale: None, bias: None, weighs_inputs: false })
    }

    /// Adds any operation whose operands belong to this builder, such as one copied from another graph.
    #[track_caller]
    pub fn op(&mut self, name: impl Into<ValueName>, op: Op) -> ValueId {
        self.named(name.into().to_string(), op)
    }

    #[track_caller]
    fn named(&mut self, name: String, op: Op) -> ValueId {
        let (rows, cols) = op.shape(self);
        assert!(!self.by_name.contains_key(&name), "the name `{name}` is already used");
        self.push(Value { name, op, rows, cols, location: Location::caller() })
    }

    pub(crate) fn push(&mut self, value: Value) -> ValueId {
        let id = ValueId(self.values.len() as u32);
        self.by_name.insert(value.name.clone(), id);
        self.values.push(value);
        id
    }

    /// Marks `value` as the end of a layer, where the graph can be cut.
    pub fn end_layer(&mut self, value: ValueId) {
        self.layer_ends.push(value);
    }

    /// Adds `value` to the further results of the graph. It must have one row per output row.
    #[track_caller]
    pub fn head(&mut self, value: ValueId) {
        assert_eq!(self.shape_at(value).0, Rows::Output, "a result of a graph has one row per output row");
        self.heads.push(value);
    }

    /// Finishes the graph with result `output`.
    #[track_caller]
    pub fn finish(self, output: ValueId) -> Graph {
        assert_eq!(self.shape_at(output).0, Rows::Output, "the result of a graph has one row per output row");
        self.check_reduced();
        let Builder { values, by_name, weights, weights_by_name: _, stores, groups, layer_ends, heads } =
            self;
        Graph { values, by_name, weights, stores, groups, layer_ends, output, heads }
    }

    /// Asserts that nothing reads what an [`Op::AllReduce`] sums, besides it.
    #[track_caller]
    fn check_reduced(&self) {
        let mut readers = vec![0; self.values.len()];
        self.values.iter().flat_map(|value| value.op.inputs()).for_each(|x| readers[x.index()] += 1);
        for value in &self.values {
            if let Op::AllReduce { x } = value.op {
                assert_eq!(readers[x.index()], 1, "readers of the operand of `{}`", value.name);
            }
        }
    }

    pub(crate) fn shape_at(&self, x: ValueId) -> (Rows, usize) {
        let value = &self.values[x.index()];
        (value.rows, value.cols)
    }

    pub(crate) fn is_written(&self, id: StoreId) -> bool {
        self.values.iter().any(|value| value.op.store() == Some((id, true)))
    }
}

/// Defines a method for each operation: its arguments after the name of the value, and the operation.
macro_rules! operations {
    ($($(#[$doc:meta])* $method:ident($($argument:ident: $type:ty),*) => $op:expr;)+) => {
        impl Builder {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(&mut self, name: impl Into<ValueName>, $($argument: $type),*) -> ValueId {
                self.op(name, $op)
            }
        )+}
    };
}

operations! {
    /// The rows that a step passes as input: `[rows, cols]`.
    input(cols: usize) => Op::Input { cols };
    /// The embeddings of the step's tokens: `[rows, table.cols]`.
    embed(table: WeightId) => Op::Embed { table, index: Index::Token };
    /// The rows of `table` at the positions of the step's rows: `[rows, table.cols]`.
    embed_positions(table: WeightId) => Op::Embed { table, index: Index::Position };
    /// `x` times the transpose of `weight`: `[rows, weight.rows]`.
    linear(x: ValueId, weight: WeightId) => Op::Linear { x, weight };
    /// Norm over groups of `width` columns, times a weight if there is one: `[rows, cols]`.
    norm(x: ValueId, kind: NormKind, width: usize, weight: Option<WeightId>, eps: f32) =>
        Op::Norm { x, kind, width, weight, eps };
    /// Rotary position embedding of each head of `x`: `[rows, cols]`.
    rope(x: ValueId, rope: &Rope) => Op::Rope { x, rope: *rope };
    /// Attention over `store`; first writes `kv`, if any, to it: `[rows, heads * v_dim]`.
    attention(q: ValueId, kv: Option<[ValueId; 2]>, store: StoreId, heads: usize, score: impl Into<Score>) =>
        Op::Attention { q, kv, store, heads, score: score.into() };
    /// Causal convolution of each column: `[rows, cols]`.
    conv(x: ValueId, weight: WeightId, bias: Option<WeightId>) => Op::Conv { x, weight, bias };
    /// `glu(gate, up)`: `[rows, up.cols]`.
    gate(gate: ValueId, up: ValueId, glu: impl Into<Glu>) => Op::Gate { gate, up, glu: glu.into() };
    /// Expert routing weights: `[rows, experts]`.
    route(logits: ValueId, used: usize) => Op::Route { logits, bias: None, router: Router::new(used) };
    /// `factor * x`: `[rows, cols]`.
    scale(x: ValueId, factor: f32) => Op::Map { x, map: Map::Scale(factor) };
    /// `cap * tanh(x / cap)`: `[rows, cols]`.
    softcap(x: ValueId, cap: f32) => Op::Map { x, map: Map::Softcap(cap) };
    /// `act(x)`: `[rows, cols]`.
    act(x: ValueId, act: Activation) => Op::Map { x, map: Map::Act(act) };
    /// `a + b`: `[rows, cols]`.
    add(a: ValueId, b: ValueId) => Op::Add { a, b };
    /// `x` plus the vector `weight`: `[rows, cols]`.
    add_bias(x: ValueId, weight: WeightId) => Op::AddBias { x, weight };
    /// `x` times the vector `weight`, repeated: `[rows, cols]`.
    mul_weight(x: ValueId, weight: WeightId) => Op::MulWeight { x, weight };
    /// Each head times the transpose of its own matrix: `[rows, weight.count * weight.rows]`.
    head_linear(x: ValueId, weight: WeightId) => Op::HeadLinear { x, weight };
    /// Columns `range` of each head: `[rows, heads * range.len()]`.
    slice(x: ValueId, heads: usize, range: Range<usize>) =>
        Op::Slice { x, heads, start: range.start, len: range.len() };
    /// Each head of `a` followed by the same head of `b`, or by the only head of `b`: `[rows, heads * (a's + b's)]`.
    join(ab: [ValueId; 2], heads: usize, b_heads: usize) => Op::Join { a: ab[0], b: ab[1], heads, b_heads };
    /// The output rows of `x`: `[outputs, cols]`.
    output_rows(x: ValueId) => Op::OutputRows { x };
    /// One row for the sequence of each output row: `[outputs, cols]`.
    pool(x: ValueId, pool: Pool) => Op::Pool { x, pool };
    /// The sum of `x` over the ranks, which nothing else reads: `[rows, cols]`.
    all_reduce(x: ValueId) => Op::AllReduce { x };
}

/// Maps the ids of a graph to those of a part of it.
#[derive(Default)]
pub(crate) struct IdMap {
    weights: HashMap<WeightId, WeightId>,
    stores: HashMap<StoreId, StoreId>,
}

impl Builder {
    /// Copies `value` of `whole`, with its weights and store. Value `first` of `whole` is value 0 here.
    pub(crate) fn import(&mut self, whole: &Graph, value: &Value, first: usize, ids: &mut IdMap) {
        let mut value = value.clone();
        value.op.operands(|operand| match operand {
            Operand::Value(id) => id.0 -= first as u32,
            Operand::Weight(id, _) => {
                *id = *ids.weights.entry(*id).or_insert_with(|| self.declare(whole.weight(*id).clone()));
            }
            Operand::Store(id, _) => {
                *id = *ids.stores.entry(*id).or_insert_with(|| {
                    self.stores.push((*whole.store(*id), whole.store_group(*id)));
                    StoreId(self.stores.len() as u32 - 1)
                });
            }
        });
        self.push(value);
    }

    /// Finishes the part of `whole` whose first value is value `first`.
    pub(crate) fn finish_part(self, whole: &Graph, first: usize, output: ValueId) -> Graph {
        let Builder { values, by_name, weights, stores, .. } = self;
        let local = |id: &ValueId| id.index().checked_sub(first).filter(|&index| index < values.len());
        // The input of a part is the layer end of the part before.
        let ends = whole.layer_ends.iter().filter_map(local).filter(|&index| first == 0 || index > 0);
        let layer_ends = ends.map(ValueId::from_index).collect();
        let heads = whole.heads.iter().filter_map(local).map(ValueId::from_index).collect();
        let output = ValueId(output.0 - first as u32);
        Graph { values, by_name, weights, stores, groups: whole.groups.clone(), layer_ends, output, heads }
    }

    /// Finishes the shard of `whole`, in which a value has the id that `local` gives.
    pub(crate) fn finish_shard(self, whole: &Graph, local: impl Fn(ValueId) -> ValueId) -> Graph {
        self.check_reduced();
        let Builder { values, by_name, weights, stores, .. } = self;
        let [layer_ends, heads] =
            [&whole.layer_ends, &whole.heads].map(|ids| ids.iter().map(|&id| local(id)).collect());
        let (groups, output) = (whole.groups.clone(), local(whole.output));
        Graph { values, by_name, weights, stores, groups, layer_ends, output, heads }
    }
}
