//! The operations.
//!
//! Each operation is described here once: operands ([`Op::operands`]), printed name and parameters ([`Op::name`],
//! [`Op::parameters`]), shape (`shape.rs`) and cost (`cost.rs`). Printing, cutting, liveness, binding, benchmarks and
//! traces derive from these, without lists of operations of their own.

use crate::{Rope, StoreId, ValueId, WeightId};

/// An element-wise activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))` (Hendrycks and Gimpel 2016).
    GeluTanh,
}

impl Activation {
    /// The name, such as `silu`.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
        }
    }
}

/// An element-wise function of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// `factor * x`.
    Scale(f32),
    /// `cap * tanh(x / cap)` (Gemma Team 2024).
    Softcap(f32),
    /// `act(x)`.
    Act(Activation),
}

impl Map {
    fn name(self) -> &'static str {
        match self {
            Map::Scale(_) => "scale",
            Map::Softcap(_) => "softcap",
            Map::Act(_) => "act",
        }
    }

    fn parameter(self) -> String {
        match self {
            Map::Scale(number) | Map::Softcap(number) => number.to_string(),
            Map::Act(act) => act.name().to_owned(),
        }
    }
}

/// How attention scores follow from the products of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Factor of the products, usually `1 / sqrt(k_dim)`.
    pub scale: f32,
    /// `cap * tanh(s / cap)` of each scaled product `s` (Gemma Team 2024); `None` for the products themselves.
    pub cap: Option<f32>,
}

impl From<f32> for Score {
    fn from(scale: f32) -> Score {
        Score { scale, cap: None }
    }
}

/// What a norm divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich 2019).
    Rms,
    /// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)` (Ba et al. 2016).
    Layer,
}

impl NormKind {
    /// The name of the operation, such as `rms_norm`.
    pub fn name(self) -> &'static str {
        match self {
            NormKind::Rms => "rms_norm",
            NormKind::Layer => "layer_norm",
        }
    }
}

/// The operations. Unless the formula says otherwise, a value `x` is `[rows, cols]` and a weight `w` `[w.rows, w.cols]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the formulas explain the fields")]
pub enum Op {
    /// Input rows of the step: the output of the previous part of a cut graph.
    Input { cols: usize },
    /// Embedding lookup, the rows of `table` at the step's tokens: `[rows, table.cols]`.
    Embed { table: WeightId },
    /// `y[r][o] = sum_k w[o][k] * x[r][k]`: `[rows, w.rows]`.
    Linear { x: ValueId, weight: WeightId },
    /// `norm(x)[r][k] * w[k]`, the norm over groups of `w.cols` columns: a whole row or one head. The weight has one row.
    Norm { x: ValueId, kind: NormKind, weight: WeightId, eps: f32 },
    /// Rotary position embedding of each head of `x`, `[rows, heads * head_dim]`.
    Rope { x: ValueId, rope: Rope },
    /// Writes `k` and `v`, if any, to `store` at each row's position, then computes attention. Row `r`, head `h` is
    /// `sum_j softmax_j(score(q[r][h] . K[j][g])) * V[j][g]` with `g = h / (heads / store.heads)` (Ainslie et al.
    /// 2023), over the positions `j` of its sequence up to its own, or the last `window` of them: `[rows, heads *
    /// v_dim]`.
    Attention {
        /// `[rows, heads * k_dim]`.
        q: ValueId,
        /// Keys `[rows, store.heads * k_dim]` and values `[rows, store.heads * v_dim]`; `None` to reuse the store that
        /// an earlier attention operation wrote.
        kv: Option<[ValueId; 2]>,
        store: StoreId,
        /// Query heads, a multiple of `store.heads`.
        heads: usize,
        score: Score,
    },
    /// `act(gate) * up` (Shazeer 2020).
    Gate { gate: ValueId, up: ValueId, act: Activation },
    /// Routing weights of the experts: the softmax over the `used` largest logits of a row, 0 for all others (Jiang et
    /// al. 2024): `[rows, experts]`. Of equal logits, the lower index ranks first. NaN of either sign ranks above all;
    /// if the largest logit is NaN or infinite, the weights of all chosen experts are NaN.
    Route { logits: ValueId, used: usize },
    /// `y[r] = sum_e p[r][e] * down_e (act(gate_e x[r]) * up_e x[r])` over the experts `e` whose `p[r][e]` is not 0:
    /// `[rows, down.rows]`. The routes `p` are `[rows, experts]`; each weight has one matrix per expert.
    Experts { x: ValueId, routes: ValueId, gate: WeightId, up: WeightId, down: WeightId, act: Activation },
    /// `map(x)`, element by element.
    Map { x: ValueId, map: Map },
    /// `a + b`.
    Add { a: ValueId, b: ValueId },
    /// `y[r][k] = x[r][k] + w[k]`.
    AddBias { x: ValueId, weight: WeightId },
    /// Gathers the output rows: `[outputs, cols]`.
    OutputRows { x: ValueId },
}

/// How an operation uses a weight; backends choose the storage format by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Embedding table: row lookup.
    Table,
    /// Matrix multiplied with every row.
    Matrix,
    /// One matrix per expert; each row is multiplied with those of its experts.
    Experts,
    /// Vector, used element-wise.
    Vector,
}

/// An operand of an operation: an input value, a weight with its role, or a KV store and whether the operation writes it.
#[derive(Debug)]
#[expect(missing_docs, reason = "see above")]
pub enum Operand<'a> {
    Value(&'a mut ValueId),
    Weight(&'a mut WeightId, Role),
    Store(&'a mut StoreId, bool),
}

impl Op {
    /// Calls `each` for every operand, in the order of printing.
    pub fn operands(&mut self, mut each: impl FnMut(Operand<'_>)) {
        use Operand::{Store, Value, Weight};
        match self {
            Op::Input { cols: _ } => {}
            Op::Embed { table } => each(Weight(table, Role::Table)),
            Op::Linear { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Matrix));
            }
            Op::Norm { x, kind: _, weight, eps: _ } | Op::AddBias { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Vector));
            }
            Op::Rope { x, rope } => {
                each(Value(x));
                let long = rope.long_factors.as_mut().map(|long| &mut long.factors);
                rope.factors.iter_mut().chain(long).for_each(|factors| each(Weight(factors, Role::Vector)));
            }
            Op::Attention { q, kv, store, heads: _, score: _ } => {
                each(Value(q));
                kv.iter_mut().flatten().for_each(|x| each(Value(x)));
                each(Store(store, kv.is_some()));
            }
            Op::Gate { gate, up, act: _ } => {
                each(Value(gate));
                each(Value(up));
            }
            Op::Route { logits, used: _ } => each(Value(logits)),
            Op::Experts { x, routes, gate, up, down, act: _ } => {
                each(Value(x));
                each(Value(routes));
                [gate, up, down].into_iter().for_each(|weight| each(Weight(weight, Role::Experts)));
            }
            Op::Map { x, map: _ } | Op::OutputRows { x } => each(Value(x)),
            Op::Add { a, b } => {
                each(Value(a));
                each(Value(b));
            }
        }
    }

    /// The input values, in order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> + use<> {
        let mut inputs = Vec::new();
        let mut op = *self;
        op.operands(|operand| {
            if let Operand::Value(id) = operand {
                inputs.push(*id);
            }
        });
        inputs.into_iter()
    }

    /// The weights and their roles, in order.
    pub fn weights(&self) -> impl Iterator<Item = (WeightId, Role)> + use<> {
        let mut weights = Vec::new();
        let mut op = *self;
        op.operands(|operand| {
            if let Operand::Weight(id, role) = operand {
                weights.push((*id, role));
            }
        });
        weights.into_iter()
    }

    /// The KV store, and whether the operation writes it.
    pub fn store(&self) -> Option<(StoreId, bool)> {
        let mut store = None;
        let mut op = *self;
        op.operands(|operand| {
            if let Operand::Store(id, is_written) = operand {
                store = Some((*id, is_written));
            }
        });
        store
    }

    /// The printed name, such as `rms_norm`.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input { .. } => "input",
            Op::Embed { .. } => "embed",
            Op::Linear { .. } => "linear",
            Op::Norm { kind, .. } => kind.name(),
            Op::Rope { .. } => "rope",
            Op::Attention { .. } => "attention",
            Op::Gate { .. } => "gate",
            Op::Route { .. } => "route",
            Op::Experts { .. } => "experts",
            Op::Map { map, .. } => map.name(),
            Op::Add { .. } => "add",
            Op::AddBias { .. } => "add_bias",
            Op::OutputRows { .. } => "output_rows",
        }
    }

    /// The printed parameters, such as `eps 1e-5`; `None` if there are none besides the operands.
    pub fn parameters(&self) -> Option<String> {
        match self {
            Op::Input { cols } => Some(cols.to_string()),
            Op::Norm { eps, .. } => Some(format!("eps {eps:e}")),
            Op::Rope { rope, .. } => Some(rope.to_string()),
            Op::Attention { heads, score: Score { scale, cap }, .. } => {
                let cap = cap.map_or_else(String::new, |cap| format!(", cap {cap}"));
                Some(format!("{heads} heads, scale {scale}{cap}"))
            }
            Op::Gate { act, .. } | Op::Experts { act, .. } => Some(act.name().to_owned()),
            Op::Route { used, .. } => Some(format!("{used} used")),
            Op::Map { map, .. } => Some(map.parameter()),
            Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => None,
        }
    }
}
