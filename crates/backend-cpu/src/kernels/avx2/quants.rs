//! The integers of a group of 32 weights, unpacked with vector instructions.

use std::arch::x86_64::*;

use quant::*;

/// A block whose groups unpack to a vector of 32 bytes.
pub(crate) trait Quants<const G: usize>: Groups<G> {
    /// One group of [`Groups::quants`] as a vector.
    ///
    /// # Safety
    /// The processor has AVX2. Inlined into kernels that are compiled for it.
    unsafe fn quants_avx2(&self, group: usize) -> __m256i;
}

macro_rules! quants {
    ($block:ty, $groups:literal, |$self:ident, $group:pat_param| $unpack:expr) => {
        impl Quants<$groups> for $block {
            #[inline(always)]
            unsafe fn quants_avx2(&$self, $group: usize) -> __m256i {
                // SAFETY: the caller runs on AVX2, and loads stay inside the arrays they are given.
                unsafe { $unpack }
            }
        }
    };
}

quants!(BlockQ4_0, 1, |self, _| minus(nibbles(&self.qs), 8));
quants!(BlockQ4_1, 1, |self, _| nibbles(&self.qs));
quants!(BlockQ5_0, 1, |self, _| minus(_mm256_or_si256(nibbles(&self.qs), fifth_bits(self.qh)), 16));
quants!(BlockQ5_1, 1, |self, _| _mm256_or_si256(nibbles(&self.qs), fifth_bits(self.qh)));
quants!(BlockQ8_0, 1, |self, _| _mm256_loadu_si256(self.qs.as_ptr().cast()));
quants!(BlockQ2_K, 8, |self, g| bits(&self.qs, g / 4, g % 4 * 2, 3));
quants!(BlockQ3_K, 8, |self, g| {
    let high = up(bits(&self.hmask, 0, g, 1), 2);
    minus(_mm256_or_si256(bits(&self.qs, g / 4, g % 4 * 2, 3), high), 4)
});
quants!(BlockQ4_K, 8, |self, g| bits(&self.qs, g / 2, g % 2 * 4, 15));
quants!(BlockQ5_K, 8, |self, g| {
    let high = up(bits(&self.qh, 0, g, 1), 4);
    _mm256_or_si256(bits(&self.qs, g / 2, g % 2 * 4, 15), high)
});
quants!(BlockQ6_K, 8, |self, g| {
    let (half, part) = (g / 4, g % 4);
    let high = up(bits(&self.qh, half, part * 2, 3), 4);
    minus(_mm256_or_si256(bits(&self.ql, half * 2 + part % 2, part / 2 * 4, 15), high), 32)
});
quants!(BlockIQ4_NL, 1, |self, _| lookup(nibbles(&self.qs)));
quants!(BlockIQ4_XS, 8, |self, g| lookup(nibbles(&self.qs[g])));

/// Low nibbles in the low half, high nibbles in the high half.
#[inline(always)]
unsafe fn nibbles(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: the caller runs on AVX2; 16 bytes are read from an array of 16.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes);
        _mm256_and_si256(both, _mm256_set1_epi8(15))
    }
}

/// The 32 bytes of `bytes` number `part`, each shifted down by `shift` and masked.
#[inline(always)]
unsafe fn bits<const N: usize>(bytes: &[u8; N], part: usize, shift: usize, mask: i8) -> __m256i {
    // SAFETY: the caller runs on AVX2; 32 bytes are read from a slice of 32.
    unsafe {
        let bytes = _mm256_loadu_si256(bytes[part * 32..][..32].as_ptr().cast());
        let shifted = _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
    }
}

/// Small bytes shifted up; no bit crosses into the next byte.
#[inline(always)]
unsafe fn up(bytes: __m256i, shift: i32) -> __m256i {
    // SAFETY: the caller runs on AVX2.
    unsafe { _mm256_sll_epi16(bytes, _mm_cvtsi32_si128(shift)) }
}

#[inline(always)]
unsafe fn minus(bytes: __m256i, bias: i8) -> __m256i {
    // SAFETY: the caller runs on AVX2.
    unsafe { _mm256_sub_epi8(bytes, _mm256_set1_epi8(bias)) }
}

/// Bit `i` of the word in bit 4 of byte `i`.
#[inline(always)]
unsafe fn fifth_bits(qh: [u8; 4]) -> __m256i {
    // SAFETY: the caller runs on AVX2.
    unsafe {
        let word = _mm256_set1_epi32(i32::from_le_bytes(qh));
        // Byte i of the result is byte i / 8 of the word.
        let spread =
            _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, spread), bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}

/// The values that IQ4 nibbles stand for.
#[inline(always)]
unsafe fn lookup(nibbles: __m256i) -> __m256i {
    // SAFETY: the caller runs on AVX2; 16 bytes are read from an array of 16.
    unsafe {
        let values = _mm_loadu_si128(IQ4_VALUES.as_ptr().cast());
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), nibbles)
    }
}
