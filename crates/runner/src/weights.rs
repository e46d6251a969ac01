//! Weights of a graph from a GGUF file.

use backend::{Weight, Weights};
use gguf::Gguf;

/// The tensors of a file, as slices of its memory map.
#[derive(Clone, Copy, Debug)]
pub struct FileWeights<'a>(pub &'a Gguf);

impl Weights for FileWeights<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let tensor = self.0.tensor(&weight.tensor)?;
        let (cols, row) = (tensor.row_len(), tensor.row_bytes());
        let (format, count) = (tensor.format, weight.count.max(1));
        let rows = weight.range.len();
        let is_whole = rows == weight.tensor_rows;
        // A row range belongs to a two-dimensional tensor, so its rows are contiguous.
        let bytes = if is_whole {
            tensor.data.clone()
        } else if tensor.rows() == weight.tensor_rows {
            tensor.data.slice(weight.range.start * row..weight.range.end * row)
        } else {
            return None;
        };
        let rows = if is_whole { tensor.rows() / count } else { rows };
        Some(Weight { format, count, rows, cols, bytes })
    }
}
