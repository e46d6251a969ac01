//! Weights, as passed to backends.

use std::collections::HashMap;

use bytes::Bytes;
use quant::Format;

use crate::Error;

/// A weight: `count` row-major matrices `[rows, cols]` in `format`, contiguous as in the file.
///
/// The bytes are shared; usually they are a range of the mapped file, which a backend may use in place.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Storage format.
    pub format: Format,
    /// Number of matrices: 1, or one or two per expert, or one per head.
    pub count: usize,
    /// Rows per matrix.
    pub rows: usize,
    /// Values per row, a multiple of the block length.
    pub cols: usize,
    /// `count * rows * format.bytes_for(cols)` bytes.
    pub bytes: Bytes,
}

impl Weight {
    /// Checks the size against the shape.
    ///
    /// # Errors
    /// If they do not match; the error names the weight by `name`.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let row = self.format.bytes_for(self.cols as u64);
        let rows = (self.rows as u64).checked_mul(self.count as u64);
        let expected = row.zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
        if expected == Some(self.bytes.len() as u64) {
            return Ok(());
        }
        Err(Error::WeightBytes {
            name: name.to_owned(),
            format: self.format,
            shape: [self.count, self.rows, self.cols],
            found: self.bytes.len(),
            expected: expected.map_or("whole blocks".to_owned(), |bytes| format!("{bytes} bytes")),
        })
    }

    /// All rows, dequantised: one, or one per expert.
    pub fn vector(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.count * self.rows * self.cols];
        self.format.dequantize(&self.bytes, &mut values);
        values
    }

    /// A weight with one matrix.
    pub fn matrix(format: Format, rows: usize, cols: usize, bytes: Bytes) -> Weight {
        Weight { format, count: 1, rows, cols, bytes }
    }

    /// The bytes of one row; row indices continue across matrices.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.bytes.len() / (self.count * self.rows);
        &self.bytes[row * bytes..][..bytes]
    }

    /// One of the matrices.
    pub fn part(&self, index: usize) -> Weight {
        let bytes = self.bytes.len() / self.count;
        Weight { count: 1, bytes: self.bytes.slice(index * bytes..(index + 1) * bytes), ..self.clone() }
    }
}

/// A source of weights.
pub trait Weights {
    /// The weight that the graph declares, if available.
    fn weight(&self, weight: &graph::Weight) -> Option<Weight>;
}

/// Weights by their names in the graph.
impl Weights for HashMap<String, Weight> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        self.get(&weight.name).cloned()
    }
}
