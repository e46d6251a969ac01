//! 16-lane SIMD vectors, one lane per row of a strip.
//!
//! Kernels are generic over [`Lanes`] and written once. Each instruction set implements the trait in one file. A value
//! of an implementing type proves that the CPU supports its instructions.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod rates;
pub(crate) mod scalar;

use std::sync::LazyLock;

use quant::{Bf16Le, F16Le};

pub(crate) const LANES: usize = 16;

/// Bytes of a vector: four for each lane.
pub(crate) const BYTES: usize = 4 * LANES;

/// The same item of two strips, aligned to cache lines: a vector that crosses a line costs two loads.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

/// Whether the hardware prefetchers reach the memory bandwidth on one sequential stream. AMD's do from Zen 4 on, the first with
/// AVX-512, and prefetches by the program only cost there. Zen 3's reach four fifths, Intel's two thirds.
pub(crate) static HARDWARE_PREFETCH_SUFFICES: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        vendor.as_flattened() == b"AuthenticAMD" && is_x86_feature_detected!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
});

/// The vector operations of one instruction set.
///
/// Implementations do not reorder floating-point operations. [`Lanes::mul_add`] may round the product or not.
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    /// Returns the proof token when the CPU supports the instruction set.
    fn detect() -> Option<Self>;
    /// Runs `work` in a function compiled with the instruction set's target features.
    fn run<W: WithSimd>(self, work: W);

    /// Four `u8` per lane.
    type Bytes: Copy;
    /// One `i32` per lane.
    type Ints: Copy;
    /// One `f32` per lane.
    type Floats: Copy;

    /// Activation rows per GEMM register tile: 6 with two strips, 4 with one, or 1.
    const TILE: usize;
    /// Sums of a GEMV row that hide the latency of [`Self::dot`] from each other.
    const CHAINS: usize;

    /// Prefetches a cache line into L2. The address need not be valid.
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}
    /// Prefetches a cache line into L1. The address need not be valid.
    #[inline(always)]
    fn prefetch_near(self, _at: *const u8) {}
    fn load_u8(self, from: &[u8; BYTES]) -> Self::Bytes;
    fn store_u8(self, bytes: Self::Bytes, to: &mut [u8; BYTES]);
    /// Shifts each byte right by `down` bits (left if negative), then masks it.
    fn bits(self, bytes: Self::Bytes, down: i32, mask: u8) -> Self::Bytes;
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// XORs each byte with `mask`.
    fn flip(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Transposes a 16 × 16 byte block in words of four: lane `r` of vector `k` is bytes `4k..4k + 4` of row `r`.
    fn transpose_4x16(self, rows: [&[u8; 16]; LANES]) -> [Self::Bytes; 4];
    /// Byte 0 of all lanes, then byte 1, byte 2 and byte 3.
    fn deinterleave_u8(self, bytes: Self::Bytes) -> Self::Bytes;
    /// The low `u16` of all lanes, then the high `u16`.
    fn deinterleave_u16(self, bytes: Self::Bytes) -> Self::Bytes;
    /// Looks up each nibble in `table`.
    fn lookup(self, table: &[u8; 16], nibbles: Self::Bytes) -> Self::Bytes;

    /// Initialises the accumulator of a group's dot product to `start`: minus the weights' zero point times the sum of
    /// the activations. `SIGNED` means that the zero point is 128.
    fn acc_init<const SIGNED: bool>(self, start: i32) -> Self::Ints;
    #[inline(always)]
    fn acc_zero(self) -> Self::Ints {
        self.acc_init::<false>(0)
    }
    fn add_i32(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Adds the 4-way dot product of each lane's `weights` and `x` to an accumulator from [`Self::acc_init`].
    fn dot<const SIGNED: bool>(self, sum: Self::Ints, weights: Self::Bytes, x: [i8; 4]) -> Self::Ints;
    /// [`Self::dot`] over two steps with `C` activation rows. No weight exceeds `max_weight`.
    #[inline(always)]
    fn dot_two<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [Self::Ints; C],
        weights: [Self::Bytes; 2],
        x: &[[[i8; 4]; C]; 2],
        _max_weight: u8,
    ) {
        dot_two::<Self, SIGNED, C>(self, sums, weights, x);
    }
    /// [`Self::dot`] with `C` activation rows, `x[2 * vectors][C]`. The low nibbles of each vector are a step, the high ones
    /// the next.
    #[inline(always)]
    fn dot_nibbles<const C: usize>(
        self,
        mut sums: [Self::Ints; C],
        vectors: &[[u8; BYTES]],
        x: &[[i8; 4]],
    ) -> [Self::Ints; C] {
        for (k, vector) in vectors.iter().enumerate() {
            let vector = self.load_u8(vector);
            for (step, shift) in [(2 * k, 0), (2 * k + 1, 4)] {
                let weights = self.bits(vector, shift, 15);
                for c in 0..C {
                    sums[c] = self.dot::<false>(sums[c], weights, x[step * C + c]);
                }
            }
        }
        sums
    }
    /// [`Self::dot`] over several steps of the first strip of each pair with `C` activation rows, `x[steps][C]`. No weight
    /// exceeds `max_weight`.
    #[inline(always)]
    fn dot_steps<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [Self::Ints; C],
        weights: &[Pair<[u8; BYTES]>],
        x: &[[i8; 4]],
        _max_weight: u8,
    ) {
        dot_steps::<Self, SIGNED, C>(self, sums, weights, x);
    }
    /// [`Self::dot`] over four steps of two strips with `C` activation rows, `x[4][C]`.
    #[inline(always)]
    fn dot_pairs<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[Self::Ints; 2]; C],
        weights: &[Pair<[u8; BYTES]>; 4],
        x: &[[i8; 4]],
    ) {
        dot_pairs::<Self, SIGNED, C>(self, sums, weights, x);
    }
    /// Rounds to the nearest integer, ties to even, for |x| < 2^22. The result for NaN is unspecified.
    fn round_to_i32(self, x: Self::Floats) -> Self::Ints;
    /// The bits of |x|; compared as integers, they have the order of the floats.
    fn abs_bits(self, x: Self::Floats) -> Self::Ints;
    fn max_i32(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    fn reduce_max(self, ints: Self::Ints) -> i32;
    /// The low byte of each lane, four lanes per word.
    fn pack_low_bytes(self, ints: Self::Ints) -> [u32; 4];
    fn reduce_add(self, ints: Self::Ints) -> i32;
    fn to_f32(self, ints: Self::Ints) -> Self::Floats;

    fn splat(self, x: f32) -> Self::Floats;
    fn load_f32(self, from: &[f32; LANES]) -> Self::Floats;
    fn store_f32(self, floats: Self::Floats, to: &mut [f32; LANES]);
    fn load_f16(self, from: &[F16Le; LANES]) -> Self::Floats;
    /// Rounds to F16 bits, ties to even.
    fn to_f16(self, floats: Self::Floats) -> [u16; LANES];
    fn load_bf16(self, from: &[Bf16Le; LANES]) -> Self::Floats;
    fn u8_to_f32(self, from: &[u8; LANES]) -> Self::Floats;
    /// The scales of MXFP4: `2^(e - 128)`.
    fn exponents_to_f32(self, from: &[u8; LANES]) -> Self::Floats;
    fn i8_to_f32(self, from: &[i8; LANES]) -> Self::Floats;
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Lane-wise maximum; NaN where `b` is NaN.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Lane-wise minimum; NaN where `b` is NaN.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * 2^n` for integers `n <= 127`; 0 for `n < -126`.
    fn mul_pow2(self, a: Self::Floats, n: Self::Floats) -> Self::Floats;
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// `e^x` with an error of at most 2 ULP. Arguments above 88 are clamped to 88; below -87 the result is 0.
///
/// Two-step range reduction after Cody and Waite (1980), then a Taylor polynomial.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
    const SHIFT: f32 = 12_582_912.0;
    const TERMS: [f32; 6] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];
    let x = lanes.min(lanes.splat(88.0), lanes.max(lanes.splat(-88.0), x));
    // Adding 1.5 * 2^23 rounds to the nearest integer.
    let n = lanes.mul_add(x, lanes.splat(std::f32::consts::LOG2_E), lanes.splat(SHIFT));
    let n = lanes.add(n, lanes.splat(-SHIFT));
    let rest = lanes.mul_add(n, lanes.splat(-0.693_359_4), x);
    let rest = lanes.mul_add(n, lanes.splat(2.121_944_4e-4), rest);
    let mut sum = lanes.splat(1.0 / 5040.0);
    for term in TERMS {
        sum = lanes.mul_add(sum, rest, lanes.splat(term));
    }
    let one_more = lanes.mul_add(sum, rest, lanes.splat(1.0));
    lanes.mul_pow2(one_more, n)
}

/// `cap * tanh(x / cap)`, computed as `cap - 2 cap / (e^(2 x / cap) + 1)`.
#[inline(always)]
pub(crate) fn softcap<L: Lanes>(lanes: L, x: L::Floats, cap: f32) -> L::Floats {
    let power = exp(lanes, lanes.mul(x, lanes.splat(2.0 / cap)));
    let below = lanes.div(lanes.splat(-2.0 * cap), lanes.add(power, lanes.splat(1.0)));
    lanes.add(below, lanes.splat(cap))
}

/// A function that [`Lanes::run`] compiles for each instruction set.
pub(crate) trait WithSimd {
    /// Must be `#[inline(always)]`, as must everything it calls with `lanes`.
    fn with_simd<L: Lanes>(self, lanes: L);
}

/// [`Lanes::dot_two`] step by step.
#[inline(always)]
fn dot_two<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [L::Ints; C],
    weights: [L::Bytes; 2],
    x: &[[[i8; 4]; C]; 2],
) {
    for k in 0..2 {
        for c in 0..C {
            sums[c] = lanes.dot::<SIGNED>(sums[c], weights[k], x[k][c]);
        }
    }
}

/// [`Lanes::dot_steps`] step by step.
#[inline(always)]
fn dot_steps<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [L::Ints; C],
    weights: &[Pair<[u8; BYTES]>],
    x: &[[i8; 4]],
) {
    for (k, weights) in weights.iter().enumerate() {
        let weights = lanes.load_u8(&weights.0[0]);
        for c in 0..C {
            sums[c] = lanes.dot::<SIGNED>(sums[c], weights, x[k * C + c]);
        }
    }
}

/// [`Lanes::dot_pairs`] step by step.
#[inline(always)]
fn dot_pairs<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [[L::Ints; 2]; C],
    weights: &[Pair<[u8; BYTES]>; 4],
    x: &[[i8; 4]],
) {
    for (k, weights) in weights.iter().enumerate() {
        let weights = [lanes.load_u8(&weights.0[0]), lanes.load_u8(&weights.0[1])];
        for c in 0..C {
            for r in 0..2 {
                sums[c][r] = lanes.dot::<SIGNED>(sums[c][r], weights[r], x[k * C + c]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::scalar::Scalar;
    use super::*;

    /// A pseudo-random byte generator.
    fn random(seed: u64) -> impl FnMut() -> u8 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        }
    }

    /// Calls `check` with each instruction set of this CPU.
    fn each(check: impl WithSimd + Copy) {
        Scalar.run(check);
        #[cfg(target_arch = "x86_64")]
        {
            match avx2::Avx2::detect() {
                Some(lanes) => lanes.run(check),
                None => eprintln!("skipped: this CPU has no AVX2"),
            }
            match avx512::Avx512::detect() {
                Some(lanes) => lanes.run(check),
                None => eprintln!("skipped: this CPU has no AVX-512 with VNNI"),
            }
        }
    }

    fn to_bytes<L: Lanes>(lanes: L, bytes: L::Bytes) -> [u8; BYTES] {
        let mut found = [0; BYTES];
        lanes.store_u8(bytes, &mut found);
        found
    }

    fn to_bits<L: Lanes>(lanes: L, floats: L::Floats) -> [u32; LANES] {
        let mut found = [0.0; LANES];
        lanes.store_f32(floats, &mut found);
        found.map(f32::to_bits)
    }

    #[derive(Clone, Copy)]
    struct Bytes;

    impl WithSimd for Bytes {
        fn with_simd<L: Lanes>(self, lanes: L) {
            let mut random = random(1);
            for _ in 0..50 {
                let (a, b): ([u8; BYTES], [u8; BYTES]) =
                    (std::array::from_fn(|_| random()), std::array::from_fn(|_| random()));
                for (shift, mask) in
                    [(0, 255), (0, 15), (4, 15), (6, 3), (2, 3), (7, 1), (-4, 16), (-2, 48), (1, 16)]
                {
                    let expected = to_bytes(Scalar, Scalar.bits(a, shift, mask));
                    assert_eq!(to_bytes(lanes, lanes.bits(lanes.load_u8(&a), shift, mask)), expected);
                }
                for mask in [128, 255, 1] {
                    let found = lanes.flip(lanes.load_u8(&a), mask);
                    assert_eq!(to_bytes(lanes, found), a.map(|a| a ^ mask));
                }
                // Byte `i` of lane `r` is byte `4r + i`.
                let found = to_bytes(lanes, lanes.deinterleave_u8(lanes.load_u8(&a)));
                assert_eq!(found, std::array::from_fn(|at| a[at % 16 * 4 + at / 16]));
                let found = to_bytes(lanes, lanes.deinterleave_u16(lanes.load_u8(&a)));
                assert_eq!(found, std::array::from_fn(|at| a[at % 32 / 2 * 4 + at / 32 * 2 + at % 2]));
                let rows: [[u8; 16]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| random()));
                for (k, found) in lanes.transpose_4x16(rows.each_ref()).into_iter().enumerate() {
                    assert_eq!(
                        to_bytes(lanes, found),
                        std::array::from_fn(|at| rows[at / 4][4 * k + at % 4])
                    );
                }
                let (low, high) = (a.map(|a| a & 15), b.map(|b| b & 3));
                let both = lanes.or(lanes.load_u8(&low), lanes.load_u8(&high));
                assert_eq!(to_bytes(lanes, both), to_bytes(Scalar, Scalar.or(low, high)));
                let table = std::array::from_fn(|i| b[i]);
                let found = lanes.lookup(&table, lanes.load_u8(&low));
                assert_eq!(to_bytes(lanes, found), to_bytes(Scalar, Scalar.lookup(&table, low)));
            }
        }
    }

    #[test]
    fn bytes_are_those_of_scalar_code() {
        each(Bytes);
    }

    #[derive(Clone, Copy)]
    struct Dots;

    impl WithSimd for Dots {
        fn with_simd<L: Lanes>(self, lanes: L) {
            let mut random = random(2);
            for round in 0..50 {
                // Signed weights use all 8 bits, the others at most 6.
                let max_weight = [255u8, 0, 128][round % 3];
                let signed: [[u8; BYTES]; 4] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| if round < 3 { max_weight } else { random() })
                });
                let small = signed.map(|step| step.map(|w| w & 63));
                let mut x = || match round {
                    0 => 127,
                    1 => -127,
                    _ => (random() as i8).max(-127),
                };
                let x: Vec<[i8; 4]> = (0..24).map(|_| std::array::from_fn(|_| x())).collect();
                sums::<L, true>(lanes, &signed, &x);
                sums::<L, false>(lanes, &small, &x);
                for max_weight in [15, 31, 63] {
                    let steps = signed
                        .map(|step| step.map(|w| if round < 3 { w.min(max_weight) } else { w & max_weight }));
                    many::<L>(lanes, &steps, &x, max_weight);
                    two::<L, false>(lanes, &steps, &x, max_weight);
                }
                two::<L, true>(lanes, &signed, &x, 255);
                nibbles(lanes, &signed, &x);
            }
        }
    }

    /// Dot products over four steps of two strips (the second is the first reversed) with six rows, one at a time and
    /// batched.
    fn sums<L: Lanes, const SIGNED: bool>(lanes: L, steps: &[[u8; BYTES]; 4], x: &[[i8; 4]]) {
        let pairs = steps.map(|step| {
            let mut reversed = step;
            reversed.reverse();
            Pair([step, reversed])
        });
        let zero = if SIGNED { 128 } else { 7 };
        let start =
            |c: usize| -> i32 { -zero * (0..4).flat_map(|k| x[k * 6 + c]).map(i32::from).sum::<i32>() };
        let mut together = [[lanes.acc_init::<SIGNED>(0); 2]; 6];
        for (c, sums) in together.iter_mut().enumerate() {
            *sums = [lanes.acc_init::<SIGNED>(start(c)); 2];
        }
        lanes.dot_pairs::<SIGNED, 6>(&mut together, &pairs, x);
        for (c, together) in together.into_iter().enumerate() {
            for (r, together) in together.into_iter().enumerate() {
                let mut sum = lanes.acc_init::<SIGNED>(start(c));
                for k in 0..4 {
                    sum = lanes.dot::<SIGNED>(sum, lanes.load_u8(&pairs[k].0[r]), x[k * 6 + c]);
                }
                let expected: [f32; LANES] = std::array::from_fn(|lane| {
                    let products = (0..16).map(|i| {
                        let w = i32::from(pairs[i / 4].0[r][lane * 4 + i % 4]);
                        (w - zero) * i32::from(x[i / 4 * 6 + c][i % 4])
                    });
                    products.sum::<i32>() as f32
                });
                let expected = expected.map(f32::to_bits);
                assert_eq!(to_bits(lanes, lanes.to_f32(sum)), expected);
                assert_eq!(to_bits(lanes, lanes.to_f32(together)), expected);
            }
        }
    }

    /// Dot products over eight steps of one strip (the four, twice) with three rows.
    fn many<L: Lanes>(lanes: L, steps: &[[u8; BYTES]; 4], x: &[[i8; 4]], max_weight: u8) {
        let eight: Vec<Pair<[u8; BYTES]>> = (0..8).map(|k| Pair([steps[k % 4], [0; BYTES]])).collect();
        for len in 1..=8 {
            let mut sums = [lanes.acc_init::<false>(-3); 3];
            lanes.dot_steps::<false, 3>(&mut sums, &eight[..len], &x[..3 * len], max_weight);
            for c in 0..3 {
                let expected: [f32; LANES] = std::array::from_fn(|lane| {
                    let products = (0..len * 4).map(|i| {
                        let w = i32::from(eight[i / 4].0[0][lane * 4 + i % 4]);
                        w * i32::from(x[i / 4 * 3 + c][i % 4])
                    });
                    (products.sum::<i32>() - 3) as f32
                });
                assert_eq!(to_bits(lanes, lanes.to_f32(sums[c])), expected.map(f32::to_bits));
            }
        }
    }

    /// Minus `zero` times the activations, plus the dot product of two steps.
    fn two<L: Lanes, const SIGNED: bool>(lanes: L, steps: &[[u8; BYTES]; 4], x: &[[i8; 4]], max_weight: u8) {
        let zero = if SIGNED { 128 } else { 32 };
        for at in 0..3 {
            let (weights, x) = ([steps[at], steps[at + 1]], [x[at], x[at + 1]]);
            let start = -zero * x.as_flattened().iter().map(|&x| i32::from(x)).sum::<i32>();
            let loaded = [lanes.load_u8(&weights[0]), lanes.load_u8(&weights[1])];
            let mut sums = [lanes.acc_init::<SIGNED>(start)];
            lanes.dot_two::<SIGNED, 1>(&mut sums, loaded, &[[x[0]], [x[1]]], max_weight);
            let expected: [f32; LANES] = std::array::from_fn(|lane| {
                let products = (0..8).map(|i| {
                    (i32::from(weights[i / 4][lane * 4 + i % 4]) - zero) * i32::from(x[i / 4][i % 4])
                });
                products.sum::<i32>() as f32
            });
            assert_eq!(to_bits(lanes, lanes.to_f32(sums[0])), expected.map(f32::to_bits));
        }
    }

    /// Dot products over one to four vectors of nibbles with three rows.
    fn nibbles<L: Lanes>(lanes: L, vectors: &[[u8; BYTES]; 4], x: &[[i8; 4]]) {
        for len in 1..=4 {
            let starts = [lanes.acc_init::<false>(-3); 3];
            let sums = lanes.dot_nibbles::<3>(starts, &vectors[..len], &x[..6 * len]);
            for c in 0..3 {
                let expected: [f32; LANES] = std::array::from_fn(|lane| {
                    let products = (0..len * 8).map(|i| {
                        let (step, at) = (i / 4, i % 4);
                        let w = vectors[step / 2][lane * 4 + at] >> (step % 2 * 4) & 15;
                        i32::from(w) * i32::from(x[step * 3 + c][at])
                    });
                    (products.sum::<i32>() - 3) as f32
                });
                assert_eq!(to_bits(lanes, lanes.to_f32(sums[c])), expected.map(f32::to_bits));
            }
        }
    }

    #[test]
    fn integer_products_are_exact() {
        each(Dots);
    }

    #[derive(Clone, Copy)]
    struct Numbers;

    impl WithSimd for Numbers {
        fn with_simd<L: Lanes>(self, lanes: L) {
            let mut random = random(3);
            for _ in 0..200 {
                let two = |random: &mut dyn FnMut() -> u8| [random(), random()];
                let halves = std::array::from_fn(|_| F16Le(two(&mut random)));
                let brains = std::array::from_fn(|_| Bf16Le(two(&mut random)));
                let unsigned = std::array::from_fn(|_| random());
                let signed = unsigned.map(|byte| byte as i8);
                let is_nan = |x: &u32| f32::from_bits(*x).is_nan();
                // A signalling NaN may become quiet.
                let same = |found: [u32; LANES], expected: [u32; LANES]| {
                    let each = found.iter().zip(&expected);
                    assert!(
                        each.clone().all(|(a, b)| a == b || is_nan(a) && is_nan(b)),
                        "{found:x?} {expected:x?}"
                    );
                };
                same(to_bits(lanes, lanes.load_f16(&halves)), to_bits(Scalar, Scalar.load_f16(&halves)));
                same(to_bits(lanes, lanes.load_bf16(&brains)), to_bits(Scalar, Scalar.load_bf16(&brains)));
                same(
                    to_bits(lanes, lanes.u8_to_f32(&unsigned)),
                    to_bits(Scalar, Scalar.u8_to_f32(&unsigned)),
                );
                for exponents in [unsigned, unsigned.map(|e| e & 3)] {
                    let expected = to_bits(Scalar, Scalar.exponents_to_f32(&exponents));
                    assert_eq!(to_bits(lanes, lanes.exponents_to_f32(&exponents)), expected);
                }
                same(to_bits(lanes, lanes.i8_to_f32(&signed)), to_bits(Scalar, Scalar.i8_to_f32(&signed)));
                let (a, b) = (Scalar.load_f16(&halves), Scalar.load_bf16(&brains));
                for floats in [a, b] {
                    let (found, expected) = (lanes.to_f16(lanes.load_f32(&floats)), Scalar.to_f16(floats));
                    let same = |i: usize| {
                        found[i] == expected[i] || floats[i].is_nan() && found[i] & 0x7FFF > 0x7C00
                    };
                    assert!((0..LANES).all(same), "{floats:?}: {found:x?} {expected:x?}");
                }
                let (x, y) = (lanes.load_f32(&a), lanes.load_f32(&b));
                same(to_bits(lanes, lanes.max(x, y)), to_bits(Scalar, Scalar.max(a, b)));
                same(to_bits(lanes, lanes.min(x, y)), to_bits(Scalar, Scalar.min(a, b)));
                same(to_bits(lanes, lanes.add(x, y)), to_bits(Scalar, Scalar.add(a, b)));
                same(to_bits(lanes, lanes.mul(x, y)), to_bits(Scalar, Scalar.mul(a, b)));
                same(to_bits(lanes, lanes.div(x, y)), to_bits(Scalar, Scalar.div(a, b)));
            }
        }
    }

    #[test]
    fn numbers_are_those_of_scalar_code() {
        each(Numbers);
    }

    #[derive(Clone, Copy)]
    struct Exp;

    impl WithSimd for Exp {
        fn with_simd<L: Lanes>(self, lanes: L) {
            let of = |x: f32| {
                let mut found = [0.0; LANES];
                lanes.store_f32(exp(lanes, lanes.splat(x)), &mut found);
                found[LANES - 1]
            };
            for i in -87_000..88_000 {
                let x = i as f32 * 1e-3;
                let expected = f64::from(x).exp();
                let error = (f64::from(of(x)) - expected).abs() / expected;
                assert!(error < 2.4e-7, "e^{x}: {} instead of {expected}", of(x));
            }
            assert_eq!(of(0.0), 1.0);
            assert_eq!(of(f32::NEG_INFINITY), 0.0);
            assert_eq!(of(-1e30), 0.0);
            assert_eq!(of(1e30), of(88.0));
            assert!(of(f32::NAN).is_nan());
        }
    }

    #[test]
    fn exponentials_are_right_to_the_last_places() {
        each(Exp);
    }
}
