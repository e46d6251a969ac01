//! Kernels for AVX2 with FMA and F16C.
//!
//! The functions of this file are safe: [`super::Kernels::new`] hands them out only after it has
//! found the three features on the processor that runs.
#![expect(unsafe_code, reason = "vector instructions")]

mod attend;
mod float;

use std::arch::x86_64::*;

use half::f16;


/// See [`super::scalar::scores_f16`].
pub(super) fn scores_f16(q: &[f32], keys: &[f16], scale: f32, scores: &mut [f32]) {
    // SAFETY: the processor has the features, see the head of this file.
    unsafe { attend::scores(q, keys, scale, scores) }
}

/// See [`super::scalar::scores_f32`].
pub(super) fn scores_f32(q: &[f32], keys: &[f32], scale: f32, scores: &mut [f32]) {
    // SAFETY: the processor has the features, see the head of this file.
    unsafe { attend::scores(q, keys, scale, scores) }
}

/// See [`super::scalar::mix_f16`].
pub(super) fn mix_f16(weights: &[f32], values: &[f16], mean: &mut [f32]) {
    // SAFETY: the processor has the features, see the head of this file.
    unsafe { attend::mix(weights, values, mean) }
}

/// See [`super::scalar::mix_f32`].
pub(super) fn mix_f32(weights: &[f32], values: &[f32], mean: &mut [f32]) {
    // SAFETY: the processor has the features, see the head of this file.
    unsafe { attend::mix(weights, values, mean) }
}

/// The sum of eight lanes: halves, then quarters, then the last two.
#[target_feature(enable = "avx2,fma,f16c")]
fn sum8(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}
