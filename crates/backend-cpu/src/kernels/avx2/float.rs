//! Linear layers with weights that are floating-point numbers.
//!
//! Four running sums of eight lanes, so that products need not wait for each other; what is left of a
//! row goes to the first of them, then to a scalar. Reads a weight once for every two rows of
//! activations; no alignment is needed.

use std::arch::x86_64::*;

use half::f16;

use super::sum8;

/// Numbers of which eight widen to a vector of f32.
pub(crate) trait Widen: Copy {
    /// Eight numbers.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C. Inlined into kernels that are compiled for them.
    unsafe fn widen8(eight: &[Self; 8]) -> __m256;

    /// One number.
    fn widen(self) -> f32;
}

impl Widen for f32 {
    #[inline(always)]
    unsafe fn widen8(eight: &[f32; 8]) -> __m256 {
        // SAFETY: 32 bytes are read from eight f32.
        unsafe { _mm256_loadu_ps(eight.as_ptr()) }
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Widen for f16 {
    #[inline(always)]
    unsafe fn widen8(eight: &[f16; 8]) -> __m256 {
        // SAFETY: the caller runs on F16C; 16 bytes are read from eight f16.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(eight.as_ptr().cast())) }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// The dot products of `w` with each of `x`, all of one length.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn dot<F: Widen, const R: usize>(w: &[F], x: [&[f32]; R]) -> [f32; R] {
    let mut sums = [[_mm256_setzero_ps(); 4]; R];
    let (w32, w_rest) = w.as_chunks::<32>();
    let x32 = x.map(|x| x.as_chunks::<32>());
    for (i, w) in w32.iter().enumerate() {
        let w = w.as_chunks::<8>().0;
        for lane in 0..4 {
            // SAFETY: the features of this function are those it needs.
            let w = unsafe { F::widen8(&w[lane]) };
            for r in 0..R {
                let x = &x32[r].0[i].as_chunks::<8>().0[lane];
                // SAFETY: as above.
                sums[r][lane] = _mm256_fmadd_ps(w, unsafe { f32::widen8(x) }, sums[r][lane]);
            }
        }
    }
    let (w8, w_rest) = w_rest.as_chunks::<8>();
    std::array::from_fn(|r| {
        let [mut first, second, third, fourth] = sums[r];
        let (x8, x_rest) = x32[r].1.as_chunks::<8>();
        for (w, x) in w8.iter().zip(x8) {
            // SAFETY: the features of this function are those it needs.
            first = unsafe { _mm256_fmadd_ps(F::widen8(w), f32::widen8(x), first) };
        }
        let rest: f32 = w_rest.iter().zip(x_rest).map(|(w, x)| w.widen() * x).sum();
        sum8(_mm256_add_ps(_mm256_add_ps(first, second), _mm256_add_ps(third, fourth))) + rest
    })
}
