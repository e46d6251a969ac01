//! The operations, and what each says of itself.
//!
//! An operation is described once, here: its operands ([`Op::operands`]), its name and parameters for people
//! ([`Op::name`], [`Op::parameters`]), its shape (`shape.rs`) and its cost (`cost.rs`). Printing, cutting,
//! liveness, binding, benchmarks and traces follow from these, and none of them lists operations.

use std::fmt;

use crate::{StoreId, ValueId, WeightId};

/// Which two columns of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Neighbours: `(x[2i], x[2i + 1])`. Architecture `llama` in GGUF files.
    Interleaved,
    /// Halves: `(x[i], x[i + d/2])`. Architecture `qwen2`, and what the field calls NeoX.
    Halves,
}

/// Rotary position embedding (Su et al. 2021): pair `i` of each head rotates by
/// `position * scale * theta^(-2i/dims) / factors[i]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Columns of a head.
    pub head_dim: usize,
    /// Columns that rotate, even and at most `head_dim`; the rest pass unchanged.
    pub dims: usize,
    /// Which columns rotate together.
    pub pairing: Pairing,
    /// Base of the angles.
    pub theta: f32,
    /// What positions are multiplied by: `1 / factor` under linear scaling, else 1.
    pub scale: f32,
    /// Divisors of the angles, one a pair (`rope_freqs.weight`).
    pub factors: Option<WeightId>,
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))` (Hendrycks and Gimpel 2016).
    GeluTanh,
}

impl Activation {
    /// Its name, such as `silu`.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
        }
    }
}

/// The operations. Shapes: an input `x` is `[rows, cols]`, a weight `w` is `[w.rows, w.cols]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Rows that come from outside, with the step: what another part of a model that was cut has computed.
    Input {
        /// Columns.
        cols: usize,
    },
    /// The rows of `table` that the step's tokens name: `[rows, table.cols]`.
    Embed {
        /// One row a token.
        table: WeightId,
    },
    /// `y[r][o] = sum_k w[o][k] * x[r][k]`: `[rows, w.rows]`.
    Linear {
        /// `[rows, w.cols]`.
        x: ValueId,
        /// The matrix.
        weight: WeightId,
    },
    /// `y[r][k] = x[r][k] / sqrt(mean(x^2) + eps) * w[k]`, the mean over groups of `w.cols` columns: a row as a rule, or
    /// each head of it (Zhang and Sennrich 2019).
    RmsNorm {
        /// `[rows, groups * w.cols]`.
        x: ValueId,
        /// One row of a group's columns.
        weight: WeightId,
        /// Added under the root.
        eps: f32,
    },
    /// Rotates each head by its row's position.
    Rope {
        /// `[rows, heads * head_dim]`.
        x: ValueId,
        /// The angles.
        rope: Rope,
    },
    /// Writes `k` and `v`, if there are any, to `store` at each row's position, then attends: row `r`, head `h` is
    /// `sum_j softmax_j(scale * q[r][h] . K[j][g]) * V[j][g]` with `g = h / (heads / store.heads)` (Ainslie et al.
    /// 2023), over the positions `j` of its sequence up to its own, or over the last `window` of these:
    /// `[rows, heads * v_dim]`.
    Attention {
        /// `[rows, heads * k_dim]`.
        q: ValueId,
        /// Keys `[rows, store.heads * k_dim]` and values `[rows, store.heads * v_dim]`; none where the store is read as
        /// an attention before this one has written it.
        kv: Option<[ValueId; 2]>,
        /// Where keys and values are.
        store: StoreId,
        /// Query heads, a multiple of those of the store.
        heads: usize,
        /// What scores are multiplied by, `1 / sqrt(k_dim)` as a rule.
        scale: f32,
    },
    /// `act(gate) * up` (Shazeer 2020).
    Gate {
        /// `[rows, cols]`.
        gate: ValueId,
        /// `[rows, cols]`.
        up: ValueId,
        /// What the gate goes through.
        act: Activation,
    },
    /// How much each expert counts: the softmax over the `used` largest logits of a row, the lower index of equals
    /// first; 0 for the others (Jiang et al. 2024): `[rows, experts]`. NaN of either sign is larger than all; where
    /// the largest is NaN or infinite, all that are chosen are NaN.
    Route {
        /// `[rows, experts]`.
        logits: ValueId,
        /// Experts that a row uses, from 1 to all.
        used: usize,
    },
    /// `y[r] = sum_e p[r][e] * down_e (act(gate_e x[r]) * up_e x[r])` over the experts `e` whose `p[r][e]` is not 0:
    /// `[rows, down.rows]`.
    Experts {
        /// `[rows, gate.cols]`.
        x: ValueId,
        /// `p`, `[rows, experts]`.
        routes: ValueId,
        /// A matrix an expert.
        gate: WeightId,
        /// A matrix an expert.
        up: WeightId,
        /// A matrix an expert.
        down: WeightId,
        /// What gates go through.
        act: Activation,
    },
    /// `factor * x`.
    Scale {
        /// `[rows, cols]`.
        x: ValueId,
        /// What it is multiplied by.
        factor: f32,
    },
    /// `a + b`.
    Add {
        /// `[rows, cols]`.
        a: ValueId,
        /// `[rows, cols]`.
        b: ValueId,
    },
    /// `y[r][k] = x[r][k] + w[k]`.
    AddBias {
        /// `[rows, cols]`.
        x: ValueId,
        /// One row of `cols`.
        weight: WeightId,
    },
    /// The rows of a step that are its outputs: `[outputs, cols]`.
    OutputRows {
        /// `[rows, cols]`.
        x: ValueId,
    },
}

/// How an operation uses a weight, which decides how a backend stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Rows are looked up.
    Table,
    /// All of it is multiplied with each row.
    Matrix,
    /// Some of its matrices are multiplied with each row.
    Experts,
    /// One row of numbers, used as they are.
    Vector,
}

/// What an operation refers to.
#[derive(Debug)]
pub enum Operand<'a> {
    /// A value that it reads.
    Value(&'a mut ValueId),
    /// A weight that it reads.
    Weight(&'a mut WeightId, Role),
    /// A store that it reads, and writes unless the flag is false.
    Store(&'a mut StoreId, bool),
}

impl Op {
    /// Shows `each` all that it refers to, in the order in which operations are written.
    pub fn operands(&mut self, mut each: impl FnMut(Operand<'_>)) {
        use Operand::{Store, Value, Weight};
        match self {
            Op::Input { cols: _ } => {}
            Op::Embed { table } => each(Weight(table, Role::Table)),
            Op::Linear { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Matrix));
            }
            Op::RmsNorm { x, weight, eps: _ } | Op::AddBias { x, weight } => {
                each(Value(x));
                each(Weight(weight, Role::Vector));
            }
            Op::Rope { x, rope } => {
                each(Value(x));
                rope.factors.iter_mut().for_each(|factors| each(Weight(factors, Role::Vector)));
            }
            Op::Attention { q, kv, store, heads: _, scale: _ } => {
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
            Op::Scale { x, factor: _ } | Op::OutputRows { x } => each(Value(x)),
            Op::Add { a, b } => {
                each(Value(a));
                each(Value(b));
            }
        }
    }

    /// The values it reads, in order.
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

    /// The weights it reads, in order, and how it uses them.
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

    /// The store it reads, and whether it writes it.
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

    /// What it is called, such as `rms_norm`.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input { .. } => "input",
            Op::Embed { .. } => "embed",
            Op::Linear { .. } => "linear",
            Op::RmsNorm { .. } => "rms_norm",
            Op::Rope { .. } => "rope",
            Op::Attention { .. } => "attention",
            Op::Gate { .. } => "gate",
            Op::Route { .. } => "route",
            Op::Experts { .. } => "experts",
            Op::Scale { .. } => "scale",
            Op::Add { .. } => "add",
            Op::AddBias { .. } => "add_bias",
            Op::OutputRows { .. } => "output_rows",
        }
    }

    /// Its parameters for people, such as `eps 1e-5`; none where operands say it all.
    pub fn parameters(&self) -> Option<String> {
        match self {
            Op::Input { cols } => Some(cols.to_string()),
            Op::RmsNorm { eps, .. } => Some(format!("eps {eps:e}")),
            Op::Rope { rope, .. } => Some(rope.to_string()),
            Op::Attention { heads, scale, .. } => Some(format!("{heads} heads, scale {scale}")),
            Op::Gate { act, .. } | Op::Experts { act, .. } => Some(act.name().to_owned()),
            Op::Route { used, .. } => Some(format!("{used} used")),
            Op::Scale { factor, .. } => Some(factor.to_string()),
            Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => None,
        }
    }
}

impl fmt::Display for Rope {
    /// Such as `Halves, 64 of 64, theta 10000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rope { head_dim, dims, pairing, theta, scale, factors: _ } = self;
        write!(f, "{pairing:?}, {dims} of {head_dim}, theta {theta}")?;
        if *scale != 1.0 {
            write!(f, ", scale {scale}")?;
        }
        Ok(())
    }
}
