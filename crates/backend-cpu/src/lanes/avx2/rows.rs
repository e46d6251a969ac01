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

/// Sets or adds; `C` alone decides which branch is left.
///
/// # Safety
///
/// The CPU supports AVX2.
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

/// The products of row `$c` in place of what the sums `$low` and `$high` are.
macro_rules! set {
    ($c:literal $low:ident $high:ident) => {
        concat!(
            concat!("vpbroadcastd ymm15, dword ptr [{x} + 4 * ", $c, "]\n"),
            concat!("vpmaddubsw {", stringify!($low), "}, {w0}, ymm15\n"),
            concat!("vpmaddubsw {", stringify!($high), "}, {w1}, ymm15"),
        )
    };
}

/// The products of row `$c`, added to the sums `$low` and `$high`.
macro_rules! add {
    ($c:literal $low:ident $high:ident) => {
        concat!(
            concat!("vpbroadcastd ymm15, dword ptr [{x} + 4 * ", $c, "]\n"),
            "vpmaddubsw ymm14, {w0}, ymm15\n",
            concat!("vpaddw {", stringify!($low), "}, {", stringify!($low), "}, ymm14\n"),
            "vpmaddubsw ymm14, {w1}, ymm15\n",
            concat!("vpaddw {", stringify!($high), "}, {", stringify!($high), "}, ymm14"),
        )
    };
}

/// Defines a function for `$n` rows, which are `$c`.
macro_rules! rows {
    ($name:ident, $row:ident $sums:tt, $n:literal: $($c:literal $low:ident $high:ident)*) => {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn $name(pairs: &mut Pairs<$n>, weights: [__m256i; 2], x: &[[i8; 4]; $n]) {
            // SAFETY: reads the whole of `x`; the function enables the feature.
            unsafe {
                asm!(
                    $($row!($c $low $high),)*
                    x = in(reg) x.as_ptr(),
                    w0 = in(ymm_reg) weights[0],
                    w1 = in(ymm_reg) weights[1],
                    out("ymm14") _,
                    out("ymm15") _,
                    $($low = $sums(ymm_reg) pairs[$c][0], $high = $sums(ymm_reg) pairs[$c][1],)*
                    options(readonly, nostack, preserves_flags),
                );
            }
        }
    };
}

rows!(set_1, set out, 1: 0 l0 h0);
rows!(set_2, set out, 2: 0 l0 h0 1 l1 h1);
rows!(set_3, set out, 3: 0 l0 h0 1 l1 h1 2 l2 h2);
rows!(set_4, set out, 4: 0 l0 h0 1 l1 h1 2 l2 h2 3 l3 h3);
rows!(add_1, add inout, 1: 0 l0 h0);
rows!(add_2, add inout, 2: 0 l0 h0 1 l1 h1);
rows!(add_3, add inout, 3: 0 l0 h0 1 l1 h1 2 l2 h2);
rows!(add_4, add inout, 4: 0 l0 h0 1 l1 h1 2 l2 h2 3 l3 h3);
