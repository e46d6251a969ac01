//! Kernels in plain Rust: every processor runs them, and the vector kernels are tested against them.

use half::f16;
use quant::{Block, F16Le, Groups};

use super::activations::Q8;
use super::{Float, Input};
use crate::pool::Tile;

/// `tile[r][o] = sum_k w[o][k] * x[r][k]` with 8-bit activations.
pub(crate) fn linear_quantized<B: Block<N> + Groups<G>, const N: usize, const G: usize>(
    weights: &[u8],
    x: Input<'_, Q8>,
    tile: &mut Tile<'_, f32>,
) {
    let row_bytes = x.stride / G * size_of::<B>();
    let (cols, rows) = (tile.cols(), tile.rows());
    for o in cols.clone() {
        let blocks = B::slice(&weights[o * row_bytes..][..row_bytes]);
        for r in rows.clone() {
            tile.row(r)[o - cols.start] = dot_quantized(blocks, x.row(r));
        }
    }
}

fn dot_quantized<B: Groups<G>, const G: usize>(blocks: &[B], x: &[Q8]) -> f32 {
    let (mut sum, mut offset) = ([0.0f32; 2], [0.0f32; 2]);
    for (block, x) in blocks.iter().zip(x.as_chunks::<G>().0) {
        let (scales, offsets) = block.factors(F16Le::to_f32);
        let quants = block.quants();
        for (g, x) in x.iter().enumerate() {
            let halves = dot_halves(&quants[g], &x.q);
            for h in 0..2 {
                sum[h] += halves[h] as f32 * (scales[g][h] * x.scale);
                if B::OFFSETS {
                    offset[h] += offsets[g][h] * x.sums[h];
                }
            }
        }
    }
    sum[0] + sum[1] + (offset[0] + offset[1])
}

/// The integer dot product of each half of a group.
pub(crate) fn dot_halves(w: &[i8; 32], x: &[i8; 32]) -> [i32; 2] {
    let half = |from: usize| (from..from + 16).map(|i| i32::from(w[i]) * i32::from(x[i])).sum();
    [half(0), half(16)]
}

/// `tile[r][o] = sum_k w[o][k] * x[r][k]` with weights that are floating-point numbers.
pub(crate) fn linear_float<F: Float>(weights: &[u8], x: Input<'_, f32>, tile: &mut Tile<'_, f32>) {
    let (cols, rows) = (tile.cols(), tile.rows());
    let weights = F::slice(weights);
    for o in cols.clone() {
        let w = &weights[o * x.stride..][..x.stride];
        for r in rows.clone() {
            tile.row(r)[o - cols.start] = dot(w, x.row(r), F::wide);
        }
    }
}

/// `scores[j] = scale * q . keys[j]`.
pub(crate) fn scores_f16(q: &[f32], keys: &[f16], scale: f32, scores: &mut [f32]) {
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(q.len())) {
        *score = scale * dot(key, q, f16::to_f32);
    }
}

/// `scores[j] = scale * q . keys[j]`.
pub(crate) fn scores_f32(q: &[f32], keys: &[f32], scale: f32, scores: &mut [f32]) {
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(q.len())) {
        *score = scale * dot(key, q, |k| k);
    }
}

/// `mean += sum_j weights[j] * values[j]`.
pub(crate) fn mix_f16(weights: &[f32], values: &[f16], mean: &mut [f32]) {
    mix(weights, values, mean, f16::to_f32);
}

/// `mean += sum_j weights[j] * values[j]`.
pub(crate) fn mix_f32(weights: &[f32], values: &[f32], mean: &mut [f32]) {
    mix(weights, values, mean, |v| v);
}

fn mix<T: Copy>(weights: &[f32], values: &[T], mean: &mut [f32], wide: impl Fn(T) -> f32) {
    for (weight, value) in weights.iter().zip(values.chunks_exact(mean.len())) {
        for (mean, &v) in mean.iter_mut().zip(value) {
            *mean += weight * wide(v);
        }
    }
}

fn dot<T: Copy>(a: &[T], b: &[f32], wide: impl Fn(T) -> f32) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        for i in 0..8 {
            sums[i] += wide(a[i]) * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(&a, b)| wide(a) * b).sum();
    sums.iter().sum::<f32>() + rest
}
