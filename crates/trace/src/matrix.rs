//! A value of a trace in memory.

use backend::Weight;
use quant::Format;

/// A row-major matrix of f32.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// Rows: positions.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// `rows * cols` elements.
    pub data: Vec<f32>,
}

impl Matrix {
    /// A matrix of `cols` columns; panics if `data` is not whole rows.
    pub fn new(cols: usize, data: Vec<f32>) -> Matrix {
        let rows = data.len() / cols.max(1);
        assert_eq!(rows * cols, data.len(), "whole rows of {cols}");
        Matrix { rows, cols, data }
    }

    /// A matrix of `value(row, column)`.
    pub fn from_fn(rows: usize, cols: usize, mut value: impl FnMut(usize, usize) -> f32) -> Matrix {
        let data = (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))).map(|(r, c)| value(r, c)).collect();
        Matrix { rows, cols, data }
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..][..self.cols]
    }

    /// One element.
    pub fn at(&self, row: usize, col: usize) -> f32 {
        self.data[row * self.cols + col]
    }

    /// A matrix of `change(element)`.
    pub fn map(&self, change: impl Fn(f32) -> f32) -> Matrix {
        Matrix { data: self.data.iter().copied().map(change).collect(), ..*self }
    }

    pub(crate) fn zip(a: &Matrix, b: &Matrix, of: impl Fn(f32, f32) -> f32) -> Matrix {
        Matrix { data: a.data.iter().zip(&b.data).map(|(&a, &b)| of(a, b)).collect(), ..*a }
    }

    /// Some rows, in this order.
    pub fn take_rows(&self, rows: &[usize]) -> Matrix {
        let data = rows.iter().flat_map(|&row| self.row(row)).copied().collect();
        Matrix { rows: rows.len(), cols: self.cols, data }
    }

    pub(crate) fn weight(&self) -> Weight {
        let bytes: Vec<u8> = self.data.iter().flat_map(|x| x.to_le_bytes()).collect();
        Weight::matrix(Format::F32, self.rows, self.cols, bytes.into())
    }
}
