//! Tensors.

use bytes::Bytes;
use quant::{Format, UnsupportedFormat};

use crate::error::Problem;

/// A tensor; its data is a slice of the mapped file.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name, such as `blk.0.attn_q.weight`; unique in a model.
    pub name: String,
    /// 1 to 4 dimensions as in the file, fastest first, none zero: `[2048, 256]` is 256 contiguous rows of 2048 values.
    pub shape: Vec<usize>,
    /// Storage format.
    pub format: Format,
    /// The contiguous rows, each of whole blocks. Not necessarily aligned in memory.
    pub data: Bytes,
}

impl Tensor {
    /// Values per row: the first dimension.
    pub fn row_len(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of the other dimensions.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_len() / self.format.block_len() * self.format.block_bytes()
    }

    /// The bytes of one row; `None` if out of range.
    pub fn row(&self, row: usize) -> Option<&[u8]> {
        let start = row.checked_mul(self.row_bytes())?;
        self.data.get(start..start.checked_add(self.row_bytes())?)
    }
}

/// A tensor in an unknown format, whose size in bytes is unknown, too.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "as in `Tensor`")]
pub struct UnsupportedTensor {
    /// Number of tensors before it in the file.
    pub index: usize,
    pub name: String,
    pub shape: Vec<usize>,
    pub format: UnsupportedFormat,
}

/// Size in bytes of a tensor of this shape; fails for invalid shapes.
pub(crate) fn byte_len(shape: &[u64], format: Format) -> Result<u64, Problem> {
    if shape.contains(&0) {
        return Err(Problem::ZeroDim(shape.to_vec()));
    }
    let row_len = shape.first().copied().unwrap_or(1);
    if !row_len.is_multiple_of(format.block_len() as u64) {
        return Err(Problem::PartialBlock { row_len, format });
    }
    shape
        .iter()
        .try_fold(1u64, |values, &dim| values.checked_mul(dim))
        .and_then(|values| format.bytes_for(values))
        .ok_or_else(|| Problem::Overflow(shape.to_vec()))
}
