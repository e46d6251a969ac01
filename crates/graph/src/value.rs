//! Values and weights of a graph.

use std::ops::Range;
use std::panic::Location;

use crate::Op;

/// `count` row-major matrices `[rows, cols]`, one row for a vector: a whole tensor, a row range of one, the halves of its
/// matrices, or a share of these. GGUF lists dimensions fastest first: `[cols, rows, count]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Name, unique in the graph: the tensor's, with the row range of a part, and with the rows and columns of a share.
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
    /// The rank's share, in a sharded graph; `None` for the whole weight.
    pub share: Option<Box<Share>>,
}

/// Which part of each matrix of a weight a rank has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight of the whole graph.
    pub whole: Weight,
    /// Rows of each of its matrices.
    pub rows: Range<usize>,
    /// Columns of each of its matrices.
    pub cols: Range<usize>,
}

impl Weight {
    /// The tensor `name`, `count` matrices `[rows, cols]`.
    pub(crate) fn whole(name: String, [count, rows, cols]: [usize; 3]) -> Weight {
        let tensor = name.clone();
        Weight { name, tensor, tensor_rows: rows, range: 0..rows, rows, cols, count, share: None }
    }

    /// These rows and columns of each of its matrices, as a weight of a rank.
    pub(crate) fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Weight {
        if rows.len() == self.rows && cols.len() == self.cols {
            return self.clone();
        }
        let name = format!("{}[{}..{}, {}..{}]", self.name, rows.start, rows.end, cols.start, cols.end);
        let part = Weight { name, rows: rows.len(), cols: cols.len(), ..self.clone() };
        Weight { share: Some(Box::new(Share { whole: self.clone(), rows, cols })), ..part }
    }

    /// The tensor's shape as the file lists it, fastest dimension first, without trailing ones.
    pub fn tensor_shape(&self) -> Vec<usize> {
        if let Some(share) = &self.share {
            return share.whole.tensor_shape();
        }
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
