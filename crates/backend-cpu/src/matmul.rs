//! Matrix multiplications of one phase, shared by all threads.

use crate::kernels::Linear;
use crate::packed::Packed;
use crate::packed::activations::Activations;
use crate::packed::gemm::FEW_ROWS;
use crate::pool::{Cut, Pool, Tile};

/// Minimum result columns of a task: two strips.
const TILE_COLS: usize = 32;

/// Maximum result columns of a task with many rows: its slabs must stay in L2.
const MOST_COLS: usize = 64;

/// Tasks per thread, so that other threads can steal from a slow one.
pub(crate) const TASKS: usize = 4;

/// Minimum multiply-adds of a task: fewer are not worth a second thread.
const TILE_PRODUCTS: usize = 1 << 15;

/// `out = x * weight^T`.
pub(crate) struct Product<'a, 'm> {
    pub(crate) linear: &'a Linear,
    pub(crate) weight: &'a Packed,
    pub(crate) x: Activations<'a>,
    /// `[rows of x, rows of weight]`.
    pub(crate) out: &'m mut [f32],
}

pub(crate) fn multiply<'a, 'm>(pool: &mut Pool, products: Vec<Product<'a, 'm>>) {
    let all: usize = products.iter().map(|product| product.weight.rows()).sum();
    let share = all.div_ceil(pool.threads() * TASKS);
    let mut operands = Vec::with_capacity(products.len());
    let cut = |Product { linear, weight, x, out }: Product<'a, 'm>| {
        // Whole strips, and enough work for a second thread to pay off.
        let share = share.max(TILE_PRODUCTS / (x.rows * x.cols).max(1));
        let most = if x.rows > FEW_ROWS { MOST_COLS } else { usize::MAX };
        let tile = (x.rows.max(1), share.next_multiple_of(TILE_COLS).min(most));
        operands.push((linear, weight, x));
        Cut { matrix: out, cols: weight.rows(), tile }
    };
    let cuts: Vec<_> = products.into_iter().map(cut).collect();
    pool.tiles_of(cuts, |number, mut tile: Tile<'_, f32>| {
        let (linear, weight, x) = operands[number];
        (linear.multiply)(weight, x, &mut tile);
    });
}
