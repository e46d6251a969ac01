//! Weights as backends get them.

use std::collections::HashMap;

use bytes::Bytes;
use quant::Format;

use crate::Error;

/// A weight's bytes: `count` matrices of `rows` rows of `cols` values in `format`, one after the other as in the file.
///
/// The bytes are shared: as a rule a range of a file's map, which a backend uses in place.
#[derive(Clone, Debug)]
pub struct Weight {
    /// How the values are stored.
    pub format: Format,
    /// Matrices: 1, or one for each expert.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
    /// Values a row, whole blocks of `format`.
    pub cols: usize,
    /// `count` times `rows` times `format.bytes_for(cols)` bytes.
    pub bytes: Bytes,
}

impl Weight {
    /// Checks that the bytes are those of the shape.
    ///
    /// # Errors
    /// When they are not; `name` names the weight.
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
            count: self.count,
            rows: self.rows,
            cols: self.cols,
            found: self.bytes.len(),
            expected: expected.map_or("whole blocks".to_owned(), |bytes| bytes.to_string()),
        })
    }

    /// A weight of one matrix.
    pub fn matrix(format: Format, rows: usize, cols: usize, bytes: Bytes) -> Weight {
        Weight { format, count: 1, rows, cols, bytes }
    }

    /// The bytes of one row; rows of later matrices follow those of earlier ones.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.bytes.len() / (self.count * self.rows);
        &self.bytes[row * bytes..][..bytes]
    }

    /// One of its matrices.
    pub fn part(&self, index: usize) -> Weight {
        let bytes = self.bytes.len() / self.count;
        Weight { count: 1, bytes: self.bytes.slice(index * bytes..(index + 1) * bytes), ..self.clone() }
    }
}

/// Where a backend gets the weights of a graph.
pub trait Weights {
    /// The bytes of `weight`, if they are there.
    fn weight(&self, weight: &graph::Weight) -> Option<Weight>;
}

/// By the names of the graph's weights.
impl Weights for HashMap<String, Weight> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        self.get(&weight.name).cloned()
    }
}
