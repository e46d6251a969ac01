//! Kernels in plain Rust: every processor runs them, and the vector kernels are tested against them.

use half::f16;
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
