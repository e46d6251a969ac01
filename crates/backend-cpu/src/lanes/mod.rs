//! Vectors of 16 lanes, one for each row of a strip: what kernels are written in.
//!
//! A kernel is written once, over [`Lanes`]; each instruction set says in one file how it does these few
//! things. A value of a type that is `Lanes` is the proof that the processor has the instructions.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod plain;
#[cfg(target_arch = "x86_64")]
pub(crate) mod rates;

use quant::{Bf16Le, F16Le};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Bytes of a vector: four for each lane.
pub(crate) const BYTES: usize = 4 * LANES;

/// What two strips have beside each other, on cache lines of their own: a vector that lies on two lines is
/// read as two.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Pair<T>(pub(crate) [T; 2]);

/// Sixteen lanes of an instruction set.
///
/// Floats are multiplied and added in the order the kernel says; whether [`Lanes::mul_add`] rounds between
/// is up to the instruction set.
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    /// The proof, if this processor has the instructions.
    fn detect() -> Option<Self>;
    /// Does `work` in a function that is compiled for the instruction set.
    fn run<W: Work>(self, work: W);

    /// Four bytes a lane.
    type Bytes: Copy;
    /// An `i32` a lane.
    type Ints: Copy;
    /// An `f32` a lane.
    type Floats: Copy;

    /// Rows of activations that one tile of a matrix product takes, as many as fit into registers: 6 with
    /// two strips, 3 with one, or 1.
    const TILE: usize;

    /// Asks for the cache line at `at`, which need not be anywhere, into the second-level cache.
    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}
    /// The same, into the first-level cache.
    #[inline(always)]
    fn prefetch_near(self, _at: *const u8) {}
    /// Reads bytes.
    fn bytes(self, from: &[u8; BYTES]) -> Self::Bytes;
    /// Writes bytes.
    fn put_bytes(self, bytes: Self::Bytes, to: &mut [u8; BYTES]);
    /// Of each byte the bits under `mask` after a shift down, or up where `down` is negative.
    fn bits(self, bytes: Self::Bytes, down: i32, mask: u8) -> Self::Bytes;
    /// `a | b`.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Of each byte the bits under `mask` turned over.
    fn flip(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// Of 16 bytes of each row, four of all rows at a time: lane `r` of vector `k` is bytes `4k..4k + 4` of row `r`.
    fn across(self, rows: [&[u8; 16]; LANES]) -> [Self::Bytes; 4];
    /// The first bytes of all lanes, then the second, the third and the fourth ones.
    fn bytes_apart(self, bytes: Self::Bytes) -> Self::Bytes;
    /// The first two bytes of all lanes, then the last two.
    fn halves_apart(self, bytes: Self::Bytes) -> Self::Bytes;
    /// The bytes of `table` at the indices `nibbles`.
    fn lookup(self, table: &[u8; 16], nibbles: Self::Bytes) -> Self::Bytes;

    /// Where the sum of a group of products begins: at `start`, which is minus the zero point of the weights
    /// times the sum of the activations. `SIGNED` says that the zero point is 128.
    fn start<const SIGNED: bool>(self, start: i32) -> Self::Ints;
    /// Zeros.
    #[inline(always)]
    fn zero(self) -> Self::Ints {
        self.start::<false>(0)
    }
    /// `a + b`.
    fn plus(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Adds the four products of each lane's `weights` and `x`, to a sum that began with [`Self::start`].
    fn dot<const SIGNED: bool>(self, sum: Self::Ints, weights: Self::Bytes, x: [i8; 4]) -> Self::Ints;
    /// [`Self::dot`] of the low halves of bytes and `x[0]`, and of the high halves and `x[1]`; the sums of
    /// both are [`Self::join`]ed at last.
    #[inline(always)]
    fn dot_halves(
        self,
        [low, high]: [Self::Ints; 2],
        weights: Self::Bytes,
        x: [[i8; 4]; 2],
    ) -> [Self::Ints; 2] {
        let low = self.dot::<false>(low, self.bits(weights, 0, 15), x[0]);
        [self.dot::<false>(low, self.bits(weights, 4, 15), x[1]), high]
    }
    /// The sum of both of [`Self::dot_halves`].
    #[inline(always)]
    fn join(self, [low, _]: [Self::Ints; 2]) -> Self::Ints {
        low
    }
    /// [`Self::dot`] for the first strips of some steps with `C` rows of activations, `x[steps][C]`. Weights are
    /// at most `most`.
    #[inline(always)]
    fn dot_steps<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [Self::Ints; C],
        weights: &[Pair<[u8; BYTES]>],
        x: &[[i8; 4]],
        _most: u8,
    ) {
        dot_steps::<Self, SIGNED, C>(self, sums, weights, x);
    }
    /// [`Self::dot`] for four steps of two strips with `C` rows of activations, `x[4][C]`.
    #[inline(always)]
    fn dot_pairs<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[Self::Ints; 2]; C],
        weights: &[Pair<[u8; BYTES]>; 4],
        x: &[[i8; 4]],
    ) {
        dot_pairs::<Self, SIGNED, C>(self, sums, weights, x);
    }
    /// The nearest integers, of ties the even ones, of numbers below 2^22; of what is not a number, anything.
    fn nearest(self, x: Self::Floats) -> Self::Ints;
    /// The bits of floats without their signs: the larger the float, the larger the integer.
    fn magnitudes(self, x: Self::Floats) -> Self::Ints;
    /// The larger of each two.
    fn larger(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// The largest of all lanes.
    fn largest(self, ints: Self::Ints) -> i32;
    /// The lowest bytes, four lanes to a word.
    fn low_bytes(self, ints: Self::Ints) -> [u32; 4];
    /// The sum of all lanes.
    fn total(self, ints: Self::Ints) -> i32;
    /// As floats, exactly.
    fn to_floats(self, ints: Self::Ints) -> Self::Floats;

    /// One float in every lane.
    fn splat(self, x: f32) -> Self::Floats;
    /// Reads floats.
    fn floats(self, from: &[f32; LANES]) -> Self::Floats;
    /// Writes floats.
    fn put(self, floats: Self::Floats, to: &mut [f32; LANES]);
    /// Widens F16.
    fn halves(self, from: &[F16Le; LANES]) -> Self::Floats;
    /// The bits of the nearest F16, of ties the even ones.
    fn to_halves(self, floats: Self::Floats) -> [u16; LANES];
    /// Widens BF16.
    fn brains(self, from: &[Bf16Le; LANES]) -> Self::Floats;
    /// Widens unsigned bytes.
    fn unsigned(self, from: &[u8; LANES]) -> Self::Floats;
    /// Widens signed bytes.
    fn signed(self, from: &[i8; LANES]) -> Self::Floats;
    /// `a * b`.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a + b`.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a / b`.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The larger of each two; NaN where `b` is.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The smaller of each two; NaN where `b` is.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * 2^n` of integers `n` up to 127; 0 for those below -126.
    fn scale(self, a: Self::Floats, n: Self::Floats) -> Self::Floats;
    /// `a * b + c`.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// `e^x`, within 2 units in the last place; from 88 on that of 88, and 0 below -87.
///
/// Range reduction in two steps after Cody and Waite (1980), and the first terms of the series.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
    const SHIFT: f32 = 12_582_912.0;
    const TERMS: [f32; 6] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0];
    let x = lanes.min(lanes.splat(88.0), lanes.max(lanes.splat(-88.0), x));
    // To the nearest integer by what fits into the mantissa.
    let n = lanes.mul_add(x, lanes.splat(std::f32::consts::LOG2_E), lanes.splat(SHIFT));
    let n = lanes.add(n, lanes.splat(-SHIFT));
    let rest = lanes.mul_add(n, lanes.splat(-0.693_359_4), x);
    let rest = lanes.mul_add(n, lanes.splat(2.121_944_4e-4), rest);
    let mut sum = lanes.splat(1.0 / 5040.0);
    for term in TERMS {
        sum = lanes.mul_add(sum, rest, lanes.splat(term));
    }
    let one_more = lanes.mul_add(sum, rest, lanes.splat(1.0));
    lanes.scale(one_more, n)
}

/// What is to be compiled for an instruction set.
pub(crate) trait Work {
    /// Does it; `#[inline(always)]`, as everything below that uses `lanes`.
    fn work<L: Lanes>(self, lanes: L);
}

/// [`Lanes::dot_steps`] one after the other.
#[inline(always)]
fn dot_steps<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [L::Ints; C],
    weights: &[Pair<[u8; BYTES]>],
    x: &[[i8; 4]],
) {
    for (k, weights) in weights.iter().enumerate() {
        let weights = lanes.bytes(&weights.0[0]);
        for c in 0..C {
            sums[c] = lanes.dot::<SIGNED>(sums[c], weights, x[k * C + c]);
        }
    }
}

/// [`Lanes::dot_pairs`] one after the other.
#[inline(always)]
fn dot_pairs<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [[L::Ints; 2]; C],
    weights: &[Pair<[u8; BYTES]>; 4],
    x: &[[i8; 4]],
) {
    for (k, weights) in weights.iter().enumerate() {
        let weights = [lanes.bytes(&weights.0[0]), lanes.bytes(&weights.0[1])];
        for c in 0..C {
            for r in 0..2 {
                sums[c][r] = lanes.dot::<SIGNED>(sums[c][r], weights[r], x[k * C + c]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain::Plain;
    use super::*;

    /// Bytes that look random.
    fn random(seed: u64) -> impl FnMut() -> u8 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        }
    }

    /// Calls `check` with the proof of each vector instruction set of this processor.
    fn each(check: impl Work + Copy) {
        Plain.run(check);
        #[cfg(target_arch = "x86_64")]
        {
            match avx2::Avx2::detect() {
                Some(lanes) => lanes.run(check),
                None => eprintln!("skipped: this processor has no AVX2"),
            }
            match avx512::Avx512::detect() {
                Some(lanes) => lanes.run(check),
                None => eprintln!("skipped: this processor has no AVX-512 with VNNI"),
            }
        }
    }

    fn bytes_of<L: Lanes>(lanes: L, bytes: L::Bytes) -> [u8; BYTES] {
        let mut found = [0; BYTES];
        lanes.put_bytes(bytes, &mut found);
        found
    }

    fn floats_of<L: Lanes>(lanes: L, floats: L::Floats) -> [u32; LANES] {
        let mut found = [0.0; LANES];
        lanes.put(floats, &mut found);
        found.map(f32::to_bits)
    }

    #[derive(Clone, Copy)]
    struct Bytes;

    impl Work for Bytes {
        fn work<L: Lanes>(self, lanes: L) {
            let mut random = random(1);
            for _ in 0..50 {
                let (a, b): ([u8; BYTES], [u8; BYTES]) =
                    (std::array::from_fn(|_| random()), std::array::from_fn(|_| random()));
                for (shift, mask) in
                    [(0, 255), (0, 15), (4, 15), (6, 3), (2, 3), (7, 1), (-4, 16), (-2, 48), (1, 16)]
                {
                    let expected = bytes_of(Plain, Plain.bits(a, shift, mask));
                    assert_eq!(bytes_of(lanes, lanes.bits(lanes.bytes(&a), shift, mask)), expected);
                }
                for mask in [128, 255, 1] {
                    let found = lanes.flip(lanes.bytes(&a), mask);
                    assert_eq!(bytes_of(lanes, found), a.map(|a| a ^ mask));
                }
                // Byte `i` of lane `r` is byte `4r + i`.
                let found = bytes_of(lanes, lanes.bytes_apart(lanes.bytes(&a)));
                assert_eq!(found, std::array::from_fn(|at| a[at % 16 * 4 + at / 16]));
                let found = bytes_of(lanes, lanes.halves_apart(lanes.bytes(&a)));
                assert_eq!(found, std::array::from_fn(|at| a[at % 32 / 2 * 4 + at / 32 * 2 + at % 2]));
                let rows: [[u8; 16]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| random()));
                for (k, found) in lanes.across(rows.each_ref()).into_iter().enumerate() {
                    assert_eq!(
                        bytes_of(lanes, found),
                        std::array::from_fn(|at| rows[at / 4][4 * k + at % 4])
                    );
                }
                let (low, high) = (a.map(|a| a & 15), b.map(|b| b & 3));
                let both = lanes.or(lanes.bytes(&low), lanes.bytes(&high));
                assert_eq!(bytes_of(lanes, both), bytes_of(Plain, Plain.or(low, high)));
                let table = std::array::from_fn(|i| b[i]);
                let found = lanes.lookup(&table, lanes.bytes(&low));
                assert_eq!(bytes_of(lanes, found), bytes_of(Plain, Plain.lookup(&table, low)));
            }
        }
    }

    #[test]
    fn bytes_are_those_of_plain_rust() {
        each(Bytes);
    }

    #[derive(Clone, Copy)]
    struct Dots;

    impl Work for Dots {
        fn work<L: Lanes>(self, lanes: L) {
            let mut random = random(2);
            for round in 0..50 {
                // All that a byte can be where numbers are signed, else what 6 bits can be.
                let most = [255u8, 0, 128][round % 3];
                let signed: [[u8; BYTES]; 4] =
                    std::array::from_fn(|_| std::array::from_fn(|_| if round < 3 { most } else { random() }));
                let small = signed.map(|step| step.map(|w| w & 63));
                let mut x = || match round {
                    0 => 127,
                    1 => -127,
                    _ => (random() as i8).max(-127),
                };
                let x: Vec<[i8; 4]> = (0..24).map(|_| std::array::from_fn(|_| x())).collect();
                sums::<L, true>(lanes, &signed, &x);
                sums::<L, false>(lanes, &small, &x);
                for most in [15, 31, 63] {
                    let steps =
                        signed.map(|step| step.map(|w| if round < 3 { w.min(most) } else { w & most }));
                    many::<L>(lanes, &steps, &x, most);
                }
            }
        }
    }

    /// Sums of four steps of two strips (the second is the first reversed) with six rows, one by one and
    /// together.
    fn sums<L: Lanes, const SIGNED: bool>(lanes: L, steps: &[[u8; BYTES]; 4], x: &[[i8; 4]]) {
        let pairs = steps.map(|step| {
            let mut reversed = step;
            reversed.reverse();
            Pair([step, reversed])
        });
        let zero = if SIGNED { 128 } else { 7 };
        let start =
            |c: usize| -> i32 { -zero * (0..4).flat_map(|k| x[k * 6 + c]).map(i32::from).sum::<i32>() };
        let mut together = [[lanes.start::<SIGNED>(0); 2]; 6];
        for (c, sums) in together.iter_mut().enumerate() {
            *sums = [lanes.start::<SIGNED>(start(c)); 2];
        }
        lanes.dot_pairs::<SIGNED, 6>(&mut together, &pairs, x);
        for (c, together) in together.into_iter().enumerate() {
            for (r, together) in together.into_iter().enumerate() {
                let mut sum = lanes.start::<SIGNED>(start(c));
                for k in 0..4 {
                    sum = lanes.dot::<SIGNED>(sum, lanes.bytes(&pairs[k].0[r]), x[k * 6 + c]);
                }
                let expected: [f32; LANES] = std::array::from_fn(|lane| {
                    let products = (0..16).map(|i| {
                        let w = i32::from(pairs[i / 4].0[r][lane * 4 + i % 4]);
                        (w - zero) * i32::from(x[i / 4 * 6 + c][i % 4])
                    });
                    products.sum::<i32>() as f32
                });
                let expected = expected.map(f32::to_bits);
                assert_eq!(floats_of(lanes, lanes.to_floats(sum)), expected);
                assert_eq!(floats_of(lanes, lanes.to_floats(together)), expected);
            }
        }
    }

    /// Sums of eight steps of one strip (the four, and these again) with three rows.
    fn many<L: Lanes>(lanes: L, steps: &[[u8; BYTES]; 4], x: &[[i8; 4]], most: u8) {
        let eight: Vec<Pair<[u8; BYTES]>> = (0..8).map(|k| Pair([steps[k % 4], [0; BYTES]])).collect();
        for len in 1..=8 {
            let mut sums = [lanes.start::<false>(-3); 3];
            lanes.dot_steps::<false, 3>(&mut sums, &eight[..len], &x[..3 * len], most);
            for c in 0..3 {
                let expected: [f32; LANES] = std::array::from_fn(|lane| {
                    let products = (0..len * 4).map(|i| {
                        let w = i32::from(eight[i / 4].0[0][lane * 4 + i % 4]);
                        w * i32::from(x[i / 4 * 3 + c][i % 4])
                    });
                    (products.sum::<i32>() - 3) as f32
                });
                assert_eq!(floats_of(lanes, lanes.to_floats(sums[c])), expected.map(f32::to_bits));
            }
        }
    }

    #[test]
    fn integer_products_are_exact() {
        each(Dots);
    }

    #[derive(Clone, Copy)]
    struct Numbers;

    impl Work for Numbers {
        fn work<L: Lanes>(self, lanes: L) {
            let mut random = random(3);
            for _ in 0..200 {
                let two = |random: &mut dyn FnMut() -> u8| [random(), random()];
                let halves = std::array::from_fn(|_| F16Le(two(&mut random)));
                let brains = std::array::from_fn(|_| Bf16Le(two(&mut random)));
                let unsigned = std::array::from_fn(|_| random());
                let signed = unsigned.map(|byte| byte as i8);
                let is_nan = |x: &u32| f32::from_bits(*x).is_nan();
                // A NaN may become quiet.
                let same = |found: [u32; LANES], expected: [u32; LANES]| {
                    let each = found.iter().zip(&expected);
                    assert!(
                        each.clone().all(|(a, b)| a == b || is_nan(a) && is_nan(b)),
                        "{found:x?} {expected:x?}"
                    );
                };
                same(floats_of(lanes, lanes.halves(&halves)), floats_of(Plain, Plain.halves(&halves)));
                same(floats_of(lanes, lanes.brains(&brains)), floats_of(Plain, Plain.brains(&brains)));
                same(
                    floats_of(lanes, lanes.unsigned(&unsigned)),
                    floats_of(Plain, Plain.unsigned(&unsigned)),
                );
                same(floats_of(lanes, lanes.signed(&signed)), floats_of(Plain, Plain.signed(&signed)));
                let (a, b) = (Plain.halves(&halves), Plain.brains(&brains));
                for floats in [a, b] {
                    let (found, expected) = (lanes.to_halves(lanes.floats(&floats)), Plain.to_halves(floats));
                    let same = |i: usize| {
                        found[i] == expected[i] || floats[i].is_nan() && found[i] & 0x7FFF > 0x7C00
                    };
                    assert!((0..LANES).all(same), "{floats:?}: {found:x?} {expected:x?}");
                }
                let (x, y) = (lanes.floats(&a), lanes.floats(&b));
                same(floats_of(lanes, lanes.max(x, y)), floats_of(Plain, Plain.max(a, b)));
                same(floats_of(lanes, lanes.min(x, y)), floats_of(Plain, Plain.min(a, b)));
                same(floats_of(lanes, lanes.add(x, y)), floats_of(Plain, Plain.add(a, b)));
                same(floats_of(lanes, lanes.mul(x, y)), floats_of(Plain, Plain.mul(a, b)));
                same(floats_of(lanes, lanes.div(x, y)), floats_of(Plain, Plain.div(a, b)));
            }
        }
    }

    #[test]
    fn numbers_are_those_of_plain_rust() {
        each(Numbers);
    }

    #[derive(Clone, Copy)]
    struct Exp;

    impl Work for Exp {
        fn work<L: Lanes>(self, lanes: L) {
            let of = |x: f32| {
                let mut found = [0.0; LANES];
                lanes.put(exp(lanes, lanes.splat(x)), &mut found);
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
