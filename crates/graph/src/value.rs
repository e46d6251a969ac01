//! What a graph is made of: values, and the weights that they are computed with.

use std::ops::Range;
use std::panic::Location;

use crate::Op;

/// `count` matrices of `rows` rows of `cols` contiguous values: a tensor of the file, or some rows of one.
///
/// The file lists the same shape fastest dimension first: `[cols, rows, count]`. A vector has one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Unique in the graph: the tensor's name, with the range behind it where it is some of the rows.
    pub name: String,
    /// The tensor that holds it, such as `blk.0.attn_q.weight`.
    pub tensor: String,
    /// Rows of that tensor, of one of its matrices.
    pub tensor_rows: usize,
    /// Its rows among these.
    pub range: Range<usize>,
    /// Rows: the outputs of a linear layer, the tokens of an embedding.
    pub rows: usize,
    /// Columns: the inputs of a linear layer, the width of an embedding.
    pub cols: usize,
    /// Matrices: 1, or one for each expert.
    pub count: usize,
}

impl Weight {
    /// All of a tensor.
    pub(crate) fn whole(tensor: String, [count, rows, cols]: [usize; 3]) -> Weight {
        Weight { name: tensor.clone(), tensor, tensor_rows: rows, range: 0..rows, rows, cols, count }
    }

    /// Some rows of a tensor of one matrix.
    pub(crate) fn part(tensor: String, tensor_rows: usize, range: Range<usize>, cols: usize) -> Weight {
        let name = format!("{tensor}[{}..{}]", range.start, range.end);
        let rows = range.len();
        Weight { name, tensor, tensor_rows, range, rows, cols, count: 1 }
    }

    /// The tensor's shape as the file lists it, fastest dimension first, without trailing ones.
    pub fn tensor_shape(&self) -> Vec<usize> {
        let mut shape = vec![self.cols, self.tensor_rows, self.count];
        while shape.len() > 1 && shape.last() == Some(&1) {
            shape.pop();
        }
        shape
    }
}

/// How many rows a value has in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One for each token of the step.
    Step,
    /// One for each output row of the step.
    Output,
}

/// A named matrix and the operation that makes it.
#[derive(Clone, Debug)]
pub struct Value {
    /// llama.cpp's name for it, such as `Qcur-0`; unique in the graph.
    pub name: String,
    /// What makes it.
    pub op: Op,
    /// Its rows.
    pub rows: Rows,
    /// Its columns.
    pub cols: usize,
    /// The line of the model that made it, for errors.
    pub location: &'static Location<'static>,
}
