//! Weights, as passed to backends.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use quant::Format;

use crate::Error;

/// A weight: `count` row-major matrices `[rows, cols]` in `format`, contiguous as in the file. The bytes are shared; usually they are
/// a range of the mapped file, which a backend may use in place.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Weight {
    pub format: Format,
    /// Number of matrices: 1, or one or two per expert, or one per head.
    pub count: usize,
    /// Per matrix.
    pub rows: usize,
    /// A multiple of the block length.
    pub cols: usize,
    /// `count * rows * format.bytes_for(cols)` bytes.
    pub bytes: Bytes,
}

impl Weight {
    /// Checks the size against the shape; the error names the weight by `name`.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let row = self.format.bytes_for(self.cols as u64);
        let rows = (self.rows as u64).checked_mul(self.count as u64);
        let expected = row.zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
        if expected == Some(self.bytes.len() as u64) {
            return Ok(());
        }
        let expected = expected.map_or("whole blocks".to_owned(), |bytes| format!("{bytes} bytes"));
        let (format, shape, found) = (self.format, [self.count, self.rows, self.cols], self.bytes.len());
        Err(Error::WeightBytes { name: name.to_owned(), format, shape, found, expected })
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

    /// These rows and columns, whole blocks, of each matrix. Rows of a single matrix are shared, everything else is copied. The
    /// error names the weight by `name`.
    pub fn share(&self, name: &str, rows: Range<usize>, cols: Range<usize>) -> Result<Weight, Error> {
        let (block, row) = (self.format.block_len(), self.bytes.len() / (self.count * self.rows).max(1));
        if !cols.start.is_multiple_of(block) || !cols.end.is_multiple_of(block) {
            let format = self.format;
            let why =
                format!("columns {cols:?} of `{name}` are not whole blocks of {block}, as {format} has");
            return Err(Error::Shard(why));
        }
        let shared = Weight { rows: rows.len(), cols: cols.len(), ..self.clone() };
        if self.count == 1 && cols.len() == self.cols {
            return Ok(Weight { bytes: self.bytes.slice(rows.start * row..rows.end * row), ..shared });
        }
        let at = |col: usize| col / block * self.format.block_bytes();
        let part = at(cols.start)..at(cols.end);
        let mut bytes = Vec::with_capacity(self.count * rows.len() * part.len());
        for matrix in 0..self.count {
            for index in rows.clone() {
                bytes.extend_from_slice(&self.row(matrix * self.rows + index)[part.clone()]);
            }
        }
        Ok(Weight { bytes: bytes.into(), ..shared })
    }

    /// One of the matrices.
    pub fn part(&self, index: usize) -> Weight {
        let bytes = self.bytes.len() / self.count;
        Weight { count: 1, bytes: self.bytes.slice(index * bytes..(index + 1) * bytes), ..self.clone() }
    }
}

/// A source of weights.
pub trait Weights {
    /// The weight that the graph declares, if available; not asked for the shares of a sharded graph ([`Shares`]).
    fn weight(&self, weight: &graph::Weight) -> Option<Weight>;
}

/// The weights of a sharded graph, of those of the whole one.
#[derive(Clone, Copy)]
pub struct Shares<'a>(pub &'a dyn Weights);

impl Weights for Shares<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let Some(share) = &weight.share else { return self.0.weight(weight) };
        let whole = self.0.weight(&share.whole)?;
        // If the weight has another shape, or values that do not fit its shape, the whole is returned: the caller's error names it.
        let expected = &share.whole;
        let fits = [whole.count, whole.rows, whole.cols] == [expected.count, expected.rows, expected.cols];
        if !fits || whole.check(&share.whole.name).is_err() {
            return Some(whole);
        }
        whole.share(&share.whole.name, share.rows.clone(), share.cols.clone()).ok()
    }
}

/// Weights by their names in the graph.
impl Weights for HashMap<String, Weight> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        self.get(&weight.name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two matrices `[3, 4 blocks]` of each format, of arbitrary bits.
    #[test]
    fn shares_have_the_values_of_the_whole() {
        for format in Format::ALL {
            let (count, rows, cols) = (2, 3, 4 * format.block_len());
            let len = count * rows * 4 * format.block_bytes();
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 13) as u8).collect();
            let whole = Weight { format, count, rows, cols, bytes: bytes.into() };
            let all = bits(&whole);
            let block = format.block_len();
            for (part_rows, part_cols) in
                [(0..3, 0..cols), (1..3, 0..cols), (0..3, block..3 * block), (2..3, 3 * block..cols)]
            {
                let share = whole.share("w", part_rows.clone(), part_cols.clone()).expect("whole blocks");
                share.check("w").expect("as many bytes as its shape has");
                let expected: Vec<u32> = (0..count)
                    .flat_map(|matrix| part_rows.clone().map(move |row| (matrix * rows + row) * cols))
                    .flat_map(|row| all[row + part_cols.start..row + part_cols.end].to_vec())
                    .collect();
                assert_eq!(bits(&share), expected, "{format}, rows {part_rows:?}, columns {part_cols:?}");
                let first =
                    whole.part(0).share("w", part_rows.clone(), part_cols.clone()).expect("whole blocks");
                assert_eq!(bits(&first), expected[..expected.len() / 2], "{format}, one matrix");
            }
            if block > 1 {
                let error = whole.share("w", 0..3, 1..block).expect_err("part of a block").to_string();
                assert!(error.contains(&format!("`w` are not whole blocks of {block}")), "{error}");
            }
        }
    }

    fn bits(weight: &Weight) -> Vec<u32> {
        weight.vector().into_iter().map(f32::to_bits).collect()
    }

    #[test]
    fn rows_of_a_matrix_are_not_copied() {
        let whole = Weight::matrix(Format::F32, 4, 2, vec![0; 32].into());
        let share = whole.share("w", 1..3, 0..2).expect("whole blocks");
        assert_eq!(share.bytes.as_ptr(), whole.bytes[8..].as_ptr());
    }
}
