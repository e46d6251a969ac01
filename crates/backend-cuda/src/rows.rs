//! Passes of row-wise operations.

use backend::{Error, Weight};
use graph::{Activation, Glu, Map, NormKind, Op, Pool, ValueId, WeightId};
use passes::{Cost, Variant};

use crate::compile::{Compiler, Operand};
use crate::launch::{F32, Grid, LaunchPlan};
use crate::matmul::act_number;

/// Columns per block of element-wise operations.
const COLS: usize = 1024;

/// Columns up to which a warp computes a norm, and the groups that a block then has.
const MAX_WARP_COLS: usize = 1024;
const WARPS: usize = 8;

/// Threads of a block that computes a norm.
const NORM_THREADS: u32 = 512;

/// The operations of `kernels/rows.cu`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    RmsNorm,
    LayerNorm,
    L2Norm,
    Add,
    Mul,
    Gate,
    GateOfRow,
    Act,
    Scale,
    ScaleRows,
    Softcap,
    Slice,
    Join,
    OutputRows,
    FirstOfSequence,
    MeanOfSequence,
}

/// A launch of `kernels/rows.cu`, which documents the arguments.
struct RowWise {
    operation: Operation,
    a: Operand,
    /// The second operand, and its columns.
    b: Option<(Operand, usize)>,
    act: Activation,
    is_limited: bool,
    cols: usize,
    scalar: f32,
    head: [usize; 3],
    /// Offset of what it reads from the step inputs.
    step: usize,
}

impl RowWise {
    fn of(operation: Operation, a: Operand) -> RowWise {
        let (act, is_limited) = (Activation::Identity, false);
        RowWise { operation, a, b: None, act, is_limited, cols: COLS, scalar: 0.0, head: [0; 3], step: 0 }
    }

    fn gate(operation: Operation, gate: Operand, up: (Operand, usize), glu: Glu) -> RowWise {
        let Glu { act, limit } = glu;
        let (is_limited, scalar) = (limit.is_some(), limit.unwrap_or_default());
        RowWise { act, is_limited, scalar, ..RowWise::of(operation, gate) }.with(up)
    }

    fn with(self, b: (Operand, usize)) -> RowWise {
        RowWise { b: Some(b), ..self }
    }
}

impl Compiler<'_> {
    /// A row-wise operation with result `y`.
    pub(crate) fn row_wise(&mut self, op: &Op, y: ValueId) -> Result<(), Error> {
        let row = match *op {
            Op::Norm { x, kind, width, weight, eps } => {
                let operation = match kind {
                    NormKind::Rms => Operation::RmsNorm,
                    NormKind::Layer => Operation::LayerNorm,
                    NormKind::L2 => Operation::L2Norm,
                };
                let b = weight.map(|weight| self.row_of(weight));
                RowWise { b, cols: width, scalar: eps, ..RowWise::of(operation, self.operand(x)) }
            }
            Op::Add { a, b } => RowWise::of(Operation::Add, self.operand(a)).with(self.second(b)),
            Op::AddBias { x, weight } => {
                RowWise::of(Operation::Add, self.operand(x)).with(self.row_of(weight))
            }
            Op::MulWeight { x, weight } => {
                RowWise::of(Operation::Mul, self.operand(x)).with(self.row_of(weight))
            }
            Op::Gate { gate, up, glu } => {
                let is_whole = self.cols(gate) == self.cols(up);
                let operation = if is_whole { Operation::Gate } else { Operation::GateOfRow };
                RowWise::gate(operation, self.operand(gate), self.second(up), glu)
            }
            Op::Map { x, map } => {
                let x = self.operand(x);
                match map {
                    Map::Scale(factor) => RowWise { scalar: factor, ..RowWise::of(Operation::Scale, x) },
                    Map::Softcap(cap) => RowWise { scalar: cap, ..RowWise::of(Operation::Softcap, x) },
                    Map::Act(act) => RowWise { act, ..RowWise::of(Operation::Act, x) },
                }
            }
            Op::ScaleByPosition { x, .. } => {
                let step = self.inputs.factors(op);
                RowWise { step, ..RowWise::of(Operation::ScaleRows, self.operand(x)) }
            }
            Op::Slice { x, heads, start, len } => {
                let head = [self.cols(x) / heads, len, start];
                RowWise { head, ..RowWise::of(Operation::Slice, self.operand(x)) }
            }
            Op::Join { a, b, heads, b_heads } => {
                let head = [self.cols(a) / heads, self.cols(b) / b_heads, 0];
                RowWise { head, ..RowWise::of(Operation::Join, self.operand(a)) }.with(self.second(b))
            }
            Op::OutputRows { x } => {
                let step = self.inputs.outputs;
                RowWise { step, ..RowWise::of(Operation::OutputRows, self.operand(x)) }
            }
            Op::Pool { x, pool } => {
                let operation = match pool {
                    Pool::Mean => Operation::MeanOfSequence,
                    Pool::First => Operation::FirstOfSequence,
                };
                RowWise { step: self.inputs.pools, ..RowWise::of(operation, self.operand(x)) }
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::HeadLinear { .. }
            | Op::Rope { .. }
            | Op::Attention { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::AllReduce { .. } => unreachable!("not row-wise"),
        };
        let launch = self.launch_rows(op.name(), row, self.operand(y), self.cols(y));
        self.dispatch(y, vec![Variant::always(vec![launch])]);
        Ok(())
    }

    /// A gated linear unit of `cols` columns, written to `y`.
    pub(crate) fn gate(&self, gate: Operand, up: Operand, cols: usize, glu: Glu, y: Operand) -> LaunchPlan {
        self.launch_rows("gate", RowWise::gate(Operation::Gate, gate, (up, cols), glu), y, cols)
    }

    pub(crate) fn operand(&self, id: ValueId) -> Operand {
        (self.slot(id), self.at(id))
    }

    /// A value as the second operand.
    fn second(&self, id: ValueId) -> (Operand, usize) {
        (self.operand(id), self.cols(id))
    }

    /// A vector as an operand that is the same for all rows.
    fn row_of(&mut self, weight: WeightId) -> (Operand, usize) {
        let Weight { rows, cols, .. } = *self.bound.weight(weight);
        ((self.vector(weight), [0, 0]), rows * cols)
    }

    fn launch_rows(&self, what: &str, row: RowWise, (y, y_at): Operand, y_cols: usize) -> LaunchPlan {
        let RowWise { operation, a: (a, a_at), b, act, is_limited, cols, scalar, head, step } = row;
        let b_at = b.map_or([step as u32, 0], |((_, at), _)| at);
        let mut words = [a_at, b_at, y_at].as_flattened().to_vec();
        words.extend([operation as u32, act_number(act), u32::from(is_limited)]);
        words.extend([cols as u32, y_cols as u32, scalar.to_bits(), b.map_or(0, |(_, cols)| cols as u32)]);
        words.extend(head.map(|n| n as u32));
        let buffers = vec![Some(a), b.map(|((b, _), _)| b), Some(y)];
        let cost = Cost::row(what, y_cols * F32 * if b.is_some() { 3 } else { 2 });
        let groups = y_cols.div_ceil(cols);
        match operation {
            Operation::RmsNorm | Operation::LayerNorm | Operation::L2Norm if cols <= MAX_WARP_COLS => {
                self.launch("rows/norm_warp", buffers, words, Grid::rows(groups.div_ceil(WARPS)), cost)
            }
            Operation::RmsNorm | Operation::LayerNorm | Operation::L2Norm => {
                let launch = self.launch("rows/norm_block", buffers, words, Grid::rows(groups), cost);
                LaunchPlan { threads: NORM_THREADS, ..launch }
            }
            _ => self.launch("rows/rows_map", buffers, words, Grid::rows(groups), cost),
        }
    }
}
