//! Common representation of the IQ formats that store vectors of a grid: a code per value, a small scale per group.
//!
//! A group of 16 or 32 values has the scale `d * UNIT * (2 s + 1)`; a value is the scale times the quant of its code. Codes
//! are the same as indices of the grid's values, plus a bit for the sign or the shift.

use crate::{BlockBytes, F16Le, Groups, Halves};

/// A block of 256 values of a grid.
pub trait GridBlock: BlockBytes {
    /// The quant of each code; unused codes are 0.
    const QUANTS: [i8; 16];

    /// The factor of all scales, a power of two.
    const UNIT: f32;

    /// Values per scale: 16 or 32.
    const GROUP: usize;

    /// The scale of the block.
    fn d(&self) -> F16Le;

    /// The 3- or 4-bit scale `s` of each 16 values.
    fn scales(&self) -> [u8; 16];

    /// The code of each value.
    fn codes(&self) -> [[u8; 32]; 8];
}

impl<B: GridBlock> Groups<8> for B {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        let (d, scales) = (to_f32(self.d()), self.scales());
        // Exact: `d` has 11 bits, the scale 5.
        let scale = |s: u8| d * (B::UNIT * f32::from(2 * s + 1));
        (std::array::from_fn(|g| [scale(scales[2 * g]), scale(scales[2 * g + 1])]), [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        self.codes().map(|group| group.map(|code| B::QUANTS[usize::from(code)]))
    }
}

/// Codes of 32 vectors of 8 values, or 64 of 4, given as little-endian words of `N` bytes.
pub(crate) fn vector_codes<const N: usize>(vectors: impl Iterator<Item = [u8; N]>) -> [[u8; 32]; 8] {
    let mut codes = [[0; 32]; 8];
    for (to, vector) in codes.as_flattened_mut().as_chunks_mut().0.iter_mut().zip(vectors) {
        *to = vector;
    }
    codes
}

/// The nibbles of `bytes`, the low one of each byte first.
pub(crate) fn nibbles<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i / 2] >> (i % 2 * 4) & 15)
}

/// The inverse of [`nibbles`].
pub(crate) fn join_nibbles<const N: usize>(nibbles: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| nibbles[2 * i] | nibbles[2 * i + 1] << 4)
}

pub(crate) fn twice(elements: [u8; 8]) -> [u8; 16] {
    std::array::from_fn(|i| elements[i / 2])
}
