//! Values and weights of a graph.

use std::ops::Range;
use std::panic::Location;

use crate::Op;

/// `count` row-major matrices `[rows, cols]`: a whole tensor of the file, a row range of one, or the halves of its matrices.
///
/// GGUF lists dimensions fastest first: `[cols, rows, count]`. A vector has one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Name, unique in the graph: the tensor's name, followed by the row range if it is not the whole tensor.
    pub name: String,
    /// The tensor of the file, such as `blk.0.attn_q.weight`.
    pub tensor: String,
    /// Rows per matrix of that tensor.
    pub tensor_rows: usize,
    /// The row range of the tensor that this weight covers.
    pub range: Range<usize>,
    /// Rows: the outputs of a linear layer, the tokens of an embedding.
    pub rows: usize,
    /// Columns: the inputs of a linear layer, the width of an embedding.
    pub cols: usize,
    /// Matrices: 1, or one for each expert or head, or two for each expert.
    pub count: usize,
}

impl Weight {
    /// The tensor's shape as the file lists it, fastest dimension first, without trailing ones.
    pub fn tensor_shape(&self) -> Vec<usize> {
        let count = if self.range.len() == self.rows { self.count } else { self.count / 2 };
        let mut shape = vec![self.cols, self.tensor_rows, count];
        while shape.len() > 1 && shape.last() == Some(&1) {
            shape.pop();
        }
        shape
    }
}

/// The number of rows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One per token of the step.
    Step,
    /// One per output row of the step.
    Output,
}

/// A named matrix and the operation that computes it.
#[derive(Clone, Debug)]
pub struct Value {
    /// llama.cpp's name for it, such as `Qcur-0`; unique in the graph.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// Rows.
    pub rows: Rows,
    /// Columns.
    pub cols: usize,
    /// Source location in the model code, for error messages.
    pub location: &'static Location<'static>,
}
