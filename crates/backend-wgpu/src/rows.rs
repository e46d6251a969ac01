//! Passes of row-wise operations.

use backend::{Error, Weight};
use graph::{Glu, Map, NormKind, Op, Pool, ValueId};
use passes::{Cost, Variant};

use crate::compile::{Compiler, Operand};
use crate::kernels::{Kernel, Rows};
use crate::launch::{F32, Grid};

/// Columns per workgroup of element-wise operations.
const COLS: usize = 1024;

/// A launch of `rows.wgsl`, which documents the parameters.
struct RowWise {
    kernel: Rows,
    a: ValueId,
    /// The second operand, and its columns.
    b: Option<(Operand, usize)>,
    cols: usize,
    scalar: f32,
    head: [usize; 3],
    /// Offset of what it reads from the step inputs.
    step: usize,
}

impl RowWise {
    /// An element-wise operation of `a`.
    fn of(kernel: Rows, a: ValueId) -> RowWise {
        RowWise { kernel, a, b: None, cols: COLS, scalar: 0.0, head: [0; 3], step: 0 }
    }

    /// An operation without an activation.
    fn plain(operation: &'static str, a: ValueId) -> RowWise {
        RowWise::of(Rows::new(operation, "", false), a)
    }

    fn with(self, b: (Operand, usize)) -> RowWise {
        RowWise { b: Some(b), ..self }
    }
}

impl Compiler<'_> {
    /// A row-wise operation with result `y`.
    pub(crate) fn row_wise(&mut self, op: &Op, y: ValueId) -> Result<(), Error> {
        let value = |compiler: &Self, id| ((compiler.slot(id), compiler.at(id)), compiler.cols(id));
        let row = match *op {
            Op::Norm { x, kind, width, weight, eps } => {
                let operation = match (kind, weight) {
                    (NormKind::Rms, None) => "rms_norm",
                    (NormKind::Layer, None) => "layer_norm",
                    (NormKind::Rms, Some(_)) => "weighted_rms_norm",
                    (NormKind::Layer, Some(_)) => "weighted_layer_norm",
                    (NormKind::L2, None) => "l2_norm",
                    (NormKind::L2, Some(_)) => "weighted_l2_norm",
                };
                let b = weight.map(|weight| self.row_of(weight)).transpose()?;
                RowWise { b, cols: width, scalar: eps, ..RowWise::plain(operation, x) }
            }
            Op::Add { a, b } => RowWise::plain("add", a).with(value(self, b)),
            Op::AddBias { x, weight } => RowWise::plain("add", x).with(self.row_of(weight)?),
            Op::MulWeight { x, weight } => RowWise::plain("mul", x).with(self.row_of(weight)?),
            Op::Gate { gate, up, glu: Glu { act, limit } } => {
                let operation = if self.cols(gate) == self.cols(up) { "gate" } else { "gate_of_row" };
                let kernel = Rows::new(operation, act.name(), limit.is_some());
                RowWise { scalar: limit.unwrap_or_default(), ..RowWise::of(kernel, gate) }
                    .with(value(self, up))
            }
            Op::Map { x, map } => match map {
                Map::Scale(factor) => RowWise { scalar: factor, ..RowWise::plain("scale", x) },
                Map::Softcap(cap) => RowWise { scalar: cap, ..RowWise::plain("softcap", x) },
                Map::Act(act) => RowWise::of(Rows::new("act", act.name(), false), x),
            },
            Op::ScaleByPosition { x, .. } => {
                RowWise { step: self.inputs.factors(op), ..RowWise::plain("scale_rows", x) }
            }
            Op::Slice { x, heads, start, len } => {
                RowWise { head: [self.cols(x) / heads, len, start], ..RowWise::plain("slice", x) }
            }
            Op::Join { a, b, heads, b_heads } => {
                let head = [self.cols(a) / heads, self.cols(b) / b_heads, 0];
                RowWise { head, ..RowWise::plain("join", a) }.with(value(self, b))
            }
            Op::OutputRows { x } => RowWise { step: self.inputs.outputs, ..RowWise::plain("output_rows", x) },
            Op::Pool { x, pool } => {
                let operation = match pool {
                    Pool::Mean => "mean_of_sequence",
                    Pool::First => "first_of_sequence",
                };
                RowWise { step: self.inputs.pools, ..RowWise::plain(operation, x) }
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
        self.launch_rows(row, y);
        Ok(())
    }

    /// A vector as an operand that is the same for all rows.
    fn row_of(&mut self, weight: graph::WeightId) -> Result<(Operand, usize), Error> {
        let Weight { rows, cols, .. } = *self.bound.weight(weight);
        Ok(((self.vector(weight)?, [0, 0]), rows * cols))
    }

    fn launch_rows(&mut self, row: RowWise, y: ValueId) {
        let RowWise { kernel, a, b, cols, scalar, head, step } = row;
        let y_cols = self.cols(y);
        let b_at = b.map_or([step as u32, 0], |((_, at), _)| at);
        let mut params = [self.at(a), b_at, self.at(y)].as_flattened().to_vec();
        params.extend([cols as u32, y_cols as u32, scalar.to_bits(), b.map_or(0, |(_, cols)| cols as u32)]);
        // A vector of three starts at a multiple of 16 bytes.
        params.extend([0, 0]);
        params.extend(head.map(|n| n as u32));
        params.push(0);
        let mut buffers = vec![self.slot(y), self.slot(a)];
        buffers.extend(b.map(|((b, _), _)| b));
        let cost = Cost::row(kernel.operation(), y_cols * F32 * if b.is_some() { 3 } else { 2 });
        let grid = Grid::rows(y_cols.div_ceil(cols));
        let launch = self.launch(Kernel::Rows(kernel), params, buffers, grid, cost);
        self.dispatch(y, vec![Variant::always(vec![launch])]);
    }
}
