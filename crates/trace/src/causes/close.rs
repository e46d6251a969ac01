//! The outputs of a product that are looked at one by one.

use backend::Weight;

use super::Diagnosis;
use crate::Matrix;
use crate::metrics::difference;

/// Output columns that are looked at closely, at most.
const COLUMNS: usize = 48;

/// The wrong output columns that are looked at closely: those with the largest errors.
pub(super) struct Close {
    /// Their numbers.
    pub(super) cols: Vec<usize>,
    /// Their rows of the weight: `[cols.len(), K]`.
    pub(super) weights: Matrix,
    /// What was recorded less what should be: `[cols.len()][rows]`.
    pub(super) errors: Vec<Vec<f64>>,
}

impl Close {
    pub(super) fn new(diagnosis: &Diagnosis<'_>, weight: &Weight) -> Close {
        let s = diagnosis.candidate;
        let error = |c: usize| -> f64 {
            s.region.rows.iter().map(|&r| difference(s.found.at(r, c), s.expected.at(r, c)).powi(2)).sum()
        };
        let mut by_error: Vec<(f64, usize)> = s.region.cols.iter().map(|&c| (error(c), c)).collect();
        by_error.sort_by(|a, b| b.0.total_cmp(&a.0));
        let cols: Vec<usize> = by_error.into_iter().take(COLUMNS).map(|(_, c)| c).collect();
        let mut weights = Vec::with_capacity(cols.len() * weight.cols);
        for &c in &cols {
            let mut row = vec![0.0; weight.cols];
            weight.format.dequantize(weight.row(c), &mut row);
            weights.extend(row);
        }
        let difference = |r: usize, c: usize| f64::from(s.found.at(r, c)) - f64::from(s.expected.at(r, c));
        let errors = cols.iter().map(|&c| (0..s.found.rows).map(|r| difference(r, c)).collect()).collect();
        Close { cols, weights: Matrix::new(weight.cols, weights), errors }
    }
}
