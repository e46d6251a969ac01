//! Linear layers with quantised weights and 8-bit activations.
//!
//! For each group of 32: unpack the integers once, then for each row of activations one
//! `maddubs`/`madd` pair gives eight 32-bit sums of four products, the low four of the first half of
//! the group; converted, times weight scale times activation scale, added to eight running sums.
//! `maddubs` multiplies unsigned by signed, so signed weights lend their sign to the activations;
//! no 16-bit sum overflows, as 128 * 127 * 2 < 2^15.
//!
//! Reads a weight once for every four rows of activations; no alignment is needed.

use std::arch::x86_64::*;

use quant::{Block, F16Le};

use super::quants::Quants;
use super::sum8;
use crate::kernels::{Input, Q8};
use crate::pool::Tile;

/// Rows of activations that share one unpacking of the weights.
const ROWS: usize = 4;

/// Rows of activations that stay in the first-level cache while the weights of a tile pass by.
const CACHED_ROWS: usize = 16;

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn linear<B: Block<N> + Quants<G>, const N: usize, const G: usize>(
    weights: &[u8],
    x: Input<'_, Q8>,
    tile: &mut Tile<'_, f32>,
) {
    let row_bytes = x.stride / G * size_of::<B>();
    let (cols, rows) = (tile.cols(), tile.rows());
    for first in rows.clone().step_by(CACHED_ROWS) {
        let end = rows.end.min(first + CACHED_ROWS);
        for o in cols.clone() {
            let blocks = B::slice(&weights[o * row_bytes..][..row_bytes]);
            let mut r = first;
            while r + ROWS <= end {
                let sums = dot::<B, G, ROWS>(blocks, std::array::from_fn(|i| x.row(r + i)));
                for (i, sum) in sums.into_iter().enumerate() {
                    tile.row(r + i)[o - cols.start] = sum;
                }
                r += ROWS;
            }
            for r in r..end {
                [tile.row(r)[o - cols.start]] = dot::<B, G, 1>(blocks, [x.row(r)]);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dot<B: Quants<G>, const G: usize, const R: usize>(blocks: &[B], x: [&[Q8]; R]) -> [f32; R] {
    let mut sum = [_mm256_setzero_ps(); R];
    let mut offset = [_mm_setzero_ps(); R];
    let x = x.map(|x| x.as_chunks::<G>().0);
    for (b, block) in blocks.iter().enumerate() {
        let (scales, offsets) = block.factors(|half| wide(half));
        let x = x.map(|x| &x[b]);
        for g in 0..G {
            let scale = _mm256_set_m128(_mm_set1_ps(scales[g][1]), _mm_set1_ps(scales[g][0]));
            let pair = pair(&offsets[g]);
            // SAFETY: the features of this function are those it needs.
            let w = unsafe { block.quants_avx2(g) };
            for r in 0..R {
                let x = &x[r][g];
                let sums = _mm256_cvtepi32_ps(sums_of_4::<B, G>(w, &x.q));
                sum[r] = _mm256_fmadd_ps(sums, _mm256_mul_ps(scale, _mm256_set1_ps(x.scale)), sum[r]);
                if B::OFFSETS {
                    offset[r] = _mm_fmadd_ps(pair, self::pair(&x.sums), offset[r]);
                }
            }
        }
    }
    std::array::from_fn(|r| {
        let offset = _mm_add_ss(offset[r], _mm_movehdup_ps(offset[r]));
        sum8(sum[r]) + _mm_cvtss_f32(offset)
    })
}

/// The sums of each four products of weights and activations.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn sums_of_4<B: Quants<G>, const G: usize>(w: __m256i, q: &[i8; 32]) -> __m256i {
    // SAFETY: 32 bytes are read from an array of 32.
    let q = unsafe { _mm256_loadu_si256(q.as_ptr().cast()) };
    let sums_of_2 = if B::UNSIGNED {
        _mm256_maddubs_epi16(w, q)
    } else {
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w))
    };
    _mm256_madd_epi16(sums_of_2, _mm256_set1_epi16(1))
}

/// Two numbers in the low lanes, zeros above.
#[target_feature(enable = "avx2,fma,f16c")]
fn pair(numbers: &[f32; 2]) -> __m128 {
    // SAFETY: 8 bytes are read from an array of two f32.
    unsafe { _mm_castpd_ps(_mm_load_sd(numbers.as_ptr().cast())) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn wide(half: F16Le) -> f32 {
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(u16::from_le_bytes(half.0)))))
}

#[cfg(test)]
mod tests {
    use quant::*;

    use super::*;
    use crate::kernels::Isa;
    use crate::kernels::scalar::dot_halves;

    /// Random blocks and activations: the integers of the vector kernel are those of the scalar one.
    fn exact<B: Block<N> + Quants<G>, const N: usize, const G: usize>() {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn halves<B: Quants<G>, const G: usize>(block: &B, g: usize, q: &[i8; 32]) -> [i32; 2] {
            let mut sums = [0i32; 8];
            // SAFETY: the features are this function's, and 32 bytes are written to eight i32.
            unsafe {
                let w = block.quants_avx2(g);
                _mm256_storeu_si256(sums.as_mut_ptr().cast(), sums_of_4::<B, G>(w, q));
            }
            [sums[..4].iter().sum(), sums[4..].iter().sum()]
        }
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        for _ in 0..100 {
            let bytes: Vec<u8> = (0..size_of::<B>()).map(|_| random()).collect();
            let block = &B::slice(&bytes)[0];
            for g in 0..G {
                for q in [std::array::from_fn(|_| (random() as i8).max(-127)), [127; 32], [-127; 32]] {
                    // SAFETY: `groups_match` has checked the features.
                    let found = unsafe { halves(block, g, &q) };
                    assert_eq!(
                        found,
                        dot_halves(&block.quants()[g], &q),
                        "{} group {g}",
                        <B as Block<N>>::FORMAT
                    );
                }
            }
        }
    }

    #[test]
    fn integers_match_the_scalar_kernel() {
        if !Isa::Avx2.is_available() {
            eprintln!("skipped: this processor has no AVX2");
            return;
        }
        exact::<BlockQ4_0, 32, 1>();
        exact::<BlockQ4_1, 32, 1>();
        exact::<BlockQ5_0, 32, 1>();
        exact::<BlockQ5_1, 32, 1>();
        exact::<BlockQ8_0, 32, 1>();
        exact::<BlockQ2_K, 256, 8>();
        exact::<BlockQ3_K, 256, 8>();
        exact::<BlockQ4_K, 256, 8>();
        exact::<BlockQ5_K, 256, 8>();
        exact::<BlockQ6_K, 256, 8>();
        exact::<BlockIQ4_NL, 32, 1>();
        exact::<BlockIQ4_XS, 256, 8>();
    }
}
