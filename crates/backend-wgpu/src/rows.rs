//! Launches of row-wise operations.

use gpu::{Cost, F32, Grid, RowWise};
use graph::{Activation, ValueId};

use crate::compile::Compiler;
use crate::kernels::{Kernel, Rows};

impl Compiler<'_> {
    /// A row-wise operation with result `y`; `rows.wgsl` documents the parameters.
    pub(crate) fn row_wise(&mut self, row: &RowWise, y: ValueId) {
        let &RowWise { operation, a: (a, a_at), b, act, is_limited, cols, scalar, head, step } = row;
        let y_cols = self.cols(y);
        let b_at = b.map_or([step as u32, 0], |((_, at), _)| at);
        let mut params = [a_at, b_at, self.at(y)].as_flattened().to_vec();
        params.extend([cols as u32, y_cols as u32, scalar.to_bits(), b.map_or(0, |(_, cols)| cols as u32)]);
        // A vector of three starts at a multiple of 16 bytes.
        params.extend([0, 0]);
        params.extend(head.map(|n| n as u32));
        params.push(0);
        let mut buffers = vec![self.slot(y), a];
        buffers.extend(b.map(|((b, _), _)| b));
        let kernel = Rows::new(operation, b.is_some(), act.map_or("", Activation::name), is_limited);
        let cost = Cost::row(kernel.operation, y_cols * F32 * if b.is_some() { 3 } else { 2 });
        let grid = Grid::rows(y_cols.div_ceil(cols));
        let launch = self.launch(Kernel::Rows(kernel), params, buffers, grid, cost);
        self.dispatch_always(y, launch);
    }
}
