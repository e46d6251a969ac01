//! AVX2 with FMA and F16C: two registers per vector, lanes 0 to 7 in the first.
#![expect(unsafe_code, reason = "vector instructions")]

mod rows;

use std::arch::x86_64::*;

use quant::{Bf16Le, F16Le};

use super::{BYTES, LANES, Lanes, Pair, WithSimd};
use rows::{Pairs, add_products, products};

/// Proof that the CPU supports AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// Applies `work` to both registers.
#[inline(always)]
fn both<A: Copy, B>(x: [A; 2], work: impl Fn(A) -> B) -> [B; 2] {
    [work(x[0]), work(x[1])]
}

/// Defines methods that are one instruction with two operands for each register.
macro_rules! lanewise {
    ($($name:ident: $instruction:ident of $vector:ty;)*) => { $(
        #[inline(always)]
        fn $name(self, a: [$vector; 2], b: [$vector; 2]) -> [$vector; 2] {
            // SAFETY: `self` proves the features.
            unsafe { [$instruction(a[0], b[0]), $instruction(a[1], b[1])] }
        }
    )* };
}

impl Lanes for Avx2 {
    fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    fn run<W: WithSimd>(self, work: W) {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<W: WithSimd>(lanes: Avx2, work: W) {
            work.with_simd(lanes);
        }
        // SAFETY: `self` proves the features.
        unsafe { run(self, work) }
    }

    type Bytes = [__m256i; 2];
    type Ints = [__m256i; 2];
    type Floats = [__m256; 2];

    const TILE: usize = 4;
    const CHAINS: usize = 1;

    lanewise! {
        or: _mm256_or_si256 of __m256i;
        add_i32: _mm256_add_epi32 of __m256i;
        max_i32: _mm256_max_epi32 of __m256i;
        mul: _mm256_mul_ps of __m256;
        add: _mm256_add_ps of __m256;
        div: _mm256_div_ps of __m256;
        max: _mm256_max_ps of __m256;
        min: _mm256_min_ps of __m256;
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: a prefetch has no visible effect and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn prefetch_near(self, at: *const u8) {
        // SAFETY: a prefetch has no visible effect and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[inline(always)]
    fn load_u8(self, from: &[u8; BYTES]) -> [__m256i; 2] {
        let from = from.as_ptr().cast::<__m256i>();
        // SAFETY: 64 bytes are read from an array of 64.
        unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] }
    }

    #[inline(always)]
    fn store_u8(self, bytes: [__m256i; 2], to: &mut [u8; BYTES]) {
        let to = to.as_mut_ptr().cast::<__m256i>();
        // SAFETY: 64 bytes are written to an array of 64.
        unsafe {
            _mm256_storeu_si256(to, bytes[0]);
            _mm256_storeu_si256(to.add(1), bytes[1]);
        }
    }

    #[inline(always)]
    fn bits(self, bytes: [__m256i; 2], down: i32, mask: u8) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        both(bytes, |bytes| unsafe {
            let count = _mm_cvtsi32_si128(down.abs());
            let shifted =
                if down < 0 { _mm256_sll_epi16(bytes, count) } else { _mm256_srl_epi16(bytes, count) };
            _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
        })
    }

    #[inline(always)]
    fn flip(self, bytes: [__m256i; 2], mask: u8) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        both(bytes, |bytes| unsafe { _mm256_xor_si256(bytes, _mm256_set1_epi8(mask as i8)) })
    }

    /// Rows `j` and `4 + j` of eight share a register, so that each 128-bit half is transposed on its own.
    #[inline(always)]
    fn transpose_4x16(self, rows: [&[u8; 16]; LANES]) -> [[__m256i; 2]; 4] {
        // SAFETY: `self` proves the features; 16 bytes are read from arrays of 16.
        unsafe {
            let mut across = [[_mm256_setzero_si256(); 2]; 4];
            for h in 0..2 {
                let mut x = [_mm256_setzero_si256(); 4];
                for j in 0..4 {
                    x[j] = _mm256_castsi128_si256(_mm_loadu_si128(rows[8 * h + j].as_ptr().cast()));
                    let too = _mm_loadu_si128(rows[8 * h + 4 + j].as_ptr().cast());
                    x[j] = _mm256_inserti128_si256::<1>(x[j], too);
                }
                let (low, high) = (_mm256_unpacklo_epi32(x[0], x[1]), _mm256_unpackhi_epi32(x[0], x[1]));
                let low_too = _mm256_unpacklo_epi32(x[2], x[3]);
                let high_too = _mm256_unpackhi_epi32(x[2], x[3]);
                across[0][h] = _mm256_unpacklo_epi64(low, low_too);
                across[1][h] = _mm256_unpackhi_epi64(low, low_too);
                across[2][h] = _mm256_unpacklo_epi64(high, high_too);
                across[3][h] = _mm256_unpackhi_epi64(high, high_too);
            }
            across
        }
    }

    #[inline(always)]
    fn deinterleave_u8(self, bytes: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let order = _mm256_broadcastsi128_si256(order);
            let places = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            // Byte 0 of the first eight lanes, then byte 1, and so on.
            let [first, last] =
                both(bytes, |bytes| _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(bytes, order), places));
            let (even, odd) = (_mm256_unpacklo_epi64(first, last), _mm256_unpackhi_epi64(first, last));
            [_mm256_permute2x128_si256::<0x20>(even, odd), _mm256_permute2x128_si256::<0x31>(even, odd)]
        }
    }

    #[inline(always)]
    fn deinterleave_u16(self, bytes: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        unsafe {
            let order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
            let order = _mm256_broadcastsi128_si256(order);
            // The low `u16` of the first eight lanes, then the high `u16`.
            let [first, last] = both(bytes, |bytes| {
                _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(bytes, order))
            });
            [_mm256_permute2x128_si256::<0x20>(first, last), _mm256_permute2x128_si256::<0x31>(first, last)]
        }
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], nibbles: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves the features; 16 bytes are read from an array of 16.
        both(nibbles, |nibbles| unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(table, nibbles)
        })
    }

    /// `vpmaddubsw` adds pairs of products in 16 bits; weights up to 255 would overflow. [`Self::dot`] therefore treats
    /// weights with zero point 128 as signed.
    #[inline(always)]
    fn acc_init<const SIGNED: bool>(self, start: i32) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_epi32(if SIGNED { 0 } else { start }); 2] }
    }

    #[inline(always)]
    fn dot<const SIGNED: bool>(self, sum: [__m256i; 2], weights: [__m256i; 2], x: [i8; 4]) -> [__m256i; 2] {
        let x = i32::from_le_bytes(x.map(|x| x as u8));
        // SAFETY: `self` proves the features.
        let products = both(weights, |weights| unsafe {
            let x = _mm256_set1_epi32(x);
            let pairs = if SIGNED {
                let weights = _mm256_xor_si256(weights, _mm256_set1_epi8(-128));
                _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights))
            } else {
                _mm256_maddubs_epi16(weights, x)
            };
            _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
        });
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_add_epi32(sum[0], products[0]), _mm256_add_epi32(sum[1], products[1])] }
    }

    /// Adds the steps in 16 bits where the largest weight allows it.
    #[inline(always)]
    fn dot_two<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[__m256i; 2]; C],
        weights: [[__m256i; 2]; 2],
        x: &[[[i8; 4]; C]; 2],
        max_weight: u8,
    ) {
        if SIGNED || max_weight > 63 {
            return super::dot_two::<Avx2, SIGNED, C>(self, sums, weights, x);
        }
        // SAFETY: `self` proves the features.
        unsafe {
            let mut pairs = products(weights[0], &x[0]);
            add_products(&mut pairs, weights[1], &x[1]);
            widen(sums, pairs);
        }
    }

    /// Accumulates four vectors in 16 bits.
    #[inline(always)]
    fn dot_nibbles<const C: usize>(
        self,
        mut sums: [[__m256i; 2]; C],
        vectors: &[[u8; BYTES]],
        x: &[[i8; 4]],
    ) -> [[__m256i; 2]; C] {
        for (vectors, x) in vectors.chunks(4).zip(x.chunks(8 * C)) {
            let x = x.as_chunks::<C>().0;
            // SAFETY: `self` proves the features.
            unsafe {
                let first = self.load_u8(&vectors[0]);
                let mut pairs = products(self.bits(first, 0, 15), &x[0]);
                add_products(&mut pairs, self.bits(first, 4, 15), &x[1]);
                for k in 1..vectors.len() {
                    let vector = self.load_u8(&vectors[k]);
                    add_products(&mut pairs, self.bits(vector, 0, 15), &x[2 * k]);
                    add_products(&mut pairs, self.bits(vector, 4, 15), &x[2 * k + 1]);
                }
                widen(&mut sums, pairs);
            }
        }
        sums
    }

    /// Accumulates in 16 bits for as many steps as the largest weight allows.
    #[inline(always)]
    fn dot_steps<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[__m256i; 2]; C],
        weights: &[Pair<[u8; BYTES]>],
        x: &[[i8; 4]],
        max_weight: u8,
    ) {
        match max_weight {
            ..=15 if !SIGNED => dot_steps::<8, C>(self, sums, weights, x),
            ..=31 if !SIGNED => dot_steps::<4, C>(self, sums, weights, x),
            ..=63 if !SIGNED => dot_steps::<2, C>(self, sums, weights, x),
            _ => super::dot_steps::<Avx2, SIGNED, C>(self, sums, weights, x),
        }
    }

    #[inline(always)]
    fn round_to_i32(self, x: [__m256; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1])] }
    }

    #[inline(always)]
    fn abs_bits(self, x: [__m256; 2]) -> [__m256i; 2] {
        // SAFETY: `self` proves the features.
        both(x, |x| unsafe { _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(i32::MAX)) })
    }

    #[inline(always)]
    fn reduce_max(self, ints: [__m256i; 2]) -> i32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let max = _mm256_max_epi32(ints[0], ints[1]);
            let max = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256::<1>(max));
            let max = _mm_max_epi32(max, _mm_unpackhi_epi64(max, max));
            _mm_cvtsi128_si32(_mm_max_epi32(max, _mm_shuffle_epi32::<1>(max)))
        }
    }

    #[inline(always)]
    fn pack_low_bytes(self, ints: [__m256i; 2]) -> [u32; 4] {
        // Moves the low byte of each word to the first word of its half, then joins these words.
        // SAFETY: `self` proves the features; 32 bytes without padding are transmuted.
        unsafe {
            let order = _mm256_broadcastsi128_si256(_mm_set_epi32(-1, -1, -1, 0x0C08_0400));
            let [low, high] = [_mm256_shuffle_epi8(ints[0], order), _mm256_shuffle_epi8(ints[1], order)];
            let words = _mm256_unpacklo_epi32(low, high);
            let words = std::mem::transmute::<__m256i, [u32; 8]>(words);
            [words[0], words[4], words[1], words[5]]
        }
    }

    #[inline(always)]
    fn reduce_add(self, ints: [__m256i; 2]) -> i32 {
        // SAFETY: `self` proves the features.
        unsafe {
            let sum = _mm256_add_epi32(ints[0], ints[1]);
            let sum = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            let sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
            _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32::<1>(sum)))
        }
    }

    #[inline(always)]
    fn to_f32(self, ints: [__m256i; 2]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        both(ints, |ints| unsafe { _mm256_cvtepi32_ps(ints) })
    }

    #[inline(always)]
    fn splat(self, x: f32) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load_f32(self, from: &[f32; LANES]) -> [__m256; 2] {
        // SAFETY: 64 bytes are read from an array of 64.
        unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn store_f32(self, floats: [__m256; 2], to: &mut [f32; LANES]) {
        // SAFETY: 64 bytes are written to an array of 64.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), floats[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), floats[1]);
        }
    }

    #[inline(always)]
    fn load_f16(self, from: &[F16Le; LANES]) -> [__m256; 2] {
        let from = from.as_ptr().cast::<__m128i>();
        // SAFETY: `self` proves the features; 32 bytes are read from an array of 32.
        unsafe { [_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from.add(1)))] }
    }

    #[inline(always)]
    fn to_f16(self, floats: [__m256; 2]) -> [u16; LANES] {
        // SAFETY: `self` proves the features; both types are 32 bytes without padding.
        unsafe {
            let halves = [
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats[0]),
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats[1]),
            ];
            std::mem::transmute::<[__m128i; 2], [u16; LANES]>(halves)
        }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[Bf16Le; LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(8);
        // SAFETY: `self` proves the features; 16 bytes are read from slices of 16.
        both([low, high], |from| unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        })
    }

    #[inline(always)]
    fn u8_to_f32(self, from: &[u8; LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(8);
        // SAFETY: `self` proves the features; 8 bytes are read from slices of 8.
        both([low, high], |from| unsafe {
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast())))
        })
    }

    #[inline(always)]
    fn exponents_to_f32(self, from: &[u8; LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(8);
        // SAFETY: `self` proves the features; 8 bytes are read from slices of 8.
        both([low, high], |from| unsafe {
            let e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.as_ptr().cast()));
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
            let is_subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
            let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
            _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, is_subnormal))
        })
    }

    #[inline(always)]
    fn i8_to_f32(self, from: &[i8; LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(8);
        // SAFETY: `self` proves the features; 8 bytes are read from slices of 8.
        both([low, high], |from| unsafe {
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.as_ptr().cast())))
        })
    }

    #[inline(always)]
    fn mul_pow2(self, a: [__m256; 2], n: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        let powers = both(n, |x| unsafe {
            let power =
                _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127)));
            let is_normal = _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_set1_ps(-126.0));
            _mm256_and_ps(is_normal, _mm256_castsi256_ps(power))
        });
        self.mul(a, powers)
    }

    #[inline(always)]
    fn mul_add(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: `self` proves the features.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
}

/// Adds pairs of 16-bit sums to 32-bit sums.
///
/// # Safety
///
/// The CPU supports AVX2.
#[inline(always)]
unsafe fn widen<const C: usize>(sums: &mut [[__m256i; 2]; C], pairs: Pairs<C>) {
    // SAFETY: as the caller promises.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        for c in 0..C {
            for half in 0..2 {
                sums[c][half] = _mm256_add_epi32(sums[c][half], _mm256_madd_epi16(pairs[c][half], ones));
            }
        }
    }
}

/// [`Lanes::dot_steps`] with `N` steps accumulated in 16 bits.
#[inline(always)]
fn dot_steps<const N: usize, const C: usize>(
    lanes: Avx2,
    sums: &mut [[__m256i; 2]; C],
    weights: &[Pair<[u8; BYTES]>],
    x: &[[i8; 4]],
) {
    for (weights, x) in weights.chunks(N).zip(x.chunks(N * C)) {
        let x = x.as_chunks::<C>().0;
        // SAFETY: `lanes` proves the features.
        unsafe {
            let mut pairs = [[_mm256_setzero_si256(); 2]; C];
            if N > 2 {
                pairs = products(lanes.load_u8(&weights[0].0[0]), &x[0]);
                for k in 1..weights.len() {
                    add_products(&mut pairs, lanes.load_u8(&weights[k].0[0]), &x[k]);
                }
            } else {
                // So few that LLVM keeps all in registers: 1.6 times as fast.
                for (weights, x) in weights.iter().zip(x) {
                    let weights = lanes.load_u8(&weights.0[0]);
                    for c in 0..C {
                        let x = _mm256_set1_epi32(i32::from_le_bytes([
                            x[c][0] as u8,
                            x[c][1] as u8,
                            x[c][2] as u8,
                            x[c][3] as u8,
                        ]));
                        for half in 0..2 {
                            let product = _mm256_maddubs_epi16(weights[half], x);
                            pairs[c][half] = _mm256_add_epi16(pairs[c][half], product);
                        }
                    }
                }
            }
            widen(sums, pairs);
        }
    }
}
