//! Launches of row-wise operations.

use gpu::{Cost, F32, Grid, Operand, Operation, RowWise};
use graph::Glu;

use crate::arguments::RowsArgs;
use crate::compile::Compiler;
use crate::launch::LaunchPlan;

/// Columns up to which a warp computes a norm, and the groups that a block then has.
const MAX_WARP_COLS: usize = 1024;
const WARPS: usize = 8;

const NORM_THREADS: u32 = 512;

impl Compiler<'_> {
    /// A gated linear unit of `cols` columns, written to `y`.
    pub(crate) fn gate(&self, gate: Operand, up: Operand, cols: usize, glu: Glu, y: Operand) -> LaunchPlan {
        self.row_wise("gate", &RowWise::gate(Operation::Gate, gate, (up, cols), glu), y, cols)
    }

    pub(crate) fn row_wise(
        &self,
        what: &str,
        row: &RowWise,
        (y, y_at): Operand,
        y_cols: usize,
    ) -> LaunchPlan {
        let &RowWise { operation, a: (a, a_at), b, act, is_limited, cols, scalar, head, step } = row;
        let b_at = b.map_or([step as u32, 0], |((_, at), _)| at);
        let args = RowsArgs {
            a: a.into(),
            b: b.map(|((b, _), _)| b).into(),
            y: y.into(),
            a_at,
            b_at,
            y_at,
            operation: operation as u32,
            act: act.unwrap_or(graph::Activation::Identity) as u32,
            limited: u32::from(is_limited),
            cols: cols as u32,
            y_cols: y_cols as u32,
            scalar,
            b_cols: b.map_or(0, |(_, cols)| cols as u32),
            head: head.map(|n| n as u32),
        };
        let cost = Cost::row(what, y_cols * F32 * if b.is_some() { 3 } else { 2 });
        let groups = y_cols.div_ceil(cols);
        if !operation.is_norm() {
            self.launch("rows/rows_map", args, Grid::rows(groups), cost)
        } else if cols <= MAX_WARP_COLS {
            self.launch("rows/norm_warp", args, Grid::rows(groups.div_ceil(WARPS)), cost)
        } else {
            let launch = self.launch("rows/norm_block", args, Grid::rows(groups), cost);
            LaunchPlan { threads: NORM_THREADS, ..launch }
        }
    }
}
