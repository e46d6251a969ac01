//! Passes of linear layers with a matrix per head.

use gpu::{BufferId, CHUNK, Cost, Each, F32, Grid, When, kernel_name};
use graph::{ValueId, WeightId};

use crate::compile::Compiler;
use crate::experts::matrices_of;
use crate::kernels::{self, Kernel, Matrices};
use crate::policy::{self, Algorithm, MatmulShape};

impl Compiler<'_> {
    /// Multiplies each head of `x` with its own matrix of `weight`.
    pub(crate) fn head_linear(&mut self, x: ValueId, weight: WeightId, y: ValueId) {
        let matrix = self.model.matrix(weight);
        let (rows, cols) = (matrix.rows, matrix.cols);
        let ([x_at, x_stride], [y_at, y_stride]) = (self.at(x), self.at(y));
        let scalars = !cols.is_multiple_of(4);
        // `x` is counted in vectors or scalars.
        let unit = if scalars { 1 } else { 4 };
        for (index, shard) in matrix.shards.iter().enumerate() {
            let [first, heads] = matrices_of(shard, rows);
            let params = [
                shard.layout.params(),
                [0; 4],
                [heads as u32, 0, 0, 0],
                [rows as u32, 0, 0, 0],
                [y_at + (first * rows) as u32, 0, 0, y_stride],
                [(x_at + (first * cols) as u32) / unit, x_stride / unit, cols as u32, self.row_count_word(y)],
                [0; 4],
            ];
            let (parts, ragged) = (vec![kernel_name(shard.layout.format)], !cols.is_multiple_of(CHUNK));
            let matmul = kernels::Matmul { parts, ragged, ..Default::default() };
            let matrices = Matrices { heads: true, scalars, ..Matrices::default() };
            let (max_rows, outputs) = (self.max_rows(y), heads * rows);
            let shapes = MatmulShape { rows: max_rows, cols, outputs, gates: 1, fits_f16: false };
            let mut variants = Vec::new();
            for (algorithm, max_rows) in policy::matmul_variants(shapes, self.device.caps) {
                let matmul = matmul.clone();
                let kernel = match algorithm {
                    Algorithm::Gemv(tiles) => Kernel::Gemv(kernels::Gemv { matmul, tiles, matrices }),
                    Algorithm::Gemm | Algorithm::GemmCoop { .. } => {
                        Kernel::Gemm(kernels::Gemm { matmul, matrices })
                    }
                };
                let (tile_outputs, tile) = algorithm.tile(1);
                let grid = Grid { groups: heads * rows.div_ceil(tile_outputs), each: Each::Rows(tile) };
                let cost = Cost {
                    what: format!("{} {heads} heads of {cols} to {rows}", kernel.file()),
                    bytes: shard.layout.bytes() as u64,
                    row_bytes: (heads * (cols + rows) * F32) as u64,
                    row_multiply_adds: (heads * cols * rows) as u64,
                    ..Cost::default()
                };
                let buffers = vec![self.slot(x), self.slot(y), BufferId::Weight(weight, index)];
                let params = params.as_flattened().to_vec();
                let launches = vec![self.launch(kernel, params, buffers, grid, cost)];
                variants.push(When { max_rows: Some(max_rows), ..When::default() }.launches(launches));
            }
            self.dispatch(y, variants);
        }
    }
}
