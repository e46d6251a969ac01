//! The operations and the values they make.

use std::panic::Location;

/// A value of a [`crate::Graph`], by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

/// A weight of a [`crate::Graph`], by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub(crate) u32);

impl ValueId {
    /// The value at this place in [`crate::Graph::values`].
    pub fn from_index(index: usize) -> ValueId {
        ValueId(index as u32)
    }

    /// The place in [`crate::Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl WeightId {
    /// The place in [`crate::Graph::weights`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A matrix the file holds, by its name there: `rows` rows of `cols` contiguous values.
///
/// The file lists the same shape fastest dimension first: `[cols, rows]`. A vector has one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The tensor's name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Rows: the outputs of a linear layer, the tokens of an embedding.
    pub rows: usize,
    /// Columns: the inputs of a linear layer, the width of an embedding.
    pub cols: usize,
}

/// How many rows a value has in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One for each token of the step.
    Step,
    /// One for each token whose logits are wanted.
    Wanted,
}

/// A named matrix and the operation that makes it.
#[derive(Clone, Debug)]
pub struct Value {
    /// llama.cpp's name for it, such as `Qcur-0`; unique in the graph.
    pub name: String,
    /// What makes it.
    pub op: Op,
    /// Its rows.
    pub rows: Rows,
    /// Its columns.
    pub cols: usize,
    /// The line of the model that made it, for errors.
    pub location: &'static Location<'static>,
}

/// Which two columns of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Neighbours: `(x[2i], x[2i + 1])`. Architecture `llama` in GGUF files.
    Interleaved,
    /// Halves: `(x[i], x[i + d/2])`. Architecture `qwen2`, and what the field calls NeoX.
    Halves,
}

/// Rotary position embedding (Su et al. 2021): pair `i` of each head turns by
/// `position * scale * theta^(-2i/dims) / factors[i]`.
#[derive(Clone, Debug, PartialEq)]
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

/// The operations. Shapes: an input `x` is `[rows, cols]`, a weight `w` is `[w.rows, w.cols]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Rows that come from outside, with the step: what another part of a model that was cut has computed.
    Input,
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
    /// `y[r][k] = x[r][k] / sqrt(mean_k(x[r][k]^2) + eps) * w[k]` (Zhang and Sennrich 2019).
    RmsNorm {
        /// `[rows, cols]`.
        x: ValueId,
        /// One row of `cols`.
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
    /// Writes `k` and `v` to the cache of `layer` at each row's position, then attends causally:
    /// row `r`, head `h` is `sum_j softmax_j(scale * q[r][h] . K[j][g]) * V[j][g]` over the
    /// positions `j` of its sequence up to its own, with `g = h / (heads / kv_heads)`
    /// (Ainslie et al. 2023): `[rows, heads * v_dim]`.
    Attention {
        /// `[rows, heads * k_dim]`.
        q: ValueId,
        /// `[rows, kv_heads * k_dim]`.
        k: ValueId,
        /// `[rows, kv_heads * v_dim]`.
        v: ValueId,
        /// Which K/V store; counts from 0.
        layer: usize,
        /// Query heads, a multiple of `kv_heads`.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// What scores are multiplied by, `1 / sqrt(k_dim)` as a rule.
        scale: f32,
    },
    /// `silu(gate) * up` with `silu(g) = g / (1 + exp(-g))` (Shazeer 2020).
    SwiGlu {
        /// `[rows, cols]`.
        gate: ValueId,
        /// `[rows, cols]`.
        up: ValueId,
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
    /// The rows whose logits are wanted: `[wanted, cols]`.
    TakeRows {
        /// `[rows, cols]`.
        x: ValueId,
    },
}

impl Op {
    /// The weight it reads, if it reads one.
    pub fn weight(&self) -> Option<WeightId> {
        match self {
            Op::Embed { table: weight }
            | Op::Linear { weight, .. }
            | Op::RmsNorm { weight, .. }
            | Op::AddBias { weight, .. } => Some(*weight),
            Op::Rope { rope, .. } => rope.factors,
            Op::Input | Op::Attention { .. } | Op::SwiGlu { .. } | Op::Add { .. } | Op::TakeRows { .. } => {
                None
            }
        }
    }

    /// The values it reads.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> {
        let inputs = match *self {
            Op::Input | Op::Embed { .. } => [None, None, None],
            Op::Linear { x, .. }
            | Op::RmsNorm { x, .. }
            | Op::Rope { x, .. }
            | Op::AddBias { x, .. }
            | Op::TakeRows { x } => [Some(x), None, None],
            Op::Attention { q, k, v, .. } => [Some(q), Some(k), Some(v)],
            Op::SwiGlu { gate: a, up: b } | Op::Add { a, b } => [Some(a), Some(b), None],
        };
        inputs.into_iter().flatten()
    }
}
