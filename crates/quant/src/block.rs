//! What every block struct is: plain bytes of a known size that turn into `N` values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::*;

/// A block as it lies in a file: alignment 1, numbers little-endian, `N` values.
///
/// Products are taken in the order of ggml's `dequantize_row_*` and never fused with a sum, so that
/// the values agree with it bit for bit.
pub trait Block<const N: usize>: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The format whose tensors consist of such blocks.
    const FORMAT: Format;

    /// The values of this block.
    fn dequantize(&self) -> [f32; N];

    /// The blocks that `bytes` consist of, without a copy.
    ///
    /// # Panics
    /// When `bytes` are not whole blocks.
    fn slice(bytes: &[u8]) -> &[Self] {
        const {
            assert!(size_of::<Self>() == Self::FORMAT.block_bytes());
            assert!(N == Self::FORMAT.block_len());
        }
        match <[Self]>::ref_from_bytes(bytes) {
            Ok(blocks) => blocks,
            Err(_) => panic!("{} bytes are not whole blocks of {}", bytes.len(), Self::FORMAT),
        }
    }
}

impl Format {
    /// Writes the values of `bytes`, which are whole blocks of this format, to `out`.
    ///
    /// # Panics
    /// When `bytes.len()` is not [`bytes_for(out.len())`](Format::bytes_for).
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(
            Some(bytes.len() as u64),
            self.bytes_for(out.len() as u64),
            "bytes given for {} values of {self}",
            out.len()
        );
        match self {
            Format::F32 => dequantize::<F32Le, _>(bytes, out),
            Format::F16 => dequantize::<F16Le, _>(bytes, out),
            Format::BF16 => dequantize::<Bf16Le, _>(bytes, out),
            Format::Q4_0 => dequantize::<BlockQ4_0, _>(bytes, out),
            Format::Q4_1 => dequantize::<BlockQ4_1, _>(bytes, out),
            Format::Q5_0 => dequantize::<BlockQ5_0, _>(bytes, out),
            Format::Q5_1 => dequantize::<BlockQ5_1, _>(bytes, out),
            Format::Q8_0 => dequantize::<BlockQ8_0, _>(bytes, out),
            Format::Q2_K => dequantize::<BlockQ2_K, _>(bytes, out),
            Format::Q3_K => dequantize::<BlockQ3_K, _>(bytes, out),
            Format::Q4_K => dequantize::<BlockQ4_K, _>(bytes, out),
            Format::Q5_K => dequantize::<BlockQ5_K, _>(bytes, out),
            Format::Q6_K => dequantize::<BlockQ6_K, _>(bytes, out),
            Format::IQ4_NL => dequantize::<BlockIQ4_NL, _>(bytes, out),
            Format::IQ4_XS => dequantize::<BlockIQ4_XS, _>(bytes, out),
        }
    }
}

fn dequantize<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in B::slice(bytes).iter().zip(out.as_chunks_mut().0) {
        *values = block.dequantize();
    }
}
