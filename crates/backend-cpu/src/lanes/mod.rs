//! Vectors of 16 lanes, one for each row of a strip: what kernels are written in.
//!
//! A kernel is written once, over [`Lanes`]; each instruction set says in one file how it does these few
//! things. A value of a type that is `Lanes` is the proof that the processor has the instructions.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod plain;

use quant::{Bf16Le, F16Le};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Bytes of a vector: four for each lane.
pub(crate) const BYTES: usize = 4 * LANES;

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

    /// Reads bytes.
    fn bytes(self, from: &[u8; BYTES]) -> Self::Bytes;
    /// Writes bytes.
    fn put_bytes(self, bytes: Self::Bytes, to: &mut [u8; BYTES]);
    /// Of each byte the bits under `mask` after a shift down.
    fn bits(self, bytes: Self::Bytes, shift: u32, mask: u8) -> Self::Bytes;
    /// `low | high << up`, where no bit crosses into the next byte.
    fn join(self, low: Self::Bytes, high: Self::Bytes, up: u32) -> Self::Bytes;
    /// The bytes of `table` at the indices `nibbles`.
    fn lookup(self, table: &[u8; 16], nibbles: Self::Bytes) -> Self::Bytes;

    /// Where the sum of a group of products begins: at `start`, which is minus the zero point of the weights
    /// times the sum of the activations. `SIGNED` says that the zero point is 128.
    fn start<const SIGNED: bool>(self, start: i32) -> Self::Ints;
    /// Adds the four products of each lane's `weights` and `x`, to a sum that began with [`Self::start`].
    fn dot<const SIGNED: bool>(self, sum: Self::Ints, weights: Self::Bytes, x: [i8; 4]) -> Self::Ints;
    /// [`Self::dot`] for four steps of two strips with `C` rows of activations, `x[4][C]`.
    #[inline(always)]
    fn dot_pairs<const SIGNED: bool, const C: usize>(
        self,
        sums: &mut [[Self::Ints; 2]; C],
        weights: &[[[u8; BYTES]; 2]; 4],
        x: &[[i8; 4]],
    ) {
        dot_pairs::<Self, SIGNED, C>(self, sums, weights, x);
    }
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
    /// `2^x` of integers from -126 to 127.
    fn exp2(self, x: Self::Floats) -> Self::Floats;
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
    lanes.mul(one_more, lanes.exp2(n))
}

/// What is to be compiled for an instruction set.
pub(crate) trait Work {
    /// Does it; `#[inline(always)]`, as everything below that uses `lanes`.
    fn work<L: Lanes>(self, lanes: L);
}

/// [`Lanes::dot_pairs`] one after the other.
#[inline(always)]
fn dot_pairs<L: Lanes, const SIGNED: bool, const C: usize>(
    lanes: L,
    sums: &mut [[L::Ints; 2]; C],
    weights: &[[[u8; BYTES]; 2]; 4],
    x: &[[i8; 4]],
) {
    for (k, weights) in weights.iter().enumerate() {
        let weights = [lanes.bytes(&weights[0]), lanes.bytes(&weights[1])];
        for c in 0..C {
            for r in 0..2 {
                sums[c][r] = lanes.dot::<SIGNED>(sums[c][r], weights[r], x[k * C + c]);
            }
        }
    }
}
