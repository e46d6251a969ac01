//! Tensor formats and their GGUF type ids.

use std::fmt;

/// The storage format of a tensor. Names and ids are ggml's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(non_camel_case_types, reason = "the names every user knows")]
#[expect(missing_docs, reason = "the module of each format has its byte layout")]
pub enum Format {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
    NVFP4,
    IQ3_XXS,
    IQ3_S,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ1_S,
    IQ1_M,
    TQ1_0,
    TQ2_0,
}

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

/// Per format: GGUF type id, name, values per block, bytes per block.
const TABLE: [(Format, u32, &str, usize, usize); 26] = [
    (Format::F32, 0, "F32", 1, 4),
    (Format::F16, 1, "F16", 1, 2),
    (Format::BF16, 30, "BF16", 1, 2),
    (Format::Q4_0, 2, "Q4_0", 32, 18),
    (Format::Q4_1, 3, "Q4_1", 32, 20),
    (Format::Q5_0, 6, "Q5_0", 32, 22),
    (Format::Q5_1, 7, "Q5_1", 32, 24),
    (Format::Q8_0, 8, "Q8_0", 32, 34),
    (Format::Q2_K, 10, "Q2_K", 256, 84),
    (Format::Q3_K, 11, "Q3_K", 256, 110),
    (Format::Q4_K, 12, "Q4_K", 256, 144),
    (Format::Q5_K, 13, "Q5_K", 256, 176),
    (Format::Q6_K, 14, "Q6_K", 256, 210),
    (Format::IQ4_NL, 20, "IQ4_NL", 32, 18),
    (Format::IQ4_XS, 23, "IQ4_XS", 256, 136),
    (Format::MXFP4, 39, "MXFP4", 32, 17),
    (Format::NVFP4, 40, "NVFP4", 64, 36),
    (Format::IQ3_XXS, 18, "IQ3_XXS", 256, 98),
    (Format::IQ3_S, 21, "IQ3_S", 256, 110),
    (Format::IQ2_XXS, 16, "IQ2_XXS", 256, 66),
    (Format::IQ2_XS, 17, "IQ2_XS", 256, 74),
    (Format::IQ2_S, 22, "IQ2_S", 256, 82),
    (Format::IQ1_S, 19, "IQ1_S", 256, 50),
    (Format::IQ1_M, 29, "IQ1_M", 256, 56),
    (Format::TQ1_0, 34, "TQ1_0", 256, 54),
    (Format::TQ2_0, 35, "TQ2_0", 256, 66),
];

impl Format {
    /// Every format, in the order of the enum.
    pub const ALL: [Format; 26] = {
        let mut all = [Format::F32; 26];
        let mut i = 0;
        while i < 26 {
            all[i] = TABLE[i].0;
            i += 1;
        }
        all
    };

    /// The format with GGUF type id `id`.
    pub fn from_id(id: u32) -> Result<Format, UnsupportedFormat> {
        let row = TABLE.iter().find(|row| row.1 == id);
        row.map(|row| row.0).ok_or(UnsupportedFormat { id, name: unsupported_name(id) })
    }

    /// The GGUF type id.
    pub fn id(self) -> u32 {
        TABLE[self as usize].1
    }

    /// ggml's name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Values per block; row lengths are multiples of it.
    pub const fn block_len(self) -> usize {
        TABLE[self as usize].3
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        TABLE[self as usize].4
    }

    /// Size in bytes of `values` values; `None` if they are not whole blocks or the size overflows.
    pub fn bytes_for(self, values: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !values.is_multiple_of(block) {
            return None;
        }
        (values / block).checked_mul(self.block_bytes() as u64)
    }
}

/// ggml's names of unsupported types.
fn unsupported_name(id: u32) -> Option<&'static str> {
    Some(match id {
        9 => "Q8_1",
        15 => "Q8_K",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_enum_order() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
    }
}
