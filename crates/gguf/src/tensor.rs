//! A tensor of a file: name, shape, format and its bytes.

use bytes::Bytes;
use quant::Format;

use crate::error::Problem;

/// A tensor, its data still in the file's mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name, such as `blk.0.attn_q.weight`; unique in a model.
    pub name: String,
    /// Dimensions as in the file, fastest first, none zero, at most 4: `[2048, 256]` is 256 rows of
    /// 2048 values that follow each other.
    pub shape: Vec<usize>,
    /// How the values are stored.
    pub format: Format,
    /// The rows one after the other, whole blocks each. The start need not be aligned in memory.
    pub data: Bytes,
}

impl Tensor {
    /// Values in a row: the first dimension.
    pub fn row_len(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of the other dimensions.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.row_len() / self.format.block_len() * self.format.block_bytes()
    }

    /// The bytes of one row, or `None` past the last.
    pub fn row(&self, row: usize) -> Option<&[u8]> {
        let start = row.checked_mul(self.row_bytes())?;
        self.data.get(start..start.checked_add(self.row_bytes())?)
    }
}

/// Bytes of a tensor with these dimensions; refuses shapes no file may hold.
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
