//! What all quantised formats have in common: groups of 32 small integers.
//!
//! A block is `G` groups of 32 values, and a value of a group is `scale * q + offset` with `q` an
//! `i8`; scale and offset belong to one half of the group (16 values). Kernels build on the same
//! description: with activations of 8 bits a group costs one integer dot product and two
//! floating-point products, whatever the format.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Block, F16Le, Format};

/// One number for each half of each of `G` groups.
pub type Halves<const G: usize> = [[f32; 2]; G];

/// A block of `G` groups of 32 values.
pub trait Groups<const G: usize>: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The format whose tensors consist of such blocks.
    const FORMAT: Format;

    /// Whether values have offsets.
    const OFFSETS: bool;

    /// Whether all integers are at least 0, so that bytes can be read unsigned.
    const UNSIGNED: bool;

    /// Scales and offsets; `wide` turns an F16 into an f32. Without [`Self::OFFSETS`] the latter are 0.
    fn factors(&self, wide: impl Fn(F16Le) -> f32) -> (Halves<G>, Halves<G>);

    /// The integers, in the order of the values.
    fn quants(&self) -> [[i8; 32]; G];
}

/// The values of a block; `N` is `32 * G`.
fn dequantize<B: Groups<G>, const N: usize, const G: usize>(block: &B) -> [f32; N] {
    let (scales, offsets) = block.factors(F16Le::to_f32);
    let quants = block.quants();
    let mut values = [0.0; N];
    // Sixteen under one scale, which the compiler makes vectors of.
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
    const FORMAT: Format = B::FORMAT;

    fn dequantize(&self) -> [f32; 32] {
        dequantize(self)
    }
}

impl<B: Groups<8>> Block<256> for B {
    const FORMAT: Format = B::FORMAT;

    fn dequantize(&self) -> [f32; 256] {
        dequantize(self)
    }
}

/// The nibbles of 16 bytes in the order of their values: all low ones, then all high ones.
pub(crate) fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| bytes[i % 16] >> (i / 16 * 4) & 15)
}

/// Of each of the 32 bytes from `at` on, the bits under `mask` after a shift down.
pub(crate) fn bits(bytes: &[u8], at: usize, shift: usize, mask: u8) -> [u8; 32] {
    std::array::from_fn(|i| bytes[at + i] >> shift & mask)
}

/// One number for each group of 16, times `d`.
pub(crate) fn of_16<T: Copy + Into<f32>>(d: f32, numbers: [T; 16]) -> Halves<8> {
    std::array::from_fn(|g| [d * numbers[2 * g].into(), d * numbers[2 * g + 1].into()])
}

/// One number for each group of 32, times `d`.
pub(crate) fn of_32<T: Copy + Into<f32>>(d: f32, numbers: [T; 8]) -> Halves<8> {
    numbers.map(|number| [d * number.into(); 2])
}

/// The inverse of [`nibbles`].
pub(crate) fn put_nibbles(values: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| values[i] | values[i + 16] << 4)
}

/// The inverse of [`bits`], into bytes whose other bits stay.
pub(crate) fn put_bits(bytes: &mut [u8], at: usize, shift: usize, mask: u8, values: &[u8; 32]) {
    for (byte, value) in bytes[at..at + 32].iter_mut().zip(values) {
        *byte |= (value & mask) << shift;
    }
}

/// The levels of a block's groups, plus `add`, as 8 groups of 32 bytes.
pub(crate) fn codes<const G: usize, const K: usize>(levels: &[[f32; K]; G], add: f32) -> [[u8; 32]; 8] {
    let mut codes = [[0; 32]; 8];
    for (code, level) in codes.as_flattened_mut().iter_mut().zip(levels.as_flattened()) {
        *code = (level + add) as u8;
    }
    codes
}
