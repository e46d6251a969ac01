//! 8-bit products of a step of weights with 1 to 4 activation rows, in assembly: with intrinsics, LLVM computes one half of
//! all lanes after the other and stores each broadcast activation for the second half, a store per product.

use std::arch::asm;
use std::arch::x86_64::*;

/// 16-bit sums of pairs of products, by row and half.
pub(super) type Pairs<const C: usize> = [[__m256i; 2]; C];

/// Products of a step of weights, unsigned, with `C` activation rows.
///
/// # Safety
///
/// The CPU supports AVX2.
#[inline(always)]
pub(super) unsafe fn products<const C: usize>(weights: [__m256i; 2], x: &[[i8; 4]; C]) -> Pairs<C> {
    // SAFETY: as the caller promises.
    unsafe {
        let mut pairs = [[_mm256_setzero_si256(); 2]; C];
        each::<C, false>(&mut pairs, weights, x);
        pairs
    }
}

/// Adds the [`products`] of a step to those of other steps.
///
/// # Safety
///
/// The CPU supports AVX2.
#[inline(always)]
pub(super) unsafe fn add_products<const C: usize>(
    pairs: &mut Pairs<C>,
    weights: [__m256i; 2],
    x: &[[i8; 4]; C],
) {
    // SAFETY: as the caller promises.
    unsafe { each::<C, true>(pairs, weights, x) }
}

#[inline(always)]
unsafe fn each<const C: usize, const ADD: bool>(
    pairs: &mut Pairs<C>,
    weights: [__m256i; 2],
    x: &[[i8; 4]; C],
) {
    // SAFETY: as the caller promises.
    unsafe {
        if let (Some(pairs), Some(x)) = (pairs.as_mut_array(), x.as_array()) {
            if ADD { add_4(pairs, weights, x) } else { set_4(pairs, weights, x) }
        } else if let (Some(pairs), Some(x)) = (pairs.as_mut_array(), x.as_array()) {
            if ADD { add_3(pairs, weights, x) } else { set_3(pairs, weights, x) }
        } else if let (Some(pairs), Some(x)) = (pairs.as_mut_array(), x.as_array()) {
            if ADD { add_2(pairs, weights, x) } else { set_2(pairs, weights, x) }
        } else if let (Some(pairs), Some(x)) = (pairs.as_mut_array(), x.as_array()) {
            if ADD { add_1(pairs, weights, x) } else { set_1(pairs, weights, x) }
        } else {
            unreachable!("{C} activation rows")
        }
    }
}

/// Defines the functions for `$n` rows, which are `$c`.
macro_rules! rows {
    ($set:ident, $add:ident, $n:literal: $($c:literal $low:ident $high:ident)*) => {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn $set(pairs: &mut Pairs<$n>, weights: [__m256i; 2], x: &[[i8; 4]; $n]) {
            // SAFETY: reads the whole of `x`; the function enables the feature.
            unsafe {
                asm!(
                    $(
                        concat!("vpbroadcastd {of_row}, dword ptr [{x} + 4 * ", $c, "]"),
                        concat!("vpmaddubsw {", stringify!($low), "}, {w0}, {of_row}"),
                        concat!("vpmaddubsw {", stringify!($high), "}, {w1}, {of_row}"),
                    )*
                    x = in(reg) x.as_ptr(),
                    w0 = in(ymm_reg) weights[0],
                    w1 = in(ymm_reg) weights[1],
                    of_row = out(ymm_reg) _,
                    $(
                        $low = out(ymm_reg) pairs[$c][0],
                        $high = out(ymm_reg) pairs[$c][1],
                    )*
                    options(readonly, nostack, preserves_flags),
                );
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn $add(pairs: &mut Pairs<$n>, weights: [__m256i; 2], x: &[[i8; 4]; $n]) {
            // SAFETY: reads the whole of `x`; the function enables the feature.
            unsafe {
                asm!(
                    $(
                        concat!("vpbroadcastd {of_row}, dword ptr [{x} + 4 * ", $c, "]"),
                        "vpmaddubsw {product}, {w0}, {of_row}",
                        concat!("vpaddw {", stringify!($low), "}, {", stringify!($low), "}, {product}"),
                        "vpmaddubsw {product}, {w1}, {of_row}",
                        concat!("vpaddw {", stringify!($high), "}, {", stringify!($high), "}, {product}"),
                    )*
                    x = in(reg) x.as_ptr(),
                    w0 = in(ymm_reg) weights[0],
                    w1 = in(ymm_reg) weights[1],
                    of_row = out(ymm_reg) _,
                    product = out(ymm_reg) _,
                    $(
                        $low = inout(ymm_reg) pairs[$c][0],
                        $high = inout(ymm_reg) pairs[$c][1],
                    )*
                    options(readonly, nostack, preserves_flags),
                );
            }
        }
    };
}

rows!(set_1, add_1, 1: 0 l0 h0);
rows!(set_2, add_2, 2: 0 l0 h0 1 l1 h1);
rows!(set_3, add_3, 3: 0 l0 h0 1 l1 h1 2 l2 h2);
rows!(set_4, add_4, 4: 0 l0 h0 1 l1 h1 2 l2 h2 3 l3 h3);
