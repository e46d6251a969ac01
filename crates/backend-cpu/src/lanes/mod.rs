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
    /// `a * b + c`.
    fn mul_add(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
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
