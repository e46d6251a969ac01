//! Block structs: plain old data with the file's layout, which dequantises to `N` values.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Format;

/// The bytes of a block as in the file: alignment 1, little-endian.
pub trait BlockBytes: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The format that this block struct implements.
    const FORMAT: Format;
}

macro_rules! blocks {
    ($($format:ident: $name:ident { $($field:ident: $type:ty),+ })+) => {$(
        #[doc = concat!("A block of ", stringify!($format), ".")]
        #[derive(Clone, Copy, Debug)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
        #[derive(zerocopy::KnownLayout, zerocopy::Unaligned)]
        #[repr(C)]
        #[expect(missing_docs, reason = "the table at the head of the file describes the fields")]
        pub struct $name {
            $(pub $field: $type,)+
        }

        impl crate::BlockBytes for $name {
            const FORMAT: crate::Format = crate::Format::$format;
        }
    )+};
}
pub(crate) use blocks;

/// A block of `N` values.
///
/// Dequantisation follows the operation order of ggml's `dequantize_row_*` without fused multiply-add, so the results
/// are bit-exact with ggml's.
pub trait Block<const N: usize>: BlockBytes {
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

pub(crate) fn dequantize<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    for (block, values) in B::slice(bytes).iter().zip(out.as_chunks_mut().0) {
        *values = block.dequantize();
    }
}
