//! The weights of a graph, as its file holds them.

use backend::{Weight, Weights};
use gguf::Gguf;

/// The tensors of a file, in place: bytes are slices of its map.
#[derive(Clone, Copy, Debug)]
pub struct FileWeights<'a>(pub &'a Gguf);

impl Weights for FileWeights<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let tensor = self.0.tensor(&weight.tensor)?;
        let (cols, row) = (tensor.row_len(), tensor.row_bytes());
        let (format, count) = (tensor.format, weight.count.max(1));
        let rows = weight.range.len();
        let is_whole = rows == weight.tensor_rows;
        // What is some rows of a tensor is one matrix, so its rows lie together.
        let bytes = match is_whole {
            true => tensor.data.clone(),
            false if tensor.rows() == weight.tensor_rows => {
                tensor.data.slice(weight.range.start * row..weight.range.end * row)
            }
            false => return None,
        };
        let rows = if is_whole { tensor.rows() / count } else { rows };
        Some(Weight { format, count, rows, cols, bytes })
    }
}
