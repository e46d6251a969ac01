//! Common representation of all quantised formats: groups of 32 `i8` quants.
//!
//! A block has `G` groups of 32 values, each `scale * q + offset` with `q` an `i8`; scale and offset are constant over
//! half a group (16 values). Kernels use the same representation: with 8-bit activations, a group costs one integer dot
//! product and two floating-point multiplications in every format.

use crate::{Block, BlockBytes, F16Le};

/// One value for each half (16 values) of each of `G` groups.
pub type Halves<const G: usize> = [[f32; 2]; G];

/// A block of `G` groups of 32 values.
pub trait Groups<const G: usize>: BlockBytes {
    /// Whether offsets can be non-zero. All quants are non-negative then.
    const OFFSETS: bool = false;

    /// Scales and offsets, converted by `to_f32`. Without [`Self::OFFSETS`] the offsets are 0.
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<G>, Halves<G>);

    /// The quants, in the order of the values.
    fn quants(&self) -> [[i8; 32]; G];
}

/// Dequantises a block; `N` is `32 * G`.
pub(crate) fn dequantize<B: Groups<G>, const N: usize, const G: usize>(block: &B) -> [f32; N] {
    let (scales, offsets) = block.factors(F16Le::to_f32);
    let quants = block.quants();
    let mut values = [0.0; N];
    // 16 values share a scale, so the compiler vectorises the inner loop.
    for (at, values) in values.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (group, half) = (at / 2, at % 2);
        let (scale, offset) = (scales[group][half], offsets[group][half]);
        let quants = &quants[group].as_chunks::<16>().0[half];
        for (value, &q) in values.iter_mut().zip(quants) {
            let product = scale * f32::from(q);
            *value = if B::OFFSETS { product + offset } else { product };
        }
    }
    values
}

impl<B: Groups<1>> Block<32> for B {
    fn dequantize(&self) -> [f32; 32] {
        dequantize(self)
    }
}

impl<B: Groups<8>> Block<256> for B {
    fn dequantize(&self) -> [f32; 256] {
        dequantize(self)
    }
}

/// The nibbles of 16 bytes in the order of the values: first all low nibbles, then all high ones.
#[inline]
pub(crate) fn unpack_nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut values = [0; 32];
    let (low, high) = values.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    values
}

/// Shifts the 32 bytes from `at` on right by `shift` and masks them.
#[inline]
pub(crate) fn unpack_bits(bytes: &[u8], at: usize, shift: usize, mask: u8) -> [u8; 32] {
    let mut values = [0; 32];
    for (value, byte) in values.iter_mut().zip(&bytes[at..at + 32]) {
        *value = byte >> shift & mask;
    }
    values
}

/// `d` times one factor for each 16 values.
pub(crate) fn scale_16<T: Copy + Into<f32>>(d: f32, factors: [T; 16]) -> Halves<8> {
    std::array::from_fn(|g| [d * factors[2 * g].into(), d * factors[2 * g + 1].into()])
}

/// `d` times one factor for each 32 values.
pub(crate) fn scale_32<T: Copy + Into<f32>>(d: f32, factors: [T; 8]) -> Halves<8> {
    factors.map(|factor| [d * factor.into(); 2])
}

pub(crate) fn pack_nibbles(values: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| values[i] | values[i + 16] << 4)
}

/// The inverse of [`unpack_bits`]; ORs into `bytes`.
pub(crate) fn pack_bits(bytes: &mut [u8], at: usize, shift: usize, mask: u8, values: &[u8; 32]) {
    for (byte, value) in bytes[at..at + 32].iter_mut().zip(values) {
        *byte |= (value & mask) << shift;
    }
}

/// The levels of a block plus `add`, as unsigned bytes in 8 groups of 32.
pub(crate) fn codes<const G: usize, const K: usize>(levels: &[[f32; K]; G], add: f32) -> [[u8; 32]; 8] {
    let mut codes = [[0; 32]; 8];
    for (code, level) in codes.as_flattened_mut().iter_mut().zip(levels.as_flattened()) {
        *code = (level + add) as u8;
    }
    codes
}
