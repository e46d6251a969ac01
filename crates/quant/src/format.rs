//! Tensor formats and their GGUF type ids.

use std::fmt;

/// Passes the table of formats to a macro: name, GGUF type id, values and bytes per block, struct.
macro_rules! formats {
    ($then:ident) => {
        $then! {
            float F32 = 0, 1 in 4: F32Le;
            float F16 = 1, 1 in 2: F16Le;
            float BF16 = 30, 1 in 2: Bf16Le;
            block Q4_0 = 2, 32 in 18: BlockQ4_0;
            block Q4_1 = 3, 32 in 20: BlockQ4_1;
            block Q5_0 = 6, 32 in 22: BlockQ5_0;
            block Q5_1 = 7, 32 in 24: BlockQ5_1;
            block Q8_0 = 8, 32 in 34: BlockQ8_0;
            block Q2_K = 10, 256 in 84: BlockQ2_K;
            block Q3_K = 11, 256 in 110: BlockQ3_K;
            block Q4_K = 12, 256 in 144: BlockQ4_K;
            block Q5_K = 13, 256 in 176: BlockQ5_K;
            block Q6_K = 14, 256 in 210: BlockQ6_K;
            block IQ4_NL = 20, 32 in 18: BlockIQ4_NL;
            block IQ4_XS = 23, 256 in 136: BlockIQ4_XS;
            block MXFP4 = 39, 32 in 17: BlockMXFP4;
            block NVFP4 = 40, 64 in 36: BlockNVFP4;
            block IQ3_XXS = 18, 256 in 98: BlockIQ3_XXS;
            block IQ3_S = 21, 256 in 110: BlockIQ3_S;
            block IQ2_XXS = 16, 256 in 66: BlockIQ2_XXS;
            block IQ2_XS = 17, 256 in 74: BlockIQ2_XS;
            block IQ2_S = 22, 256 in 82: BlockIQ2_S;
            block IQ1_S = 19, 256 in 50: BlockIQ1_S;
            block IQ1_M = 29, 256 in 56: BlockIQ1_M;
            block TQ1_0 = 34, 256 in 54: BlockTQ1_0;
            block TQ2_0 = 35, 256 in 66: BlockTQ2_0;
        }
    };
}
pub(crate) use formats;

macro_rules! define {
    ($($kind:ident $format:ident = $id:literal, $len:literal in $bytes:literal: $block:ident;)+) => {
        /// The storage format of a tensor. Names and ids are ggml's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(non_camel_case_types, reason = "the names every user knows")]
        #[expect(missing_docs, reason = "the module of each format has its byte layout")]
        pub enum Format {
            $($format,)+
        }

        /// Per format, in the order of the enum: GGUF type id, name, values per block, bytes per block.
        const TABLE: &[(u32, &str, usize, usize)] = &[$(($id, stringify!($format), $len, $bytes),)+];

        impl Format {
            /// Every format, in the order of the enum.
            pub const ALL: [Format; TABLE.len()] = [$(Format::$format,)+];
        }
    };
}

formats!(define);

/// A GGUF tensor type without a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tensor type {id}{} is not supported; supported types: {}",
    name.map(|name| format!(" ({name})")).unwrap_or_default(), Format::ALL.map(Format::name).join(", ")
)]
pub struct UnsupportedFormat {
    /// The type id.
    pub id: u32,
    /// ggml's name of the type, if known.
    pub name: Option<&'static str>,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Format {
    /// The format with GGUF type id `id`.
    pub fn from_id(id: u32) -> Result<Format, UnsupportedFormat> {
        let known = Format::ALL.into_iter().find(|format| format.id() == id);
        known.ok_or(UnsupportedFormat { id, name: unsupported_name(id) })
    }

    /// The GGUF type id.
    pub fn id(self) -> u32 {
        TABLE[self as usize].0
    }

    /// ggml's name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Values per block; row lengths are multiples of it.
    pub const fn block_len(self) -> usize {
        TABLE[self as usize].2
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        TABLE[self as usize].3
    }

    /// Size in bytes of `values` values; `None` if they are not whole blocks or the size overflows.
    pub fn bytes_for(self, values: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !values.is_multiple_of(block) {
            return None;
        }
        (values / block).checked_mul(self.block_bytes() as u64)
    }

    /// Dequantises `bytes`, whole blocks of this format, to `out`.
    ///
    /// # Panics
    /// If `bytes.len()` is not [`bytes_for(out.len())`](Format::bytes_for).
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) {
        self.check_len(bytes, out);
        self.decode(bytes, out);
    }

    /// Asserts that `bytes` has the blocks of `values`.
    pub(crate) fn check_len(self, bytes: &[u8], values: &[f32]) {
        let (found, values) = (bytes.len() as u64, values.len() as u64);
        assert_eq!(Some(found), self.bytes_for(values), "bytes given for {values} values of {self}");
    }
}

fn unsupported_name(id: u32) -> Option<&'static str> {
    const NAMES: [(u32, &str); 7] =
        [(9, "Q8_1"), (15, "Q8_K"), (24, "I8"), (25, "I16"), (26, "I32"), (27, "I64"), (28, "F64")];
    NAMES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}
