//! The error that rounding the inputs of a matmul, or keys and values, causes.
//!
//! Engines round activations to 8 bits in blocks for quantised weights, and to F16 or BF16 for weights of that format, in two
//! usual ways. A key or value on a boundary between two quants of the cache may become either: all such numbers, or such values
//! alone, are on the other side. The reference backend computes the operation in both ways.

use graph::Role;
use half::{bf16, f16};
use quant::Format;

use crate::cache::{self, Choice};
use crate::metrics::ratio;
use crate::oracle::Call;
use crate::{Error, Matrix, Oracle};

/// Inputs per block of rounded activations, for weights in blocks of as many, and in some engines for all.
const BLOCK: usize = 32;

/// Rows from which a bias is no coincidence.
pub(super) const ROWS: usize = 4;

pub(super) const WAYS: usize = 2;

/// What each way of rounding adds to a result; nothing where inputs are not rounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounding {
    added: Option<[Matrix; WAYS]>,
    /// By row, the way that adds more, and the sum of its squares.
    rows: Vec<(usize, f64)>,
    /// By column, its share of these sums.
    shares: Vec<f64>,
}

pub(super) static NONE: Rounding = Rounding { added: None, rows: Vec::new(), shares: Vec::new() };

impl Rounding {
    pub(super) fn new(added: [Matrix; WAYS]) -> Rounding {
        let (n, cols) = (added[0].rows, added[0].cols);
        let size =
            |way: usize, r: usize| added[way].row(r).iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let larger = |r: usize| if size(1, r) > size(0, r) { (1, size(1, r)) } else { (0, size(0, r)) };
        let rows = (0..n).map(larger).collect();
        let rounding = Rounding { added: Some(added), rows, shares: Vec::new() };
        let share = |c: usize| {
            let sum: f64 = (0..n).map(|r| ratio(rounding.square(r, c), rounding.rows[r].1)).sum();
            // A single element is not significant.
            let least = if n < ROWS { 1.0 / cols as f64 } else { 0.0 };
            (sum / n as f64).max(least)
        };
        let shares = (0..cols).map(share).collect();
        Rounding { shares, ..rounding }
    }

    /// The rounding of `call` on `inputs`, whose exact result is `expected`.
    pub(crate) fn of(
        oracle: &Oracle<'_>,
        call: &Call,
        inputs: &[Matrix],
        expected: &Matrix,
    ) -> Result<Rounding, Error> {
        let format = format(oracle, call)?;
        if format.is_none() && call.op.store().is_none() {
            return Ok(Rounding::default());
        }
        let added = |way: usize| -> Result<Matrix, Error> {
            let changed = |(slot, x): (usize, &Matrix)| match (format, oracle.cached(call, slot)) {
                (Some(format), _) if slot == 0 => rounded(x, format, way),
                // The replay stores it once more, which changes nothing.
                (None, Some((dim, kind))) if slot > way => cache::stored(x, dim, kind, Choice::Other),
                _ => x.clone(),
            };
            let inputs: Vec<Matrix> = inputs.iter().enumerate().map(changed).collect();
            Ok(Matrix::zip(&oracle.run(call, &inputs)?, expected, |made, expected| made - expected))
        };
        Ok(Rounding::new([added(0)?, added(1)?]))
    }

    pub(crate) fn at(&self, row: usize, col: usize) -> [f64; WAYS] {
        self.added
            .as_ref()
            .map_or([0.0; WAYS], |ways| ways.each_ref().map(|added| f64::from(added.at(row, col))))
    }

    /// The squared error of an element, in the way that adds more to its row.
    pub(super) fn square(&self, row: usize, col: usize) -> f64 {
        let way = self.rows.get(row).map_or(0, |(way, _)| *way);
        self.at(row, col)[way].powi(2)
    }

    /// The squared error that an element of this row and column usually has.
    pub(super) fn usual(&self, row: usize, col: usize) -> f64 {
        self.rows.get(row).map_or(0.0, |(_, sum)| sum * self.shares[col])
    }
}

/// The format of the weights of a matmul, unless it is F32.
pub(crate) fn format(oracle: &Oracle<'_>, call: &Call) -> Result<Option<Format>, Error> {
    let mut matrices = call.op.weights().filter(|(_, role)| matches!(role, Role::Matrix | Role::Experts));
    let weight = matrices.next().map(|(id, _)| oracle.weight(id)).transpose()?;
    Ok(weight.map(|weight| weight.format).filter(|&format| format != Format::F32))
}

pub(super) fn rounded(x: &Matrix, format: Format, way: usize) -> Matrix {
    let block = format.block_len().max(BLOCK);
    let row = |r: usize| x.row(r).chunks(block).flat_map(|x| rounded_block(x, format, way));
    Matrix::new(x.cols, (0..x.rows).flat_map(row).collect())
}

/// Rounds blocks to 127 steps of their largest input; to F16 and BF16 to the nearest, or by truncation.
fn rounded_block(x: &[f32], format: Format, way: usize) -> Vec<f32> {
    let cut = |x: f32, bits: u32| f32::from_bits(x.to_bits() & (u32::MAX << bits));
    match (format, way) {
        (Format::F16, 0) => x.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
        (Format::F16, _) => x.iter().map(|&x| cut(x, 13)).collect(),
        (Format::BF16, 0) => x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect(),
        (Format::BF16, _) => x.iter().map(|&x| cut(x, 16)).collect(),
        _ => {
            let steps = |x: &[f32]| -> Vec<f32> {
                let step = x.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
                x.iter().map(|&x| if step > 0.0 { (x / step).round() * step } else { 0.0 }).collect()
            };
            let len = if way == 0 { BLOCK } else { x.len() };
            x.chunks(len).flat_map(steps).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the largest of the block is 127, so a step is 1, and 0.3 becomes 0.
    #[test]
    fn small_inputs_are_lost_beside_an_outlier() {
        let x = Matrix::from_fn(1, 32, |_, k| if k == 0 { 127.0 } else { 0.3 });
        for way in 0..WAYS {
            let rounded = rounded(&x, Format::Q8_0, way);
            assert_eq!(rounded, Matrix::from_fn(1, 32, |_, k| if k == 0 { 127.0 } else { 0.0 }));
        }
    }

    /// 1 + 2^-7 is the next of BF16 after 1, and what is between them becomes 1 when it is cut off.
    #[test]
    fn cutting_off_makes_smaller() {
        let x = [1.0, 1.007, -1.007];
        assert_eq!(rounded_block(&x, Format::BF16, 0), [1.0, 1.0078125, -1.0078125]);
        assert_eq!(rounded_block(&x, Format::BF16, 1), [1.0, 1.0, -1.0]);
        assert_eq!(rounded_block(&[1.0009], Format::F16, 0), [1.0009766]);
        assert_eq!(rounded_block(&[1.0009], Format::F16, 1), [1.0]);
    }
}
