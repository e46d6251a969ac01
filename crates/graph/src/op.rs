//! The operations.
//!
//! Each operation is described here once: operands ([`Op::operands`]), printed name and parameters ([`Op::name`],
//! [`Op::parameters`]), shape (`shape.rs`) and cost (`cost.rs`). Printing, cutting, liveness, binding, benchmarks and
//! traces derive from these, without lists of operations of their own.

use std::fmt;

use crate::{Activation, Glu, Hidden, Rope, StoreId, ValueId, WeightId};

/// The weights that a router computes from its logits before it chooses experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gating {
    /// The softmax over the logits of the chosen experts (Jiang et al. 2024).
    ChosenSoftmax,
    /// The softmax over all logits (Fedus et al. 2021).
    Softmax,
    /// The sigmoid of each logit (DeepSeek-AI 2024).
    Sigmoid,
}

/// How a router turns logits into the weights of the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// Experts per row.
    pub used: usize,
    /// The weights.
    pub gating: Gating,
    /// The weights of a row are divided by their sum, at least `2^-14`.
    pub renormalises: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// The number of groups of equal size that the experts are divided into, and the number of groups that are used: those whose
    /// two largest weights, biases included, have the largest sum (DeepSeek-AI 2024).
    pub groups: Option<[usize; 2]>,
}

impl Router {
    /// The softmax over the `used` largest logits.
    pub fn new(used: usize) -> Router {
        Router { used, gating: Gating::ChosenSoftmax, renormalises: false, scale: 1.0, groups: None }
    }
}

impl fmt::Display for Router {
    /// Such as `2 used`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Router { used, gating, renormalises, scale, groups } = self;
        write!(f, "{used} used")?;
        match gating {
            Gating::ChosenSoftmax => {}
            Gating::Softmax => f.write_str(", softmax of all")?,
            Gating::Sigmoid => f.write_str(", sigmoid")?,
        }
        if *renormalises {
            f.write_str(", renormalised")?;
        }
        if *scale != 1.0 {
            write!(f, ", scale {scale}")?;
        }
        groups.map_or(Ok(()), |[groups, used]| write!(f, ", {used} of {groups} groups"))
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
    /// One logit per head without a value: it only enters the softmax's denominator (OpenAI 2025, gpt-oss).
    pub sinks: Option<WeightId>,
    /// ALiBi with this largest bias (Press et al. 2022): the score of a position `d` away falls by [`Score::slope`] times
    /// `d`. Not together with a cap.
    pub alibi: Option<f32>,
}

impl Score {
    /// The ALiBi slope of `head` of `heads`, 0 without ALiBi: with `m` the largest power of two up to `heads` and the bias
    /// `b`, `2^(-b (head + 1) / m)` for the first `m` heads, and `2^(-b (2 (head - m) + 1) / (2 m))` for the others.
    pub fn slope(&self, head: usize, heads: usize) -> f32 {
        let Some(bias) = self.alibi else { return 0.0 };
        let m = 1 << heads.ilog2();
        let exponent = if head < m {
            (head + 1) as f64 / m as f64
        } else {
            (2 * (head - m) + 1) as f64 / (2 * m) as f64
        };
        (-f64::from(bias) * exponent).exp2() as f32
    }
}

impl From<f32> for Score {
    fn from(scale: f32) -> Score {
        Score { scale, cap: None, sinks: None, alibi: None }
    }
}

/// Which row of a table an embedding looks up for each row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// The row's token.
    Token,
    /// The row's position in its sequence.
    Position,
}

/// The vector that represents a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// The mean of its rows.
    Mean,
    /// Its first row.
    First,
}

impl Pool {
    /// The name, such as `mean`.
    pub fn name(self) -> &'static str {
        match self {
            Pool::Mean => "mean",
            Pool::First => "first",
        }
    }
}

/// The divisor of a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps)` (Zhang and Sennrich 2019).
    Rms,
    /// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)` (Ba et al. 2016).
    Layer,
    /// `x / sqrt(sum(x^2) + eps)`.
    L2,
}

impl NormKind {
    /// All kinds.
    pub const ALL: [NormKind; 3] = [NormKind::Rms, NormKind::Layer, NormKind::L2];

    /// The name of the operation, such as `rms_norm`.
    pub fn name(self) -> &'static str {
        match self {
            NormKind::Rms => "rms_norm",
            NormKind::Layer => "layer_norm",
            NormKind::L2 => "l2_norm",
        }
    }
}

/// The heads of [`Op::LinearAttention`] and how their state changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearHeads {
    /// Value heads.
    pub heads: usize,
    /// Key heads: as many for the queries; a divisor of `heads`.
    pub k_heads: usize,
    /// Value head `h` reads key head `h mod k_heads` in place of `h / (heads / k_heads)`.
    pub is_tiled: bool,
    /// Factor of the results.
    pub scale: f32,
    /// The delta rule (Yang et al. 2024): the value that the state has for the key is subtracted from the new one.
    pub is_delta: bool,
}

impl LinearHeads {
    /// The key head of value head `head`.
    pub fn k_head(&self, head: usize) -> usize {
        if self.is_tiled { head % self.k_heads } else { head / (self.heads / self.k_heads) }
    }
}

impl fmt::Display for LinearHeads {
    /// Such as `4 heads, 2 key heads, scale 0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinearHeads { heads, k_heads, is_tiled, scale, is_delta } = self;
        let tiled = if *is_tiled { " tiled" } else { "" };
        let delta = if *is_delta { ", delta rule" } else { "" };
        write!(f, "{heads} heads, {k_heads}{tiled} key heads, scale {scale}{delta}")
    }
}

/// The operations. Unless the formula says otherwise, a value `x` is `[rows, cols]` and a weight `w` `[w.rows, w.cols]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the formulas explain the fields")]
pub enum Op {
    /// Input rows of the step: the output of the previous part of a cut graph.
    Input { cols: usize },
    /// Embedding lookup, the rows of `table` at the step's tokens or positions: `[rows, table.cols]`.
    Embed { table: WeightId, index: Index },
    /// `y[r][o] = sum_k w[o][k] * x[r][k]`: `[rows, w.rows]`.
    Linear { x: ValueId, weight: WeightId },
    /// `norm(x)[r][k] * w[k mod n]`, the norm over groups of `width` columns: a whole row or one head; without a weight,
    /// `norm(x)`. The weight is `n` numbers, in rows of any length.
    Norm { x: ValueId, kind: NormKind, width: usize, weight: Option<WeightId>, eps: f32 },
    /// Rotary position embedding of each head of `x`, `[rows, heads * head_dim]`.
    Rope { x: ValueId, rope: Rope },
    /// Writes `k` and `v`, if any, to `store` at each row's position, then computes attention. Row `r`, head `h` is
    /// `sum_j softmax_j(score(q[r][h] . K[j][g])) * V[j][g]` with `g = h / (heads / store.heads)` (Ainslie et al.
    /// 2023), over the positions `j` of its sequence that the store's mask shows it: `[rows, heads * v_dim]`.
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
    /// Causal convolution of each column: `y[r][c] = bias[c] + sum_j w[c][j] * x[r - w.cols + 1 + j][c]` over the last
    /// `w.cols` rows of the sequence, 0 before its first. Its state is the last `w.cols - 1` rows.
    Conv { x: ValueId, weight: WeightId, bias: Option<WeightId> },
    /// Attention without softmax, over a state of fixed size (Katharopoulos et al. 2020): the scan of Mamba 2 (Dao and Gu
    /// 2024) and the gated delta rule (Yang et al. 2025). With `q`, `k`, `v`, `d` and `b` of row `r` and head `h`:
    /// `S = exp(d) S; S = S + k (b (v - S^T k))^T; y[r][h] = scale S^T q + skip[h] v`, without `S^T k` unless
    /// `is_delta`. `S`, `[k_dim, v_dim]` per head, is the state, and 0 before a sequence's first row.
    LinearAttention {
        /// `[rows, k_heads * k_dim]`.
        q: ValueId,
        /// `[rows, k_heads * k_dim]`.
        k: ValueId,
        /// `[rows, heads * v_dim]`.
        v: ValueId,
        /// The logarithm of the state's factor: `[rows, heads]`.
        decay: ValueId,
        /// Factor of what is added to the state: `[rows, heads]`.
        beta: ValueId,
        /// One number per head.
        skip: Option<WeightId>,
        heads: LinearHeads,
    },
    /// `glu(gate, up)`. A gate of one column applies to all columns of `up`.
    Gate { gate: ValueId, up: ValueId, glu: Glu },
    /// Routing weights of the experts, 0 for those that are not chosen: `[rows, experts]`. The experts with the largest
    /// weights are chosen, of equal ones those with the lower index; `bias`, one number per expert, is added for the
    /// choice only. NaN of either sign ranks above all; if the largest logit is NaN or infinite, the weights of all chosen
    /// experts are NaN.
    Route { logits: ValueId, bias: Option<WeightId>, router: Router },
    /// `y[r] = sum_e p[r][e] * (scale_e * down_e h_e(x[r]) + bias_e)` with the hidden values `h_e`, over the experts `e`
    /// whose `p[r][e]` is not 0: `[rows, down.rows]`. The routes `p` are `[rows, experts]`; each weight has one matrix per
    /// expert, the bias one row, the scale one number.
    Experts {
        x: ValueId,
        routes: ValueId,
        hidden: Hidden,
        down: WeightId,
        scale: Option<WeightId>,
        bias: Option<WeightId>,
        /// The routes multiply the experts' inputs in place of their outputs (Meta 2025, Llama 4).
        weighs_inputs: bool,
    },
    /// `map(x)`, element by element.
    Map { x: ValueId, map: Map },
    /// `a + b`.
    Add { a: ValueId, b: ValueId },
    /// `y[r][k] = x[r][k] + w[k]`.
    AddBias { x: ValueId, weight: WeightId },
    /// `y[r][k] = x[r][k] * w[k mod n]`. The weight is `n` numbers, in rows of any length.
    MulWeight { x: ValueId, weight: WeightId },
    /// `x[r] * (1 + beta * ln(1 + floor((position + offset) / interval)))` with the row's position in its sequence (Meta
    /// 2025, Llama 4).
    ScaleByPosition { x: ValueId, beta: f32, offset: f32, interval: f32 },
    /// Each head of `x`, `[rows, heads * w.cols]`, times the transpose of its own matrix: `[rows, heads * w.rows]`. The
    /// weight has one matrix per head.
    HeadLinear { x: ValueId, weight: WeightId },
    /// Columns `start..start + len` of each of `heads` heads of `x`: `[rows, heads * len]`.
    Slice { x: ValueId, heads: usize, start: usize, len: usize },
    /// Each head of `a` followed by the same head of `b`, or by `b` as a whole if `b` has one head's columns for all:
    /// `[rows, a.cols + heads * columns of b's head]`.
    Join { a: ValueId, b: ValueId, heads: usize, b_heads: usize },
    /// Gathers the output rows: `[outputs, cols]`.
    OutputRows { x: ValueId },
    /// For each output row, what represents its sequence among the rows of the step: `[outputs, cols]`.
    Pool { x: ValueId, pool: Pool },
    /// The sum of `x` over all ranks of a sharded graph ([`Graph::shard`](crate::Graph::shard)), the same on each. Nothing
    /// else reads `x`, so that it can be summed in place.
    AllReduce { x: ValueId },
}

/// The rows that a row of a result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The same row of the operands.
    Row,
    /// The row and its position.
    Position,
    /// All rows of its sequence in the step.
    Sequence,
    /// The row and those before it, in a KV store.
    Earlier,
    /// The row and the state that those before it have left.
    State,
}

/// How an operation uses a weight; backends choose the storage format by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Embedding table: row lookup.
    Table,
    /// Matrix multiplied with every row.
    Matrix,
    /// One matrix per expert or per head; each row is multiplied with those of its experts, each head with its own.
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
            Op::Embed { table, index: _ } => each(Weight(table, Role::Table)),
            Op::Linear { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Matrix));
            }
            Op::Norm { x, kind: _, width: _, weight, eps: _ } => {
                each(Value(x));
                weight.iter_mut().for_each(|weight| each(Weight(weight, Role::Vector)));
            }
            Op::AddBias { x, weight } | Op::MulWeight { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Vector));
            }
            Op::HeadLinear { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Experts));
            }
            Op::Rope { x, rope } => {
                each(Value(x));
                let long = rope.long_factors.as_mut().map(|long| &mut long.factors);
                rope.factors.iter_mut().chain(long).for_each(|factors| each(Weight(factors, Role::Vector)));
            }
            Op::Attention { q, kv, store, heads: _, score: Score { scale: _, cap: _, sinks, alibi: _ } } => {
                each(Value(q));
                kv.iter_mut().flatten().for_each(|x| each(Value(x)));
                sinks.iter_mut().for_each(|sinks| each(Weight(sinks, Role::Vector)));
                each(Store(store, kv.is_some()));
            }
            Op::Conv { x, weight, bias } => {
                each(Value(x));
                [weight].into_iter().chain(bias).for_each(|weight| each(Weight(weight, Role::Vector)));
            }
            Op::LinearAttention { q, k, v, decay, beta, skip, heads: _ } => {
                [q, k, v, decay, beta].into_iter().for_each(|x| each(Value(x)));
                skip.iter_mut().for_each(|skip| each(Weight(skip, Role::Vector)));
            }
            Op::Gate { gate, up, glu: _ } => {
                each(Value(gate));
                each(Value(up));
            }
            Op::Route { logits, bias, router: _ } => {
                each(Value(logits));
                bias.iter_mut().for_each(|bias| each(Weight(bias, Role::Vector)));
            }
            Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs: _ } => {
                each(Value(x));
                each(Value(routes));
                let (weights, scales, biases) = hidden.operands();
                weights.iter_mut().chain([down]).for_each(|weight| each(Weight(weight, Role::Experts)));
                scales.iter_mut().flatten().chain(scale).for_each(|scale| each(Weight(scale, Role::Vector)));
                biases.iter_mut().chain(bias).for_each(|bias| each(Weight(bias, Role::Vector)));
            }
            Op::Map { x, map: _ }
            | Op::ScaleByPosition { x, .. }
            | Op::Slice { x, .. }
            | Op::OutputRows { x }
            | Op::Pool { x, .. }
            | Op::AllReduce { x } => each(Value(x)),
            Op::Add { a, b } | Op::Join { a, b, .. } => {
                each(Value(a));
                each(Value(b));
            }
        }
    }

    /// The input values, in order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> + use<> {
        self.collect(|operand| if let Operand::Value(id) = operand { Some(*id) } else { None })
    }

    /// The weights and their roles, in order.
    pub fn weights(&self) -> impl Iterator<Item = (WeightId, Role)> + use<> {
        self.collect(|operand| if let Operand::Weight(id, role) = operand { Some((*id, role)) } else { None })
    }

    /// The KV store, and whether the operation writes it.
    pub fn store(&self) -> Option<(StoreId, bool)> {
        let is_store = |operand: Operand<'_>| {
            if let Operand::Store(id, is_written) = operand { Some((*id, is_written)) } else { None }
        };
        self.collect(is_store).next()
    }

    fn collect<T>(&self, pick: impl Fn(Operand<'_>) -> Option<T>) -> std::vec::IntoIter<T> {
        let (mut op, mut found) = (*self, Vec::new());
        op.operands(|operand| found.extend(pick(operand)));
        found.into_iter()
    }

    /// The printed name, such as `rms_norm`.
    pub fn name(&self) -> &'static str {
        self.facts().0
    }

    /// The other rows that a row of the result depends on.
    pub fn reads(&self) -> Reads {
        self.facts().1
    }

    fn facts(&self) -> (&'static str, Reads) {
        match self {
            Op::Input { .. } => ("input", Reads::Row),
            Op::Embed { index: Index::Token, .. } => ("embed", Reads::Row),
            Op::Embed { index: Index::Position, .. } => ("embed", Reads::Position),
            Op::Linear { .. } => ("linear", Reads::Row),
            Op::Norm { kind, .. } => (kind.name(), Reads::Row),
            Op::Rope { .. } => ("rope", Reads::Position),
            Op::Attention { .. } => ("attention", Reads::Earlier),
            Op::Conv { .. } => ("conv", Reads::State),
            Op::LinearAttention { .. } => ("linear_attention", Reads::State),
            Op::Gate { .. } => ("gate", Reads::Row),
            Op::Route { .. } => ("route", Reads::Row),
            Op::Experts { .. } => ("experts", Reads::Row),
            Op::Map { map, .. } => (map.name(), Reads::Row),
            Op::Add { .. } => ("add", Reads::Row),
            Op::AddBias { .. } => ("add_bias", Reads::Row),
            Op::MulWeight { .. } => ("mul_weight", Reads::Row),
            Op::ScaleByPosition { .. } => ("scale_by_position", Reads::Position),
            Op::HeadLinear { .. } => ("head_linear", Reads::Row),
            Op::Slice { .. } => ("slice", Reads::Row),
            Op::Join { .. } => ("join", Reads::Row),
            Op::OutputRows { .. } => ("output_rows", Reads::Row),
            Op::Pool { .. } => ("pool", Reads::Sequence),
            Op::AllReduce { .. } => ("all_reduce", Reads::Row),
        }
    }

    /// Whether a row's result depends on the rows before it.
    pub fn reads_earlier_rows(&self) -> bool {
        matches!(self.reads(), Reads::Earlier | Reads::State)
    }

    /// Whether it carries a state from row to row ([`Graph::state_len`](crate::Graph::state_len)).
    pub fn is_recurrent(&self) -> bool {
        self.reads() == Reads::State
    }

    /// Whether a row's result depends on its position or on other rows.
    pub fn is_positional(&self) -> bool {
        self.reads() != Reads::Row
    }

    /// The printed parameters, such as `eps 1e-5`; `None` if there are none besides the operands.
    pub fn parameters(&self) -> Option<String> {
        match self {
            Op::Input { cols } => Some(cols.to_string()),
            Op::Norm { eps, .. } => Some(format!("eps {eps:e}")),
            Op::Rope { rope, .. } => Some(rope.to_string()),
            Op::Attention { heads, score: Score { scale, cap, sinks: _, alibi }, .. } => {
                let cap = cap.map_or_else(String::new, |cap| format!(", cap {cap}"));
                let alibi = alibi.map_or_else(String::new, |bias| format!(", ALiBi {bias}"));
                Some(format!("{heads} heads, scale {scale}{cap}{alibi}"))
            }
            Op::LinearAttention { heads, .. } => Some(heads.to_string()),
            Op::Gate { glu, .. } => Some(glu.to_string()),
            Op::Experts { hidden, weighs_inputs: false, .. } => Some(hidden.to_string()),
            Op::Experts { hidden, weighs_inputs: true, .. } => Some(format!("{hidden}, weighs inputs")),
            Op::Route { router, .. } => Some(router.to_string()),
            Op::ScaleByPosition { beta, offset, interval, .. } => {
                Some(format!("beta {beta}, offset {offset}, interval {interval}"))
            }
            Op::Slice { heads, start, len, .. } => Some(format!("{start}..{} of {heads} heads", start + len)),
            Op::Join { heads, .. } => Some(format!("{heads} heads")),
            Op::Map { map, .. } => Some(map.parameter()),
            Op::Embed { index: Index::Position, .. } => Some("positions".to_owned()),
            Op::Pool { pool, .. } => Some(pool.name().to_owned()),
            Op::Embed { index: Index::Token, .. }
            | Op::Linear { .. }
            | Op::Conv { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::MulWeight { .. }
            | Op::HeadLinear { .. }
            | Op::OutputRows { .. }
            | Op::AllReduce { .. } => None,
        }
    }
}
