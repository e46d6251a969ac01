//! Products of activations and weights, several at a time, shared by all threads.

use crate::kernels::Linear;
use crate::packed::Packed;
use crate::packed::activations::Activations;
use crate::packed::product::DIRECT;
use crate::pool::{Cut, Pool, Tile};

/// Outputs of a product that one task computes, at least: two strips.
const TILE_COLS: usize = 32;

/// Outputs that one task computes for many rows, at most: what is unpacked of them fills a part of the second-level
/// cache.
const MOST_COLS: usize = 64;

/// Tasks of a thread, so that one that was late can be helped.
pub(crate) const TASKS: usize = 4;

/// Multiply-adds of one task, at least: fewer are not worth a second thread.
const TILE_PRODUCTS: usize = 1 << 15;

/// Activations times the transpose of a matrix.
pub(crate) struct Product<'a, 'm> {
    pub(crate) linear: &'a Linear,
    pub(crate) weight: &'a Packed,
    pub(crate) x: Activations<'a>,
    /// `[rows of x, rows of weight]`.
    pub(crate) out: &'m mut [f32],
}

/// Computes all `products`.
pub(crate) fn multiply<'a, 'm>(pool: &mut Pool, products: Vec<Product<'a, 'm>>) {
    let all: usize = products.iter().map(|product| product.weight.rows()).sum();
    let share = all.div_ceil(pool.threads() * TASKS);
    let mut operands = Vec::with_capacity(products.len());
    let cut = |Product { linear, weight, x, out }: Product<'a, 'm>| {
        // Whole strips, and enough of them for a task to be worth a second thread.
        let share = share.max(TILE_PRODUCTS / (x.rows * x.cols).max(1));
        let most = if x.rows > DIRECT { MOST_COLS } else { usize::MAX };
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
