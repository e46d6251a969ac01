//! Attention over the keys and values of one head in consecutive positions.

use std::arch::x86_64::*;

use super::float::{Widen, dot};

/// `scores[j] = scale * q . keys[j]`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scores<T: Widen>(q: &[f32], keys: &[T], scale: f32, scores: &mut [f32]) {
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(q.len())) {
        let [sum] = dot(key, [q]);
        *score = scale * sum;
    }
}

/// `mean += sum_j weights[j] * values[j]`, 32 columns at a time so that their sums stay in registers.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn mix<T: Widen>(weights: &[f32], values: &[T], mean: &mut [f32]) {
    let dim = mean.len();
    let (mean32, rest) = mean.as_chunks_mut::<32>();
    for (part, mean) in mean32.iter_mut().enumerate() {
        let mean = mean.as_chunks_mut::<8>().0;
        // SAFETY: eight f32 are read from and written to arrays of eight.
        let mut sums: [__m256; 4] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(mean[i].as_ptr()) });
        for (&weight, value) in weights.iter().zip(values.chunks_exact(dim)) {
            let value = value[part * 32..][..32].as_chunks::<8>().0;
            for i in 0..4 {
                // SAFETY: the features of this function are those it needs.
                sums[i] = _mm256_fmadd_ps(_mm256_set1_ps(weight), unsafe { T::widen8(&value[i]) }, sums[i]);
            }
        }
        for i in 0..4 {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(mean[i].as_mut_ptr(), sums[i]) };
        }
    }
    let first = dim - rest.len();
    for (&weight, value) in weights.iter().zip(values.chunks_exact(dim)) {
        for (mean, v) in rest.iter_mut().zip(&value[first..]) {
            *mean = weight.mul_add(v.widen(), *mean);
        }
    }
}
