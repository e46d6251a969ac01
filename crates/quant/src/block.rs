//! The [`Block`] trait: plain-old-data block structs that dequantise to `N` values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::*;

/// A block with the file's layout: alignment 1, little-endian, `N` values.
///
/// Dequantisation follows the operation order of ggml's `dequantize_row_*` without fused multiply-add, so the results
/// are bit-exact with ggml's.
pub trait Block<const N: usize>: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The format that this block struct implements.
    const FORMAT: Format;

    /// Dequantises the block.
    fn dequantize(&self) -> [f32; N];

    /// Casts `bytes` to a slice of blocks without copying.
    ///
    /// # Panics
    /// If `bytes` is not a whole number of blocks.
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
    /// Dequantises `bytes`, whole blocks of this format, to `out`.
    ///
    /// # Panics
    /// If `bytes.len()` is not [`bytes_for(out.len())`](Format::bytes_for).
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
            Format::MXFP4 => dequantize::<BlockMXFP4, _>(bytes, out),
            Format::NVFP4 => dequantize::<BlockNVFP4, _>(bytes, out),
            Format::IQ3_XXS => dequantize::<BlockIQ3_XXS, _>(bytes, out),
            Format::IQ3_S => dequantize::<BlockIQ3_S, _>(bytes, out),
            Format::IQ2_XXS => dequantize::<BlockIQ2_XXS, _>(bytes, out),
            Format::IQ2_XS => dequantize::<BlockIQ2_XS, _>(bytes, out),
            Format::IQ2_S => dequantize::<BlockIQ2_S, _>(bytes, out),
            Format::IQ1_S => dequantize::<BlockIQ1_S, _>(bytes, out),
            Format::IQ1_M => dequantize::<BlockIQ1_M, _>(bytes, out),
            Format::TQ1_0 => dequantize::<BlockTQ1_0, _>(bytes, out),
            Format::TQ2_0 => dequantize::<BlockTQ2_0, _>(bytes, out),
        }
    }
}

fn dequantize<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in B::slice(bytes).iter().zip(out.as_chunks_mut().0) {
        *values = block.dequantize();
    }
}
