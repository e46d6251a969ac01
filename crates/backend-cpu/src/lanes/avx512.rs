//! AVX-512 with BW and VNNI: one register per vector.
#![expect(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

use quant::{Bf16Le, F16Le};

use super::{BYTES, LANES, Lanes, Pair, WithSimd};

/// Proof that the CPU supports AVX-512 F, BW, VL and VNNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Defines methods that are one instruction with two operands.
macro_rules! lanewise {
    ($($name:ident: $instruction:ident of $vector:ty;)*) => { $(
        #[inline(always)]
        fn $name(self, a: $vector, b: $vector) -> $vector {
            // SAFETY: `self` proves the features.
            unsafe { $instruction(a, b) }
        }
    )* };
}

impl Lanes for Avx512 {
    fn detect() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && super::avx2::Avx2::detect().is_some();
        has.then_some(Avx512(()))
    }

    fn run<W: WithSimd>(self, work: W) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn run<W: WithSimd>(lanes: Avx512, work: W) {
            work.with_simd(lanes);
        }
        // SAFETY: `self` proves the features.
        unsafe { run(self, work) }
    }

    type Bytes = __m512i;
    type Ints = __m512i;
    type Floats = __m512;

    const TILE: usize = 6;
    const CHAINS: usize = 4;

    lanewise! {
        or: _mm512_or_si512 of __m512i;
        add_i32: _mm512_add_epi32 of __m512i;
        max_i32: _mm512_max_epi32 of __m512i;
        mul: _mm512_mul_ps of __m512;
        add: _mm512_add_ps of __m512;
        div: _mm512_div_ps of __m512;
        max: _mm512_max_ps of __m512;
        min: _mm512_min_ps of __m512;
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
    fn load_u8(self, from: &[u8; BYTES]) -> __m512i {
        // SAFETY: 64 bytes are read from an array of 64.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_u8(self, bytes: __m512i, to: &mut [u8; BYTES]) {
        // SAFETY: 64 bytes are written to an array of 64.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), bytes) }
    }

    #[inline(always)]
    fn bits(self, bytes: __m512i, down: i32, mask: u8) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let count = _mm_cvtsi32_si128(down.abs());
            let shifted =
                if down < 0 { _mm512_sll_epi16(bytes, count) } else { _mm512_srl_epi16(bytes, count) };
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn flip(self, bytes: __m512i, mask: u8) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_xor_si512(bytes, _mm512_set1_epi8(mask as i8)) }
    }

    /// Rows `j`, `4 + j`, `8 + j` and `12 + j` share a register, so that each 128-bit lane is transposed on its own.
    #[inline(always)]
    fn transpose_4x16(self, rows: [&[u8; 16]; LANES]) -> [__m512i; 4] {
        // SAFETY: `self` proves the features; 16 bytes are read from arrays of 16.
        unsafe {
            let mut x = [_mm512_setzero_si512(); 4];
            for j in 0..4 {
                x[j] = _mm512_castsi128_si512(_mm_loadu_si128(rows[j].as_ptr().cast()));
                x[j] = _mm512_inserti32x4::<1>(x[j], _mm_loadu_si128(rows[4 + j].as_ptr().cast()));
                x[j] = _mm512_inserti32x4::<2>(x[j], _mm_loadu_si128(rows[8 + j].as_ptr().cast()));
                x[j] = _mm512_inserti32x4::<3>(x[j], _mm_loadu_si128(rows[12 + j].as_ptr().cast()));
            }
            let (low, high) = (_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
            let (low_too, high_too) = (_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
            [
                _mm512_unpacklo_epi64(low, low_too),
                _mm512_unpackhi_epi64(low, low_too),
                _mm512_unpacklo_epi64(high, high_too),
                _mm512_unpackhi_epi64(high, high_too),
            ]
        }
    }

    #[inline(always)]
    fn deinterleave_u8(self, bytes: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let quarters = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(order));
            _mm512_permutexvar_epi32(_mm512_cvtepi8_epi32(order), quarters)
        }
    }

    #[inline(always)]
    fn deinterleave_u16(self, bytes: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe {
            let low = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(1));
            let order = _mm512_inserti64x4::<1>(
                _mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)),
                _mm512_cvtepi32_epi16(high),
            );
            _mm512_permutexvar_epi16(order, bytes)
        }
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], nibbles: __m512i) -> __m512i {
        // SAFETY: `self` proves the features; 16 bytes are read from an array of 16.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, nibbles)
        }
    }

    #[inline(always)]
    fn acc_init<const SIGNED: bool>(self, start: i32) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_epi32(start) }
    }

    #[inline(always)]
    fn dot<const SIGNED: bool>(self, sum: __m512i, weights: __m512i, x: [i8; 4]) -> __m512i {
        let x = i32::from_le_bytes(x.map(|x| x as u8));
        // SAFETY: `self` proves the features.
        unsafe { _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(x)) }
    }

    /// High nibbles stay in place, so their dot product is 16 times as large.
    #[inline(always)]
    fn dot_nibbles<const C: usize>(
        self,
        mut sums: [__m512i; C],
        vectors: &[[u8; BYTES]],
        x: &[[i8; 4]],
    ) -> [__m512i; C] {
        let mut high = [self.acc_zero(); C];
        for (vector, x) in vectors.iter().zip(x.chunks_exact(2 * C)) {
            let vector = self.load_u8(vector);
            for c in 0..C {
                sums[c] = self.dot::<false>(sums[c], self.bits(vector, 0, 0x0F), x[c]);
                high[c] = self.dot::<false>(high[c], self.bits(vector, 0, 0xF0), x[C + c]);
            }
        }
        for c in 0..C {
            // SAFETY: `self` proves the features.
            sums[c] = unsafe { _mm512_add_epi32(sums[c], _mm512_srai_epi32::<4>(high[c])) };
        }
        sums
    }

    /// Assembly for six rows: with intrinsics, LLVM hoists the broadcasts and spills the accumulators.
    #[inline(always)]
    fn dot_pairs<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[__m512i; 2]; C],
        weights: &[Pair<[u8; BYTES]>; 4],
        x: &[[i8; 4]],
    ) {
        if let Some(sums) = sums.as_mut_array::<6>() {
            let x: &[[i8; 4]; 24] = x.try_into().expect("four steps of six rows");
            // SAFETY: `self` proves the features.
            unsafe { tile::dot_pairs(sums, weights, x) }
            return;
        }
        super::dot_pairs::<Avx512, SIGNED, C>(self, sums, weights, x);
    }

    #[inline(always)]
    fn round_to_i32(self, x: __m512) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cvtps_epi32(x) }
    }

    #[inline(always)]
    fn abs_bits(self, x: __m512) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(i32::MAX)) }
    }

    #[inline(always)]
    fn reduce_max(self, ints: __m512i) -> i32 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_reduce_max_epi32(ints) }
    }

    #[inline(always)]
    fn pack_low_bytes(self, ints: __m512i) -> [u32; 4] {
        // SAFETY: `self` proves the features; both types are 16 bytes without padding.
        unsafe { std::mem::transmute::<__m128i, [u32; 4]>(_mm512_cvtepi32_epi8(ints)) }
    }

    #[inline(always)]
    fn reduce_add(self, ints: __m512i) -> i32 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_reduce_add_epi32(ints) }
    }

    #[inline(always)]
    fn to_f32(self, ints: __m512i) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cvtepi32_ps(ints) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load_f32(self, from: &[f32; LANES]) -> __m512 {
        // SAFETY: 64 bytes are read from an array of 64.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store_f32(self, floats: __m512, to: &mut [f32; LANES]) {
        // SAFETY: 64 bytes are written to an array of 64.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), floats) }
    }

    #[inline(always)]
    fn load_f16(self, from: &[F16Le; LANES]) -> __m512 {
        // SAFETY: `self` proves the features; 32 bytes are read from an array of 32.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn to_f16(self, floats: __m512) -> [u16; LANES] {
        // SAFETY: `self` proves the features; both types are 32 bytes without padding.
        unsafe {
            std::mem::transmute::<__m256i, [u16; LANES]>(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(floats))
        }
    }

    #[inline(always)]
    fn load_bf16(self, from: &[Bf16Le; LANES]) -> __m512 {
        // SAFETY: `self` proves the features; 32 bytes are read from an array of 32.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn u8_to_f32(self, from: &[u8; LANES]) -> __m512 {
        // SAFETY: `self` proves the features; 16 bytes are read from an array of 16.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn exponents_to_f32(self, from: &[u8; LANES]) -> __m512 {
        // SAFETY: `self` proves the features; 16 bytes are read from an array of 16.
        unsafe {
            let e = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            let is_subnormal = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
            let least = _mm512_set1_epi32(0x0020_0000);
            _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_subnormal, least, e))
        }
    }

    #[inline(always)]
    fn i8_to_f32(self, from: &[i8; LANES]) -> __m512 {
        // SAFETY: `self` proves the features; 16 bytes are read from an array of 16.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn mul_pow2(self, a: __m512, n: __m512) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe {
            let is_normal = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(n, _mm512_set1_ps(-126.0));
            _mm512_maskz_scalef_ps(is_normal, a, n)
        }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
}

/// The inner loop of GEMM.
mod tile {
    use super::*;

    /// Four steps of two strips and six activation rows. A step is two loads and twelve `vpdpbusd` with broadcast memory
    /// operands, two per cycle.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dot_pairs(
        sums: &mut [[__m512i; 2]; 6],
        weights: &[Pair<[u8; BYTES]>; 4],
        x: &[[i8; 4]; 24],
    ) {
        // SAFETY: reads 512 bytes of `weights` and 96 of `x`, their full lengths.
        unsafe {
            std::arch::asm!(
                "vmovdqu64 zmm28, [{w} + 0]",
                "vmovdqu64 zmm29, [{w} + 64]",
                "vpdpbusd {s00}, zmm28, dword ptr [{x} + 0]{{1to16}}",
                "vpdpbusd {s01}, zmm29, dword ptr [{x} + 0]{{1to16}}",
                "vpdpbusd {s10}, zmm28, dword ptr [{x} + 4]{{1to16}}",
                "vpdpbusd {s11}, zmm29, dword ptr [{x} + 4]{{1to16}}",
                "vpdpbusd {s20}, zmm28, dword ptr [{x} + 8]{{1to16}}",
                "vpdpbusd {s21}, zmm29, dword ptr [{x} + 8]{{1to16}}",
                "vpdpbusd {s30}, zmm28, dword ptr [{x} + 12]{{1to16}}",
                "vpdpbusd {s31}, zmm29, dword ptr [{x} + 12]{{1to16}}",
                "vpdpbusd {s40}, zmm28, dword ptr [{x} + 16]{{1to16}}",
                "vpdpbusd {s41}, zmm29, dword ptr [{x} + 16]{{1to16}}",
                "vpdpbusd {s50}, zmm28, dword ptr [{x} + 20]{{1to16}}",
                "vpdpbusd {s51}, zmm29, dword ptr [{x} + 20]{{1to16}}",
                "vmovdqu64 zmm28, [{w} + 128]",
                "vmovdqu64 zmm29, [{w} + 192]",
                "vpdpbusd {s00}, zmm28, dword ptr [{x} + 24]{{1to16}}",
                "vpdpbusd {s01}, zmm29, dword ptr [{x} + 24]{{1to16}}",
                "vpdpbusd {s10}, zmm28, dword ptr [{x} + 28]{{1to16}}",
                "vpdpbusd {s11}, zmm29, dword ptr [{x} + 28]{{1to16}}",
                "vpdpbusd {s20}, zmm28, dword ptr [{x} + 32]{{1to16}}",
                "vpdpbusd {s21}, zmm29, dword ptr [{x} + 32]{{1to16}}",
                "vpdpbusd {s30}, zmm28, dword ptr [{x} + 36]{{1to16}}",
                "vpdpbusd {s31}, zmm29, dword ptr [{x} + 36]{{1to16}}",
                "vpdpbusd {s40}, zmm28, dword ptr [{x} + 40]{{1to16}}",
                "vpdpbusd {s41}, zmm29, dword ptr [{x} + 40]{{1to16}}",
                "vpdpbusd {s50}, zmm28, dword ptr [{x} + 44]{{1to16}}",
                "vpdpbusd {s51}, zmm29, dword ptr [{x} + 44]{{1to16}}",
                "vmovdqu64 zmm28, [{w} + 256]",
                "vmovdqu64 zmm29, [{w} + 320]",
                "vpdpbusd {s00}, zmm28, dword ptr [{x} + 48]{{1to16}}",
                "vpdpbusd {s01}, zmm29, dword ptr [{x} + 48]{{1to16}}",
                "vpdpbusd {s10}, zmm28, dword ptr [{x} + 52]{{1to16}}",
                "vpdpbusd {s11}, zmm29, dword ptr [{x} + 52]{{1to16}}",
                "vpdpbusd {s20}, zmm28, dword ptr [{x} + 56]{{1to16}}",
                "vpdpbusd {s21}, zmm29, dword ptr [{x} + 56]{{1to16}}",
                "vpdpbusd {s30}, zmm28, dword ptr [{x} + 60]{{1to16}}",
                "vpdpbusd {s31}, zmm29, dword ptr [{x} + 60]{{1to16}}",
                "vpdpbusd {s40}, zmm28, dword ptr [{x} + 64]{{1to16}}",
                "vpdpbusd {s41}, zmm29, dword ptr [{x} + 64]{{1to16}}",
                "vpdpbusd {s50}, zmm28, dword ptr [{x} + 68]{{1to16}}",
                "vpdpbusd {s51}, zmm29, dword ptr [{x} + 68]{{1to16}}",
                "vmovdqu64 zmm28, [{w} + 384]",
                "vmovdqu64 zmm29, [{w} + 448]",
                "vpdpbusd {s00}, zmm28, dword ptr [{x} + 72]{{1to16}}",
                "vpdpbusd {s01}, zmm29, dword ptr [{x} + 72]{{1to16}}",
                "vpdpbusd {s10}, zmm28, dword ptr [{x} + 76]{{1to16}}",
                "vpdpbusd {s11}, zmm29, dword ptr [{x} + 76]{{1to16}}",
                "vpdpbusd {s20}, zmm28, dword ptr [{x} + 80]{{1to16}}",
                "vpdpbusd {s21}, zmm29, dword ptr [{x} + 80]{{1to16}}",
                "vpdpbusd {s30}, zmm28, dword ptr [{x} + 84]{{1to16}}",
                "vpdpbusd {s31}, zmm29, dword ptr [{x} + 84]{{1to16}}",
                "vpdpbusd {s40}, zmm28, dword ptr [{x} + 88]{{1to16}}",
                "vpdpbusd {s41}, zmm29, dword ptr [{x} + 88]{{1to16}}",
                "vpdpbusd {s50}, zmm28, dword ptr [{x} + 92]{{1to16}}",
                "vpdpbusd {s51}, zmm29, dword ptr [{x} + 92]{{1to16}}",
                w = in(reg) weights.as_ptr(),
                x = in(reg) x.as_ptr(),
                out("zmm28") _,
                out("zmm29") _,
                s00 = inout(zmm_reg) sums[0][0],
                s01 = inout(zmm_reg) sums[0][1],
                s10 = inout(zmm_reg) sums[1][0],
                s11 = inout(zmm_reg) sums[1][1],
                s20 = inout(zmm_reg) sums[2][0],
                s21 = inout(zmm_reg) sums[2][1],
                s30 = inout(zmm_reg) sums[3][0],
                s31 = inout(zmm_reg) sums[3][1],
                s40 = inout(zmm_reg) sums[4][0],
                s41 = inout(zmm_reg) sums[4][1],
                s50 = inout(zmm_reg) sums[5][0],
                s51 = inout(zmm_reg) sums[5][1],
                options(readonly, nostack, preserves_flags, pure),
            );
        }
    }
}
