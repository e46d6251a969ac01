//! Row-wise operations: their operands and numbers, for kernels that have one variant per operation.

use graph::{Activation, Glu, Map, NormKind, Op, Pool, ValueId};

use crate::compile::{Compiler, Operand};

/// Columns of a row that a block of an element-wise kernel computes.
const BLOCK_COLS: usize = 1024;

/// The operations, in the order of `backend-cuda/kernels/rows.cu`, which documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kernels document them")]
pub enum Operation {
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

impl Operation {
    /// Whether it is a norm of groups of columns.
    pub fn is_norm(self) -> bool {
        matches!(self, Operation::RmsNorm | Operation::LayerNorm | Operation::L2Norm)
    }
}

/// A row-wise operation.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RowWise {
    pub operation: Operation,
    pub a: Operand,
    /// With its columns.
    pub b: Option<(Operand, usize)>,
    /// The activation of a gate or a map.
    pub act: Option<Activation>,
    /// Whether a gate is limited, by `scalar`.
    pub is_limited: bool,
    /// Columns of a block, or of a norm's group.
    pub cols: usize,
    /// Epsilon, factor, cap or limit.
    pub scalar: f32,
    /// Of a slice: columns of a head of `a` and of the result, and the first column. Of a join: columns of a head of `a` and of `b`.
    pub head: [usize; 3],
    /// Offset of what the operation reads from the step inputs.
    pub step: usize,
}

impl RowWise {
    fn unary(operation: Operation, a: Operand) -> RowWise {
        let (act, is_limited, cols) = (None, false, BLOCK_COLS);
        RowWise { operation, a, b: None, act, is_limited, cols, scalar: 0.0, head: [0; 3], step: 0 }
    }

    fn with(self, b: (Operand, usize)) -> RowWise {
        RowWise { b: Some(b), ..self }
    }

    /// A gated linear unit of `up`, which has so many columns.
    pub fn gate(operation: Operation, gate: Operand, up: (Operand, usize), glu: Glu) -> RowWise {
        let Glu { act, limit } = glu;
        let (is_limited, scalar) = (limit.is_some(), limit.unwrap_or_default());
        RowWise { act: Some(act), is_limited, scalar, ..RowWise::unary(operation, gate) }.with(up)
    }

    /// The row-wise operation `op`; panics on others.
    pub fn new<L>(compiler: &mut Compiler<'_, L>, op: &Op) -> RowWise {
        let unary = |compiler: &Compiler<'_, L>, operation, x| RowWise::unary(operation, compiler.operand(x));
        let second = |compiler: &Compiler<'_, L>, id: ValueId| (compiler.operand(id), compiler.cols(id));
        match *op {
            Op::Norm { x, kind, width, weight, eps } => {
                let operation = match kind {
                    NormKind::Rms => Operation::RmsNorm,
                    NormKind::Layer => Operation::LayerNorm,
                    NormKind::L2 => Operation::L2Norm,
                };
                let b = weight.map(|weight| compiler.vector_row(weight));
                RowWise { b, cols: width, scalar: eps, ..unary(compiler, operation, x) }
            }
            Op::Add { a, b } => unary(compiler, Operation::Add, a).with(second(compiler, b)),
            Op::AddBias { x, weight } => unary(compiler, Operation::Add, x).with(compiler.vector_row(weight)),
            Op::MulWeight { x, weight } => {
                unary(compiler, Operation::Mul, x).with(compiler.vector_row(weight))
            }
            Op::Gate { gate, up, glu } => {
                let is_whole = compiler.cols(gate) == compiler.cols(up);
                let operation = if is_whole { Operation::Gate } else { Operation::GateOfRow };
                RowWise::gate(operation, compiler.operand(gate), second(compiler, up), glu)
            }
            Op::Map { x, map } => match map {
                Map::Scale(scalar) => RowWise { scalar, ..unary(compiler, Operation::Scale, x) },
                Map::Softcap(scalar) => RowWise { scalar, ..unary(compiler, Operation::Softcap, x) },
                Map::Act(act) => RowWise { act: Some(act), ..unary(compiler, Operation::Act, x) },
            },
            Op::ScaleByPosition { x, .. } => {
                RowWise { step: compiler.inputs.factors(op), ..unary(compiler, Operation::ScaleRows, x) }
            }
            Op::Slice { x, heads, start, len } => {
                let head = [compiler.cols(x) / heads, len, start];
                RowWise { head, ..unary(compiler, Operation::Slice, x) }
            }
            Op::Join { a, b, heads, b_heads } => {
                let head = [compiler.cols(a) / heads, compiler.cols(b) / b_heads, 0];
                RowWise { head, ..unary(compiler, Operation::Join, a) }.with(second(compiler, b))
            }
            Op::OutputRows { x } => {
                RowWise { step: compiler.inputs.outputs, ..unary(compiler, Operation::OutputRows, x) }
            }
            Op::Pool { x, pool } => {
                let operation = match pool {
                    Pool::Mean => Operation::MeanOfSequence,
                    Pool::First => Operation::FirstOfSequence,
                };
                RowWise { step: compiler.inputs.pools, ..unary(compiler, operation, x) }
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
        }
    }
}
